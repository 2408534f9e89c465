"""How many cores there are, and how threads on them wait for each other."""

import os

# Threads that wait for one another may spin for a while before they sleep. The longer they spin,
# the quicker a step alone on the machine, and the slower beside another busy process: people have
# other programs open. 4,000 turns are near the best alone; with 1,000 a GPT wrote at half its rate,
# and with the library's own number at half of that beside a busy process (benchmarks/waiting.py).
# Read when torch is loaded, and only then; who sets it has their way.
WAITING = {"GOMP_SPINCOUNT": "4000"}


def cores() -> int:
    """Those that this process may use."""
    mine = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(mine(0)) if mine else os.cpu_count() or 1
