"""Should threads spin while they wait for each other? Alone, and beside one busy process.

    python benchmarks/waiting.py

Steps of `bahdanau` on the made dates, and tokens that a GPT of 6 layers, 384 wide, writes; each
setting in a process of its own, because the OpenMP library reads it once. What the command line
sets (`saccade/training/cores.py`) is to be near the best alone, and far from the worst beside a
busy process.
"""

import os
import statistics
import subprocess
import sys
import time

STEPS, WARMUP = 20, 4
TOKENS, TIMES = 100, 3
SPINS = (None, "16000", "4000", "1000")


def child() -> None:
    """Print the milliseconds of a step, and the tokens per second of one text and of sixteen."""
    from saccade.training.precision import keep_memory, set_threads

    set_threads(None)
    keep_memory()
    print(training(), writing(1), writing(16))


def training() -> float:
    """The median of a few steps, in milliseconds."""
    from timing import train_on

    from saccade.optim import adamw
    from saccade.recipes.translation import dates
    from saccade.tasks.translation import Translation, prepare

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
    return statistics.median(taken[WARMUP:])


def writing(texts: int) -> float:
    """The median over a few times, of a model that has learned nothing."""
    import torch

    from saccade.decoding import Marks, greedy
    from saccade.models.gpt import GPT, GPTConfig
    from saccade.models.writing import writer
    from saccade.tasks.reading import Prompted

    config = GPTConfig(vocab_size=65, width=384, depth=6, heads=6, context=256)
    stepper = Prompted(writer(GPT(config).eval()))
    prompts, limits = torch.ones(texts, 16, dtype=torch.long), torch.full((texts,), TOKENS)
    rates = []
    for _ in range(1 + TIMES):
        began = time.perf_counter()
        with torch.inference_mode():
            found = greedy(stepper, prompts, marks=Marks(0, 64, ()), limits=limits)
        written = sum(len(answer.ids) for answer in found)
        rates.append(written / (time.perf_counter() - began))
    return statistics.median(rates[1:])


def measured(spin: str | None) -> list[float]:
    """What a process with this setting says."""
    kept = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment = kept | ({"GOMP_SPINCOUNT": spin} if spin else {})
    command = [sys.executable, __file__, "child"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(figure) for figure in done.stdout.split()]


def main() -> None:
    """Every setting, alone and beside a process that keeps a core busy."""
    for beside in (False, True):
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if beside else None
        try:
            for spin in SPINS:
                where = "beside a busy process" if beside else "alone"
                step, one, many = measured(spin)
                print(
                    f"GOMP_SPINCOUNT {spin or 'not set':8} {where:22} a step {step:4.0f} ms, "
                    f"writing {one:4.0f} and {many:5,.0f} tokens/s"
                )
        finally:
            if other is not None:
                other.kill()


if __name__ == "__main__":
    child() if sys.argv[1:] == ["child"] else main()
