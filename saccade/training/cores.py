"""How many cores there are, and how threads on them wait for each other."""

import os

# Threads that spin long while they wait for one another gain up to a quarter alone on the machine,
# and take up to twice as long beside one other busy process (benchmarks/waiting.py). People have
# other programs open; who has not may set it themselves. Read when torch is loaded, and only then.
WAITING = {"GOMP_SPINCOUNT": "1000"}


def cores() -> int:
    """Those that this process may use."""
    mine = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(mine(0)) if mine else os.cpu_count() or 1
