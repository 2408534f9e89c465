"""Files: atomic and checksummed writes, safetensors, locks, text of any encoding."""
