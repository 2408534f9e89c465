"""Distribution shift: importance weights and detection."""
