"""Shared by the benchmarks: repeated measurements, the machine's own rate, an objective.

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
from saccade.data.parallel.config import PairsConfig, TokenizerConfig
from saccade.optim import clip_grad_norm
from saccade.tasks.translation.components import build_translator
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import PairSplit, load_pair_splits, train_tokenizers
from saccade.tasks.translation.objective import TranslationObjective
from saccade.training.device import set_num_threads
from saccade.types.shapes import Batch


class Spread(NamedTuple):
    """Median and range of some measurements."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.middle)} ({_short(self.low)} to {_short(self.high)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values: Sequence[float]) -> Spread:
    """Return median, minimum and maximum."""
    return Spread(median(values), min(values), max(values))


def seconds(run: Callable[[], object], repeats: int = 7, warmup: int = 2) -> list[float]:
    """Return the seconds of each of `repeats` calls, after `warmup` uncounted ones."""
    for _ in range(warmup):
        run()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


def matrix_rate(rows: int, inner: int, columns: int, batch: int = 1) -> Spread:
    """Return the GFLOP/s of (rows × inner) times (inner × columns) in float32, batched."""
    left, right = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
    if batch == 1:
        left, right = left[0], right[0]
    operations = 2 * batch * rows * inner * columns
    each = max(1, round(2e10 / operations))  # so that one measurement takes a good part of a second

    def run() -> None:
        for _ in range(each):
            left @ right

    return spread([each * operations / time / 1e9 for time in seconds(run)])


def print_machine() -> None:
    """Print processor, threads and versions, and warn if the machine is busy."""
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
        print(f"The machine is busy (load {load:.1f}): the rates will be too low.")


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns."""
    cells = [[str(cell) for cell in row] for row in [heads, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(heads))]
    for row in cells:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def translation_objective(model: dict[str, Any], budget: int = 4096) -> TranslationObjective:
    """Return the objective of a translator on Multi30k (8000 shared BPE tokens), or on dates."""
    root = os.environ.get("SACCADE_DATA")
    folder = Path(root or ".") / "multi30k"
    tokenizer = TokenizerConfig(kind="bpe", size=8000, shared=True)
    if root and folder.exists():
        path = f"{folder / 'train.de.gz'},{folder / 'train.en.gz'}"
        data = PairsConfig(path=path, tokenizer=tokenizer)
        print("Data: Multi30k, German to English, 8000 shared BPE tokens")
    else:
        data = PairsConfig(synthetic="dates", size=20_000, tokenizer=tokenizer)
        print(
            "Data: synthetic dates, shared BPE tokens (SACCADE_DATA names no folder with multi30k)"
        )
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
    encoded = encode_pairs(pairs, both.source, both.target, lambda more: None)
    splits = {"train": PairSplit(pairs, encoded)}
    return TranslationObjective(recipe, build_translator(recipe, both), both, splits)


def some_batches(objective: TranslationObjective, count: int) -> list[Batch]:
    """Return the first training batches in training order."""
    return list(islice(objective.batches("train", 0), count))


def train_on(
    objective: TranslationObjective, optimizer: torch.optim.Optimizer, batch: Batch
) -> Tensor:
    """Make one training step: loss, gradient, clipping, update."""
    objective.model.train()
    loss = objective.loss(batch)
    (loss.total / batch.tokens).backward()
    clip_grad_norm(objective.model, objective.settings.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.total.detach()


def operations(model: nn.Module, run: Callable[[], Tensor]) -> int:
    """Count the floating-point operations of the matrix products of `run` and its backward pass.

    A multiply and an add are two. torch does not count the CPU's fused attention, so it
    is counted here by torch's formula for other devices: two products forward, five backward (the
    scores are recomputed). Positions hidden by a causal mask are counted.
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
