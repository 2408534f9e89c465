"""Cost of a checkpoint: how long training waits, and how long until it is on disk.

    python benchmarks/checkpoints.py [folder]

Training waits for the copy of weights, optimiser state and counters; then it continues while the
copy is hashed, written and flushed in the background, which takes part of one core. The file goes
to the given folder (by default the one for temporary files). The best model's file is written too,
the worst case, in which every checkpoint is a new best.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from timing import print_machine, spread, table

from saccade.io.tensors import write_tensors
from saccade.models import TRANSLATION_MODELS, BahdanauConfig, TransformerConfig
from saccade.optim import adamw
from saccade.training.checkpoint import snapshot, write_checkpoint
from saccade.training.config import TrainConfig
from saccade.training.device import tune_malloc
from saccade.training.loop import copy_state_dict
from saccade.training.state import TrainState

WARMUP, REPEATS = 1, 5
SIZES: dict[str, Any] = {
    "bahdanau of the demo": BahdanauConfig(width=128, source_vocab_size=300, target_vocab_size=300),
    "transformer 256, 3 + 3 layers": TransformerConfig(
        width=256, depth=3, source_vocab_size=8000, target_vocab_size=8000
    ),
    "transformer 512, 6 + 6 layers": TransformerConfig(
        width=512, depth=6, heads=8, source_vocab_size=8000, target_vocab_size=8000
    ),
}


class CheckpointCost(NamedTuple):
    """Measurements for one model."""

    parameters: int
    written: int  # bytes
    held_up: list[float]  # seconds
    until_safe: list[float]
    processor: list[float]  # seconds of one core, for the writing


def measure(config: Any, folder: Path) -> CheckpointCost:
    """Copy and write a few checkpoints."""
    model = TRANSLATION_MODELS[config.name].model_class(config)
    optimizer = adamw(model, 1e-3, 0.01)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    state = TrainState(step=1, best_step=1, best_weights=copy_state_dict(model))

    held_up, until_safe, processor = [], [], []
    for _ in range(WARMUP + REPEATS):
        state.step += 1
        start = time.perf_counter()
        checkpoint = snapshot(model, optimizer, state)
        held_up.append(time.perf_counter() - start)
        before = time.process_time()
        write_checkpoint(folder, checkpoint)
        write_tensors(folder / "model.safetensors", state.best_weights, {})
        processor.append(time.process_time() - before)
        until_safe.append(time.perf_counter() - start)
    newest = [max(folder.glob("[0-9]*")), folder / "model.safetensors"]
    return CheckpointCost(
        sum(p.numel() for p in model.parameters()),
        sum(path.stat().st_size for path in newest),
        held_up[WARMUP:],
        until_safe[WARMUP:],
        processor[WARMUP:],
    )


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    tune_malloc()  # as training does
    interval = TrainConfig().checkpoint_seconds
    rows = []
    for name, config in SIZES.items():
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as folder:
            found = measure(config, Path(folder))
        waits, work = spread(found.held_up), spread(found.processor)
        # two cores train: a second of one of them is half a second of training
        share = (waits.high + work.high / 2) / interval
        rows.append(
            [
                name,
                f"{found.parameters:,}",
                f"{found.written / 1e6:.0f} MB",
                waits,
                work,
                spread(found.until_safe),
                f"{100 * share:.2f} %",
            ]
        )
    heads = ["model", "parameters", "written", "training waits, s", "background work (one core), s"]
    heads += ["until flushed, s", f"at most of {interval:.0f} s"]
    table(heads, rows)


if __name__ == "__main__":
    main()
