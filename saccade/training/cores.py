"""How many cores there are."""

import os


def cores() -> int:
    """Those that this process may use."""
    mine = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(mine(0)) if mine else os.cpu_count() or 1
