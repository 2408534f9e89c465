"""Speed of sharding a batch over threads, and of the chunked cross-entropy.

    SACCADE_DATA=folder python benchmarks/side_by_side.py

Steps of three translators on the same batches of 4096 tokens, in alternation: with one shard of the
batch per core (`training.thread_parallel`), with smaller shards, so that activations might stay in
the cache, and with every operation parallelised over the cores as the framework does it. Then the
loss of 3,700 vectors over 8,000 words and its gradient, one thread: in chunks of rows
(`linear_cross_entropy`) against all logits together.

Training uses the first variant; it should be the fastest.
"""

import time

import torch
import torch.nn.functional as F
from timing import (
    Spread,
    print_machine,
    seconds,
    some_batches,
    spread,
    table,
    translation_objective,
)

from saccade.nn.kernels.linear_cross_entropy import OutputLayer, linear_cross_entropy
from saccade.nn.losses import cross_entropy
from saccade.optim import adamw, clip_grad_norm
from saccade.tasks.translation.objective import TranslationObjective
from saccade.training.device import tune_malloc
from saccade.training.thread_parallel import ThreadParallel
from saccade.types.shapes import Batch

TINY = {"width": 128, "depth": 4, "heads": 4, "hidden": 256, "norm_first": False}
WIDE = {"width": 256, "depth": 3, "heads": 4, "hidden": 1024}
MODELS = {
    "transformer, 3 + 3, 256 wide": {"name": "transformer", "shared_vocab": True, **WIDE},
    "transformer, 4 + 4, 128 wide": {"name": "transformer", "shared_vocab": True, **TINY},
    "bahdanau, 2 layers, 256 wide": {"name": "bahdanau", "width": 256, "depth": 2},
}
SHARDS = {
    "one shard per core": 2,
    "two shards per core": 4,
    "four shards per core": 8,
    "each operation parallel": 1,
}
BATCHES, ROUNDS = 6, 5
ROWS, WIDTH, VOCAB = 3700, 256, 8000


def rates(objective: TranslationObjective, batches: list[Batch]) -> dict[str, Spread]:
    """Return the target tokens per second of each variant, measured in alternation."""
    optimizer = adamw(objective.model, 1e-3, 0.01)
    workers = {}
    for name, parts in SHARDS.items():
        workers[name] = ThreadParallel(objective, objective.recipe.train)
        workers[name].count = parts
    tokens = sum(batch.tokens for batch in batches)
    found: dict[str, list[float]] = {name: [] for name in SHARDS}
    objective.model.train()
    for turn in range(ROUNDS + 1):
        for name, each in workers.items():
            start = time.perf_counter()
            for batch in batches:
                each.accumulate_gradients(batch, batch.tokens, step=1)
                clip_grad_norm(objective.model, 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if turn:  # the first round warms up
                found[name].append(tokens / (time.perf_counter() - start))
    return {name: spread(values) for name, values in found.items()}


def loss_times() -> dict[str, Spread]:
    """Return the milliseconds of the loss and its gradient, chunked and unchunked."""
    torch.manual_seed(0)
    hidden = torch.randn(ROWS, WIDTH, requires_grad=True)
    rows = (0.05 * torch.randn(VOCAB, WIDTH)).requires_grad_()
    target = torch.randint(VOCAB, (ROWS,))

    def chunked() -> None:
        total, _ = linear_cross_entropy(hidden, OutputLayer(rows), target, 0.1)
        torch.autograd.grad(total, [hidden, rows])

    def unchunked() -> None:
        logits = F.linear(hidden, rows)
        total = cross_entropy(logits, target, label_smoothing=0.1, reduction="sum")
        with torch.no_grad():
            (logits.argmax(dim=-1) == target).sum()
        torch.autograd.grad(total, [hidden, rows])

    ways = {"chunked": chunked, "all logits together": unchunked}
    return {name: spread([1e3 * t for t in seconds(way)]) for name, way in ways.items()}


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    tune_malloc()
    lines = []
    for name, model in MODELS.items():
        objective = translation_objective({**model, "dropout": 0.1})
        found = rates(objective, some_batches(objective, BATCHES))
        lines.append([name, *found.values()])
    print()
    table(["target tokens/s", *SHARDS], lines)
    torch.set_num_threads(1)
    found = loss_times()
    print()
    table(["ms, one thread", *found], [["loss and gradient", *found.values()]])


if __name__ == "__main__":
    main()
