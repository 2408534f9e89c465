"""Command line: one module per command, named like it."""
