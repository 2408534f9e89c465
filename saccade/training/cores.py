"""How many cores there are, and how threads on them wait for each other."""

import os

# Threads that wait for one another may spin for a while before they sleep. Those that spin long
# take the machine from other programs, and from a thread on the same core; those that sleep at
# once are late for the next piece of work. 16,000 turns are the best alone, for learning and for
# writing, and beside a busy process better than the library's own number
# (benchmarks/waiting.py). Read when torch is loaded, and only then; who sets it has their way.
WAITING = {"GOMP_SPINCOUNT": "16000"}


def cores() -> int:
    """Those that this process may use."""
    mine = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(mine(0)) if mine else os.cpu_count() or 1
