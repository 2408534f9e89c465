"""The contract of models that fit themselves, and the context they fit in. No torch."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.types.limits import MAX_SEED, MAX_THREADS
from saccade.types.progress import Progress, ignore_progress

SAVE_INTERVAL = 60.0  # seconds between checkpoints of a fit


class FitConfig(Config):
    """Settings of a fit, except those of the model."""

    seed: int = Field(1, ge=0, le=MAX_SEED)
    """Seed of every random choice."""
    threads: int | None = Field(None, ge=1, le=MAX_THREADS)
    """Threads; None: one per core. With 1, results are bit-identical on every machine."""


@dataclass(frozen=True)
class FitContext:
    """Callbacks, resume state and resources for `Estimator.fit`."""

    on_progress: Progress = ignore_progress
    log_metrics: Callable[[dict[str, float]], None] = lambda metrics: None  # to metrics.jsonl
    stop: Callable[[], bool] = lambda: False  # True: save and return
    save: Callable[[dict[str, Any]], None] = lambda state: None  # write a checkpoint
    resume_state: Mapping[str, Any] | None = None  # the last checkpoint; None: start afresh
    threads: int = 1
    scratch_dir: Path | None = None  # folder for large intermediate files; None: memory
    # records the metrics on the dev split, before a fit that includes it
    evaluate_dev: Callable[[], None] = lambda: None
    # a block of work that is left where it stands when the fit is to stop, and repeated
    repeatable: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def start_block(self) -> int:
        """Index of the first block that is not yet done."""
        return 0 if self.resume_state is None else int(self.resume_state["next"][0])

    def run_blocks(
        self,
        total: int,
        fit_blocks: Callable[[int, Callable[[], bool]], int],
        state: Callable[[], dict[str, Any]],
    ) -> None:
        """Fit block after block, with a checkpoint every minute and when stopped.

        `fit_blocks(start, pause)` fits from block `start` on until `pause()` and returns the index
        of the next block; `state()` returns what a checkpoint must hold.
        """
        block = self.start_block
        while block < total and not self.stop():
            block = fit_blocks(block, partial(self._pause, time.monotonic() + SAVE_INTERVAL))
            if block < total:
                self.save({**state(), "next": np.array([block])})

    def _pause(self, deadline: float) -> bool:
        return self.stop() or time.monotonic() > deadline


@runtime_checkable
class Estimator(Protocol):
    """A model that fits itself by counting, sorting or solving instead of by the training loop."""

    is_resumable: bool  # whether `fit` can continue from `FitContext.resume_state`

    def fit(self, context: FitContext) -> None:
        """Fit the model to its training data; with one thread, the same bits every time."""
        ...
