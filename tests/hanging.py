"""Limit of tests that wait: long enough for a slow or busy machine, for what hangs only."""

HANG_SECONDS = 1800
