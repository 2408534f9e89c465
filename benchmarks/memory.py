"""Effect of keeping freed memory: the same steps with and without `tune_malloc()`.

    SACCADE_DATA=folder python benchmarks/memory.py

Each variant runs in its own process, because the setting cannot be undone. A page fault is one page
of 4 kB that the system had to provide again. If there is no gain (another C library, another
allocator), the setting is not needed.
"""

import json
import resource
import subprocess
import sys
import time

from timing import print_machine, some_batches, spread, table, train_on, translation_objective

from saccade.optim import adamw
from saccade.training.device import set_num_threads, tune_malloc

STEPS, WARMUP = 6, 2
SIZES = {"width": 256, "depth": 3, "heads": 4, "hidden": 1024, "dropout": 0.1}


def child(keeping: bool) -> None:
    """Train a few steps and print rates, page faults and peak memory as JSON."""
    set_num_threads(None)
    if keeping:
        tune_malloc()
    objective = translation_objective(
        {"name": "transformer", "shared_vocab": True, **SIZES}, budget=2048
    )
    optimizer = adamw(objective.model, 1e-3, 0.01)
    batches = some_batches(objective, WARMUP + STEPS)
    rates = []
    faults = 0
    for number, batch in enumerate(batches):
        before, start = _faults(), time.perf_counter()
        train_on(objective, optimizer, batch)
        if number >= WARMUP:
            rates.append(batch.tokens / (time.perf_counter() - start))
            faults += _faults() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rates": rates, "faults": faults / STEPS, "peak": peak}))


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    found: dict[str, list[dict]] = {"without": [], "with": []}
    for way in ("without", "with", "with", "without"):  # in both orders, against drift
        ran = subprocess.run(
            [sys.executable, __file__, way], capture_output=True, text=True, check=True
        )
        found[way].append(json.loads(ran.stdout.splitlines()[-1]))
    rows = []
    for way, runs in found.items():
        rate = spread([rate for run in runs for rate in run["rates"]])
        faults = spread([run["faults"] for run in runs])
        peak = spread([run["peak"] for run in runs])
        rows.append([way, rate, f"{faults.middle:,.0f}", f"{peak.middle:,.0f} MB"])
    heads = ["tune_malloc()", "target tokens/s", "page faults per step", "peak memory"]
    table(heads, rows)
    gain = [spread([r for run in found[way] for r in run["rates"]]).middle for way in found]
    print(
        f"\nwith / without: {gain[1] / gain[0]:.2f}; {STEPS} steps, twice each, after {WARMUP} "
        "warm-up steps."
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        child(sys.argv[1] == "with")
    else:
        main()
