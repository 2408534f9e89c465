"""Compiled loops (numba), for packages that must not depend on each other."""
