"""Should threads spin while they wait for each other? Alone, and beside one busy process.

    python benchmarks/waiting.py

Steps of `bahdanau` on the made dates, each setting in a process of its own, because the OpenMP
library reads it once. If 1000 is no longer better beside a busy process, or is worse alone, the
command line should stop setting it.
"""

import os
import statistics
import subprocess
import sys
import time

STEPS, WARMUP = 40, 5


def child() -> None:
    """Train a few steps and print the median of their milliseconds."""
    from timing import train_on

    from saccade.optim import adamw
    from saccade.recipes.translation import dates
    from saccade.tasks.translation import Translation, prepare
    from saccade.training.precision import keep_memory, set_threads

    set_threads(None)
    keep_memory()
    recipe = dates().with_values(data={"made": "dates", "size": 20_000})
    prepared = prepare(recipe, lambda what, done, total: None)
    task = Translation(prepared.recipe, prepared.vocabulary)
    task.give(prepared)
    optimizer = adamw(task.model, 1e-3, 0.01)
    taken = []
    for _, batch in zip(range(WARMUP + STEPS), task.batches("train"), strict=False):
        began = time.perf_counter()
        train_on(task, optimizer, batch)
        taken.append(1000 * (time.perf_counter() - began))
    print(statistics.median(taken[WARMUP:]))


def measured(spin: str | None) -> float:
    """The milliseconds of a step in a process with this setting."""
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment = kept | ({"GOMP_SPINCOUNT": spin} if spin else {})
    command = [sys.executable, __file__, "child"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Both settings, alone and beside a process that keeps a core busy."""
    for beside in (False, True):
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if beside else None
        try:
            for spin in (None, "1000"):
                where = "beside a busy process" if beside else "alone"
                print(f"GOMP_SPINCOUNT {spin or 'not set':8} {where:22} {measured(spin):6.0f} ms")
        finally:
            if other is not None:
                other.kill()


if __name__ == "__main__":
    child() if sys.argv[1:] == ["child"] else main()
