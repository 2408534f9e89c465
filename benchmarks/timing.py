"""What the benchmarks share: repeated measurements, the machine's own rate, a task to measure.

Not a benchmark itself: running it does nothing.
"""

import os
import platform
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from saccade.data.batching import encode_pairs
from saccade.data.parallel.load import (
    PairsConfig,
    TokenizerConfig,
    load_pair_splits,
    train_tokenizers,
)
from saccade.optim import clip_grad_norm
from saccade.tasks.recipe import TranslationRecipe
from saccade.tasks.translation import TranslationTask
from saccade.training.device import set_num_threads
from saccade.types.shapes import Batch


class Spread(NamedTuple):
    """The median of some measurements, and how far they lie apart."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{_short(self.middle)} ({_short(self.least)} to {_short(self.most)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values: Sequence[float]) -> Spread:
    """Median, smallest and largest."""
    return Spread(median(values), min(values), max(values))


def seconds(run: Callable[[], object], repeats: int = 7, warmup: int = 2) -> list[float]:
    """How long each of `repeats` runs takes, after `warmup` that are not counted."""
    for _ in range(warmup):
        run()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return found


def matrix_rate(rows: int, inner: int, columns: int, batch: int = 1) -> Spread:
    """GFLOP/s of (rows × inner) times (inner × columns) in float32, a batch of them at once."""
    left, right = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
    if batch == 1:
        left, right = left[0], right[0]
    operations = 2 * batch * rows * inner * columns
    each = max(1, round(2e10 / operations))  # so that one measurement takes a good part of a second

    def run() -> None:
        for _ in range(each):
            left @ right

    return spread([each * operations / time / 1e9 for time in seconds(run)])


def say_machine() -> None:
    """The processor, the threads and the versions, and how busy the machine is."""
    threads = set_num_threads(None)
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    print(f"{name}, {threads} threads, float32, {versions}")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 0.5:
        print(f"The machine was busy when this began (load {load:.1f}): take the figures as low.")


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns that line up."""
    cells = [[str(cell) for cell in row] for row in [heads, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heads))]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def translation_task(model: dict[str, Any], budget: int = 4096) -> TranslationTask:
    """A translator of Multi30k with 8000 shared byte pairs, or of dates where that is not."""
    root = os.environ.get("SACCADE_DATA")
    folder = Path(root or ".") / "multi30k"
    tokenizer = TokenizerConfig(kind="bpe", size=8000, shared=True)
    if root and folder.exists():
        path = f"{folder / 'train.de.gz'},{folder / 'train.en.gz'}"
        data = PairsConfig(path=path, tokenizer=tokenizer)
        print("Data: Multi30k, German to English, 8000 shared byte pairs")
    else:
        data = PairsConfig(synthetic="dates", size=20_000, tokenizer=tokenizer)
        print("Data: made dates, shared byte pairs (SACCADE_DATA names no folder with multi30k)")
    pairs = load_pair_splits(data, lambda done, total: None).pairs["train"]
    both = train_tokenizers(tokenizer, pairs)
    vocabulary = {
        "source_vocab_size": both.source.vocab_size,
        "target_vocab_size": both.target.vocab_size,
    }
    recipe = TranslationRecipe(
        data=data,
        model={**model, **vocabulary},
        train={"batch_tokens": budget, "label_smoothing": 0.1, "learning_rate": 1e-3},
    )
    task = TranslationTask(recipe, both)
    task.encoded["train"] = encode_pairs(pairs, both.source, both.target, lambda more: None)
    return task


def some_batches(task: TranslationTask, count: int) -> list[Batch]:
    """The first training batches, in the order in which training meets them."""
    return list(islice(task.batches("train", 0), count))


def train_on(task: TranslationTask, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
    """One step as the loop makes it: loss, gradient, clipping, update."""
    task.model.train()
    loss = task.loss(batch)
    (loss.total / batch.tokens).backward()
    clip_grad_norm(task.model, task.recipe.train.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.total.detach()


def operations(model: nn.Module, run: Callable[[], Tensor]) -> int:
    """Floating-point operations of the matrix products in `run` and its backward pass.

    A multiply and an add are two. torch counts what it knows; the CPU's fused attention it does
    not, so that is counted here by torch's formula for the other devices': two products forward,
    five backward (the scores are made again). What a causal mask leaves out is not taken off.
    """
    aten = torch.ops.aten

    def forward(query: Any, key: Any, value: Any, *rest: Any, **others: Any) -> int:
        return sdpa_flop_count(query, key, value)

    def backward(grad: Any, query: Any, key: Any, value: Any, *rest: Any, **others: Any) -> int:
        return sdpa_backward_flop_count(grad, query, key, value)

    fused = {
        aten._scaled_dot_product_flash_attention_for_cpu: forward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: backward,
    }
    with FlopCounterMode(display=False, custom_mapping=fused) as counter:
        run().backward()
    model.zero_grad(set_to_none=True)
    return counter.get_total_flops()
