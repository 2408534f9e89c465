"""What a run asks of a task; what those that train a network have in common is in `network`.

The loop asks for less (`training.Task`). A task whose model fits itself has `fit` in place of
`batches` and `loss`.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.sources import Published
from saccade.look.finding import Finding
from saccade.look.terminal import Map

Recipe = Any  # one of the recipes of `kinds.TASKS`: task, data, model, train
AT_ONCE = 1 << 22  # numbers of an array
SAVED_EVERY = 60.0  # seconds
Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much
Scored = tuple[dict[str, float], dict[str, str]]  # figures, and how each was counted


class Text(NamedTuple):
    """An answer that is a text and nothing more."""

    text: str


@dataclass(frozen=True)
class Choice:
    """One setting, its value, and why."""

    path: str
    value: Any
    reason: str


@runtime_checkable
class Prepared(Protocol):
    """The data of a recipe, ready for training, and how the settings came about."""

    recipe: Any
    vocabulary: Any  # what is learned of the data apart from weights; None if nothing is
    choices: list[Choice]
    notes: list[str]

    def print(self) -> str:
        """A short hash of the training data, by which a change is noticed."""
        ...


def print_of(*arrays: Any) -> str:
    """A short hash of some arrays."""
    digest = blake2b(digest_size=16)
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        for start in range(0, len(flat), AT_ONCE):  # it may be larger than memory
            digest.update(flat[start : start + AT_ONCE].tobytes())
    return digest.hexdigest()


class Task(ABC):
    """What is the same for every task, or is so unless the task has something to say about it."""

    streams = False  # whether an answer can be watched as it is written
    by_steps = False  # whether the loop trains it; else it has `fit`

    def __init__(self, recipe: Any):
        self.recipe = recipe

    @property
    def name(self) -> str:
        """What the data is called."""
        data = self.recipe.data
        return str(data.path or getattr(data, "published", None) or data.made)

    def shortened(self, source: str) -> str:
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

    def strange(self, prepared: Any) -> list[str]:
        """What of the data cannot be learned from with weights that are there."""
        return []

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(math.prod(weight.shape) for weight in self.weights().values())

    def evaluate(self, split: str, most: int | None = None) -> dict[str, float]:
        """Figures by name, on at most so many examples."""
        figures, _ = self.scored(split, most)
        return figures

    @abstractmethod
    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
        """Figures by name, and the convention that each was counted by."""

    def tables(self, split: str) -> dict[str, Any]:
        """What an evaluation has to say that is more than a figure, by name."""
        return {}

    def goodness(self, scores: dict[str, float]) -> float:
        """The one figure that is to grow."""
        return -scores["loss"]

    def check(self, split: str, count: int) -> Iterator[Finding]:
        """Try every law on this very model."""
        yield from ()

    @abstractmethod
    def again(self, other: Any, split: str, count: int) -> Finding:
        """Whether the same task, saved and reopened, gives the same."""

    def maps(self, text: str, answer: str | None = None) -> dict[tuple[str, int, int], Map]:
        """The attention maps of one answer, by (kind, layer, head)."""
        return {}

    def pictures(self, folder: Path) -> list[str]:
        """Draw what a person wants to see of this run; what is to be said is returned."""
        return []


class FitConfig(Config):
    """What fitting takes, apart from the model's settings."""

    seed: int = 1
    threads: int | None = Field(None, ge=1)  # 1: the same bits every time


@dataclass(frozen=True)
class Fitting:
    """What is around a model that fits itself: who is told, and where it stood when it stopped."""

    tell: Progress
    report: Callable[[dict[str, float]], None] = lambda figures: None  # a line of metrics.jsonl
    stop: Callable[[], bool] = lambda: False
    save: Callable[[dict[str, Any]], None] = lambda standing: None  # to go on from
    stood: dict[str, Any] | None = None  # what was saved last; None: it begins
    threads: int = 1
    place: Path | None = None  # a folder for what is large; None: memory

    @property
    def first(self) -> int:
        """The block that it begins or goes on with."""
        return 0 if self.stood is None else int(self.stood["next"][0])

    def in_blocks(
        self,
        total: int,
        learn: Callable[[int, Callable[[], bool]], int],
        arrays: Callable[[], dict[str, Any]],
    ) -> None:
        """Learn block after block; what is learned is saved every minute, and when it is stopped.

        `learn(first, stop)` learns from block `first` on, until it is to stop, and says which block
        would be next. `arrays` gives what is to be saved.
        """
        first = self.first
        while first < total and not self.stop():
            ends = time.monotonic() + SAVED_EVERY
            first = learn(first, lambda ends=ends: self.stop() or time.monotonic() > ends)  # type: ignore[misc]
            if first < total:
                self.save({**arrays(), "next": np.array([first])})


class Fitted(Task):
    """A task whose model fits itself, by counting or solving."""

    goes_on = False  # whether it can be stopped, and go on from what it saved

    @abstractmethod
    def fit(self, around: Fitting) -> None:
        """Fit the model to the data that was given; with one thread, the same bits every time."""


class Kind(NamedTuple):
    """A task: its settings, its models, the data that is always there, and how it is made."""

    recipe: type[Config]
    models: Mapping[str, Any]
    made: Mapping[str, Any]
    published: Mapping[str, Published]
    prepare: Callable[..., Prepared]  # (recipe, tell, vocabulary, name_model, place)
    task: Callable[[Any, Any], Any]  # (recipe, vocabulary)
    vocabulary: Callable[[dict[str, Any]], Any]  # as it was kept in tokenizer.json
    light: bool = False  # it holds arrays and needs no torch
    kept: tuple[str, ...] | None = (
        None  # settings of the data that weights go with; None: no weights
    )


def anywhere(prepare: Callable[..., Prepared]) -> Callable[..., Prepared]:
    """Of data that is held in memory, whatever the `place` for more."""

    def prepared(
        recipe: Any, tell: Any, vocabulary: Any = None, name_model: bool = False, place: Any = None
    ) -> Prepared:
        return prepare(recipe, tell, vocabulary, name_model)

    return prepared
