"""Seeing without changing: `watch` collects attention, `terminal` and `draw` show it."""
