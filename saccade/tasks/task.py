"""What a run asks of a task; what those that train a network have in common is in `network`.

The loop asks for less (`training.Task`). A task whose model fits itself has `fit` in place of
`batches` and `loss`.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.datasets import DatasetInfo
from saccade.inspection.checks import CheckResult
from saccade.plots.terminal import AttentionMap

Recipe = Any  # one of the recipes of `kinds.TASKS`: task, data, model, train
HASH_CHUNK = 1 << 22  # numbers of an array
SAVE_INTERVAL = 60.0  # seconds
Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much
Evaluation = tuple[dict[str, float], dict[str, str]]  # figures, and how each was counted


class TextPrediction(NamedTuple):
    """An answer that is a text and nothing more."""

    text: str


@dataclass(frozen=True)
class Choice:
    """One setting, its value, and why."""

    path: str
    value: Any
    reason: str


@runtime_checkable
class PreparedData(Protocol):
    """The data of a recipe, ready for training, and how the settings came about."""

    recipe: Any
    vocabulary: Any  # what is learned of the data apart from weights; None if nothing is
    choices: list[Choice]
    notes: list[str]

    def fingerprint(self) -> str:
        """A short hash of the training data, by which a change is noticed."""
        ...


def fingerprint_arrays(*arrays: Any) -> str:
    """A short hash of some arrays."""
    digest = blake2b(digest_size=16)
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        for start in range(0, len(flat), HASH_CHUNK):  # it may be larger than memory
            digest.update(flat[start : start + HASH_CHUNK].tobytes())
    return digest.hexdigest()


class Task(ABC):
    """What is the same for every task, or is so unless the task has something to say about it."""

    can_stream = False  # whether an answer can be watched as it is written
    is_trained = False  # whether the loop trains it; else it has `fit`

    def __init__(self, recipe: Any):
        self.recipe = recipe

    @property
    def name(self) -> str:
        """What the data is called."""
        data = self.recipe.data
        return str(data.path or getattr(data, "dataset", None) or data.synthetic)

    def truncate(self, source: str) -> str:
        """As much of an input as the task can take."""
        return source

    def vocabulary_json(self) -> dict[str, Any]:
        """What was learned of the data apart from weights, for tokenizer.json."""
        return {}

    @abstractmethod
    def weights(self) -> dict[str, Any]:
        """All that was learned, by name: tensors, or arrays where there is no torch."""

    @abstractmethod
    def load(self, weights: dict[str, Any]) -> None:
        """Take up what was learned; a `RuntimeError` says if it does not fit."""

    def incompatible(self, prepared: Any) -> list[str]:
        """What of the data cannot be learned from with weights that are there."""
        return []

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(math.prod(weight.shape) for weight in self.weights().values())

    def evaluate(self, split: str, limit: int | None = None) -> dict[str, float]:
        """Figures by name, on at most so many examples."""
        figures, _ = self.evaluate_with_conventions(split, limit)
        return figures

    @abstractmethod
    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """Figures by name, and the convention that each was counted by."""

    def tables(self, split: str) -> dict[str, Any]:
        """What an evaluation has to say that is more than a figure, by name."""
        return {}

    def selection_score(self, scores: dict[str, float]) -> float:
        """The one figure that is to grow."""
        return -scores["loss"]

    def check(self, split: str, count: int) -> Iterator[CheckResult]:
        """Try every law on this very model."""
        yield from ()

    @abstractmethod
    def compare_reloaded(self, other: Any, split: str, count: int) -> CheckResult:
        """Whether the same task, saved and reopened, gives the same."""

    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[tuple[str, int, int], AttentionMap]:
        """The attention maps of one answer, by (kind, layer, head)."""
        return {}

    def save_plots(self, folder: Path) -> list[str]:
        """Draw what a person wants to see of this run; what is to be said is returned."""
        return []


class FitConfig(Config):
    """What fitting takes, apart from the model's settings."""

    seed: int = 1
    threads: int | None = Field(None, ge=1)  # 1: the same bits every time


@dataclass(frozen=True)
class FitContext:
    """What is around a model that fits itself: who is told, and where it stood when it stopped."""

    on_progress: Progress
    report: Callable[[dict[str, float]], None] = lambda figures: None  # a line of metrics.jsonl
    stop: Callable[[], bool] = lambda: False
    save: Callable[[dict[str, Any]], None] = lambda standing: None  # to go on from
    resume_state: dict[str, Any] | None = None  # what was saved last; None: it begins
    threads: int = 1
    scratch_dir: Path | None = None  # a folder for what is large; None: memory

    @property
    def start_block(self) -> int:
        """The block that it begins or goes on with."""
        return 0 if self.resume_state is None else int(self.resume_state["next"][0])

    def _pause(self, ends: float) -> bool:
        return self.stop() or time.monotonic() > ends

    def run_blocks(
        self,
        total: int,
        learn: Callable[[int, Callable[[], bool]], int],
        arrays: Callable[[], dict[str, Any]],
    ) -> None:
        """Learn block after block; what is learned is saved every minute, and when it is stopped.

        `learn(first, stop)` learns from block `first` on, until it is to stop, and says which block
        would be next. `arrays` gives what is to be saved.
        """
        start_block = self.start_block
        while start_block < total and not self.stop():
            ends = time.monotonic() + SAVE_INTERVAL
            start_block = learn(start_block, partial(self._pause, ends))
            if start_block < total:
                self.save({**arrays(), "next": np.array([start_block])})


class FittedTask(Task):
    """A task whose model fits itself, by counting or solving."""

    is_resumable = False  # whether it can be stopped, and go on from what it saved

    @abstractmethod
    def fit(self, context: FitContext) -> None:
        """Fit the model to the data that was given; with one thread, the same bits every time."""


class TaskSpec(NamedTuple):
    """A task: its settings, its models, the data that is always there, and how it is made."""

    recipe: type[Config]
    models: Mapping[str, Any]
    synthetic: Mapping[str, Any]
    datasets: Mapping[str, DatasetInfo]
    prepare: Callable[..., PreparedData]  # (recipe, tell, vocabulary, name_model, place)
    task: Callable[[Any, Any], Any]  # (recipe, vocabulary)
    vocabulary: Callable[[dict[str, Any]], Any]  # as it was kept in tokenizer.json
    torch_free: bool = False  # it holds arrays and needs no torch
    transferable_data_settings: tuple[str, ...] | None = (
        None  # settings of the data that weights go with; None: no weights
    )


def ignore_scratch_dir(prepare: Callable[..., PreparedData]) -> Callable[..., PreparedData]:
    """Of data that is held in memory, whatever the `place` for more."""

    def prepared(
        recipe: Any,
        on_progress: Any,
        vocabulary: Any = None,
        auto_model: bool = False,
        scratch_dir: Any = None,
    ) -> PreparedData:
        return prepare(recipe, on_progress, vocabulary, auto_model)

    return prepared
