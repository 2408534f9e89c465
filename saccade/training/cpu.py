"""How many cores there are, and how threads on them wait for each other."""

import os

# Threads that wait for one another may spin for a while before they sleep. Those that spin long
# take the machine from other programs; those that sleep at once are late for the next piece of
# work. 4,000 turns are near the best alone, and nearly twice as quick as the library's own number
# beside a busy process (benchmarks/waiting.py). Read when torch is loaded, and only then; who sets
# it has their way.
OMP_ENV = {"GOMP_SPINCOUNT": "4000"}


def available_cpus() -> int:
    """Those that this process may use."""
    mine = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(mine(0)) if mine else os.cpu_count() or 1
