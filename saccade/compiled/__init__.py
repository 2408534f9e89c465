"""Decorators for compiled loops (numba)."""
