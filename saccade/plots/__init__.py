"""Rendering of `inspection` data: matplotlib figures, terminal maps, JSON for a browser."""
