"""What do training's two savings save: parts of a batch side by side, and the loss on the way?

    SACCADE_DATA=folder python benchmarks/side_by_side.py

Steps of three translators on the same batches of 4096 tokens, in turns: with a part of the batch
for each core (`training.workers`), cut finer so that a part's numbers might stay in the cache, and
with every operation shared out among the cores as the framework does it. Then the loss of 3,700
vectors over 8,000 words and its gradient, one thread: a few rows at a time (`nn.word_loss`)
against all logits at once.

Where the first column is not above the others, training should go another way.
"""

import time

import torch
import torch.nn.functional as F
from timing import Spread, say_machine, seconds, some_batches, spread, table, translation_task

from saccade.nn.kernels.linear_cross_entropy import OutputLayer, linear_cross_entropy
from saccade.nn.losses import cross_entropy
from saccade.optim import adamw, clip_grad_norm
from saccade.tasks.translation import TranslationTask
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
PARTS = {"a part a core": 2, "two parts a core": 4, "four parts a core": 8, "each operation": 1}
BATCHES, ROUNDS = 6, 5
ROWS, WIDTH, VOCAB = 3700, 256, 8000


def rates(task: TranslationTask, batches: list[Batch]) -> dict[str, Spread]:
    """Target tokens a second with each way of sharing the work, in turns."""
    optimizer = adamw(task.model, 1e-3, 0.01)
    workers = {}
    for name, parts in PARTS.items():
        workers[name] = ThreadParallel(task, task.recipe.train)
        workers[name].count = parts
    tokens = sum(batch.tokens for batch in batches)
    found: dict[str, list[float]] = {name: [] for name in PARTS}
    task.model.train()
    for turn in range(ROUNDS + 1):
        for name, each in workers.items():
            began = time.perf_counter()
            for batch in batches:
                each.accumulate_gradients(batch, batch.tokens, step=1)
                clip_grad_norm(task.model, 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if turn:  # the first warms up
                found[name].append(tokens / (time.perf_counter() - began))
    return {name: spread(values) for name, values in found.items()}


def loss_times() -> dict[str, Spread]:
    """Milliseconds of the loss and its gradient, both ways."""
    torch.manual_seed(0)
    hidden = torch.randn(ROWS, WIDTH, requires_grad=True)
    rows = (0.05 * torch.randn(VOCAB, WIDTH)).requires_grad_()
    target = torch.randint(VOCAB, (ROWS,))

    def on_the_way() -> None:
        total, _ = linear_cross_entropy(hidden, OutputLayer(rows), target, 0.1)
        torch.autograd.grad(total, [hidden, rows])

    def all_at_once() -> None:
        logits = F.linear(hidden, rows)
        total = cross_entropy(logits, target, 0.1)
        with torch.no_grad():
            (logits.argmax(dim=-1) == target).sum()
        torch.autograd.grad(total, [hidden, rows])

    ways = {"a few rows at a time": on_the_way, "all at once": all_at_once}
    return {name: spread([1e3 * t for t in seconds(way)]) for name, way in ways.items()}


def main() -> None:
    """Measure and print."""
    say_machine()
    tune_malloc()
    lines = []
    for name, model in MODELS.items():
        task = translation_task({**model, "dropout": 0.1})
        found = rates(task, some_batches(task, BATCHES))
        lines.append([name, *found.values()])
    print()
    table(["target tokens/s", *PARTS], lines)
    torch.set_num_threads(1)
    found = loss_times()
    print()
    table(["ms, one thread", *found], [["loss and gradient", *found.values()]])


if __name__ == "__main__":
    main()
