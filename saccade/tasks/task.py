"""What a run asks of a task, and what tasks that train a network have in common.

The loop asks for less (`training.Task`). A task whose model fits itself has `fit` in place of
`batches` and `loss`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.look.laws import Finding
from saccade.look.terminal import Map
from saccade.seeding import borrowed, reseed
from saccade.tasks.sizing import Choice

AT_ONCE = 1 << 22  # numbers of an array
Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much
Scored = tuple[dict[str, float], dict[str, str]]  # figures, and how each was counted


class Text(NamedTuple):
    """An answer that is a text and nothing more."""

    text: str


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
    def weights(self) -> dict[str, Tensor]:
        """All that was learned, by name."""

    @abstractmethod
    def load(self, weights: dict[str, Tensor]) -> None:
        """Take up what was learned; a `RuntimeError` says if it does not fit."""

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


class Network(Task):
    """A task whose model is trained by the loop."""

    model: nn.Module
    carried: dict[str, Tensor]  # what a batch leaves for the next one, a hidden state say

    def __init__(self, recipe: Any, make: Callable[[], nn.Module]):
        super().__init__(recipe)
        self.carried = {}
        with borrowed():
            reseed(recipe.train.seed, "weights")
            try:
                self.model = make()
            except ValueError as error:
                raise ConfigError(f"model: {error}") from None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def weights(self) -> dict[str, Tensor]:
        """The model's."""
        return self.model.state_dict()

    def load(self, weights: dict[str, Tensor]) -> None:
        """Into the model."""
        self.model.load_state_dict(weights)

    def where(self, batch: Any) -> str:
        """The file and lines of a batch, for a message."""
        return self.name

    def parts(self, batch: Any, most: int) -> Sequence[Any]:
        """A batch in so many parts at most, to be learned from side by side; here the whole."""
        return [batch]

    def compile(self) -> None:
        """Let torch.compile make kernels for this model."""
        raise ConfigError(f"{self.recipe.task} cannot be compiled; leave train.compile out.")


class Fitted(Task):
    """A task whose model fits itself, by counting or solving."""

    @abstractmethod
    def fit(self, tell: Callable[[str, int, int], None]) -> None:
        """Fit the model to the data that was given; one thread, the same bits every time."""
