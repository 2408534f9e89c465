"""Training speed and profile of a recurrent translator, and padded against packed sequences.

    SACCADE_DATA=folder python benchmarks/recurrent.py

`bahdanau` of width 256 on batches of up to 4096 tokens per side, with the ten most expensive
operations of a step. Then one GRU over padded rows against the same over packed ones, forward and
backward: `RNN` pads because packing is slower here. If packing were faster by more than the padding
it saves (5 % on Multi30k), `RNN` should pack.
"""

import time

import torch
from timing import (
    print_machine,
    seconds,
    some_batches,
    spread,
    table,
    train_on,
    translation_objective,
)
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from saccade.optim import adamw
from saccade.tasks.translation.objective import TranslationObjective
from saccade.training.device import tune_malloc
from saccade.types.shapes import Batch

WIDTH, STEPS, WARMUP, MAX_OPERATIONS = 256, 6, 2, 10


def training_rate(
    objective: TranslationObjective, batches: list[Batch], optimizer: torch.optim.Optimizer
) -> None:
    """Print target tokens per second."""
    rates = []
    for number, batch in enumerate(batches):
        start = time.perf_counter()
        train_on(objective, optimizer, batch)
        if number >= WARMUP:
            rates.append(batch.tokens / (time.perf_counter() - start))
    table(["", "target tokens/s"], [["bahdanau, width 256", spread(rates)]])


def print_profile(
    objective: TranslationObjective, batch: Batch, optimizer: torch.optim.Optimizer
) -> None:
    """Print the operations that take most of a step, by self time."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        train_on(objective, optimizer, batch)
    events = seen.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    costly = sorted(events, key=lambda event: -event.self_cpu_time_total)[:MAX_OPERATIONS]
    rows = [
        [event.key, f"{event.self_cpu_time_total / total:.0%}", f"{event.count:,}"]
        for event in costly
    ]
    shape = f"{tuple(batch.source.shape)} to {tuple(batch.target_in.shape)}"
    print(f"\nOne step, {shape}, {total / 1e6:.2f} s under the profiler:")
    table(["operation", "share of time", "calls"], rows)


def packed_or_padded() -> None:
    """Print the time of one GRU, padded and packed, on rows of 10 to 20 steps."""
    rows = []
    for size in (16, 64, 256):
        layer = nn.GRU(WIDTH, WIDTH, batch_first=True)
        x = torch.randn(size, 20, WIDTH, requires_grad=True)
        lengths = torch.randint(10, 21, (size,))

        def padded(layer: nn.GRU = layer, x: Tensor = x) -> None:
            layer(x)[0].sum().backward()

        def packed(layer: nn.GRU = layer, x: Tensor = x, lengths: Tensor = lengths) -> None:
            together = nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            layer(together)[0].data.sum().backward()

        both = [spread([1e3 * time for time in seconds(run)]) for run in (padded, packed)]
        share = float(1 - lengths.float().mean() / 20)
        rows.append([size, f"{share:.0%}", *both, f"{both[1].middle / both[0].middle:.2f}"])
    print()
    table(["rows", "padding", "padded, ms", "packed, ms", "packed / padded"], rows)


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    tune_malloc()
    objective = translation_objective({"name": "bahdanau", "width": WIDTH, "dropout": 0.1})
    optimizer = adamw(objective.model, 1e-3, 0.01)
    batches = some_batches(objective, WARMUP + STEPS)
    training_rate(objective, batches, optimizer)
    print_profile(objective, batches[-1], optimizer)
    packed_or_padded()


if __name__ == "__main__":
    main()
