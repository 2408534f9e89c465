"""Should threads spin while they wait for each other? Alone, and beside one busy process.

    python benchmarks/waiting.py

Steps of `bahdanau` on the made dates, and tokens that a GPT of 6 layers, 384 wide, writes; each
setting in a process of its own, because the OpenMP library reads it once. What the command line
sets (`saccade/training/cpu.py`) is to be near the best alone, and far from the worst beside a
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
    from saccade.training.device import set_num_threads, tune_malloc

    set_num_threads(None)
    tune_malloc()
    print(training(), writing(1), writing(16))


def training() -> float:
    """The median of a few steps, in milliseconds."""
    from timing import train_on

    from saccade.optim import adamw
    from saccade.recipes.translation import dates_recipe
    from saccade.tasks.translation import TranslationTask, prepare_pairs

    recipe = dates_recipe().with_values(data={"synthetic": "dates", "size": 20_000})
    prepared = prepare_pairs(recipe, lambda what, done, total: None)
    task = TranslationTask(prepared.recipe, prepared.vocabulary)
    task.attach_data(prepared)
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

    from saccade.decoding import SpecialTokens, greedy_search
    from saccade.inference.fused import fused_decoder
    from saccade.models.gpt import GPT, GPTConfig
    from saccade.tasks.reading import PromptedDecoder

    config = GPTConfig(vocab_size=65, width=384, depth=6, heads=6, context_length=256)
    stepper = PromptedDecoder(fused_decoder(GPT(config).eval()))
    prompts, max_lengths = torch.ones(texts, 16, dtype=torch.long), torch.full((texts,), TOKENS)
    rates = []
    for _ in range(1 + TIMES):
        began = time.perf_counter()
        with torch.inference_mode():
            found = greedy_search(
                stepper, prompts, special_tokens=SpecialTokens(0, 64, ()), max_lengths=max_lengths
            )
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
