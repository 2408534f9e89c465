"""Number of CPU cores, and the waiting policy of OpenMP threads."""

import os

# OpenMP threads spin for a while before they sleep. Long spinning takes CPU time from other
# processes; immediate sleeping delays the next parallel region. 4,000 spins are near the optimum on
# an idle machine, and nearly twice as fast as libgomp's default next to a busy process
# (benchmarks/waiting.py). libgomp reads the variable when torch is imported; a value that the user
# has set is kept.
OMP_ENV = {"GOMP_SPINCOUNT": "4000"}


def available_cpus() -> int:
    """Return the number of CPU cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # on Linux
    return len(affinity(0)) if affinity else os.cpu_count() or 1
