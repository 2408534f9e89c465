"""Models with a fit of their own: by counting, sorting or solving, not by gradient steps."""
