"""What all models that write have in common: how a hidden vector becomes a word."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.words import Words
from saccade.types import Hidden, Ids, Logits, State


class Speaker(nn.Module):
    """A network that ends in words, in a layer called `output` if it does not say otherwise."""

    output: nn.Linear

    @property
    def words(self) -> Words:
        """A row and a bias for each."""
        return Words(self.output.weight, self.output.bias)

    def finish(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """What is compared with the words: the hidden vectors themselves."""
        return hidden

    def project(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Hidden vectors to logits."""
        return self.words.logits(self.finish(hidden))


class Translator(Speaker, ABC):
    """A speaker that is told what to say: `encode` the source, `start`, then read and `step`."""

    @abstractmethod
    def encode(self, source: Ids, lengths: Any) -> Any:
        """Read the source once."""

    @abstractmethod
    def start(self, memory: Any) -> State:
        """Before the first word."""

    @abstractmethod
    def read(self, ids: Ids, state: State) -> tuple[Hidden, State]:
        """T more tokens after those in the state."""

    def step(self, ids: Ids, state: State) -> tuple[Logits, State]:
        """Read T tokens, give the logits of what follows each."""
        hidden, state = self.read(ids, state)
        return self.project(hidden), state


class LanguageModel(Speaker, ABC):
    """A speaker that goes on from what it has read: `past` is nothing yet, `read` more and more.

    `carries` says that what was read in one segment of training reaches into the next, as
    `segment` hands it over: a tuple of tensors, batch first.
    """

    carries = True
    stride: int | None = None  # tokens to score at a time, if more or fewer would cost more
    sight: int | None = None  # tokens that its attention sees at once; None: it has none

    @property
    def sees(self) -> str:
        """How much of the text before it a token sees, in words."""
        return "all that is before it"

    @abstractmethod
    def past(self, rows: int) -> Any:
        """What is remembered before anything is read."""

    @abstractmethod
    def read(self, ids: Ids, past: Any) -> tuple[Hidden, Any]:
        """T more tokens after those in the past."""

    def carried(self, rows: int) -> Any:
        """What the first segment of training is handed."""
        return self.past(rows)

    def segment(self, ids: Ids, carried: Any) -> tuple[Hidden, Any]:
        """A segment of training, after what the one before it has left."""
        return self.read(ids, carried)

    def start(self, memory: Any) -> State:
        """Nothing is read yet; of `memory` only the number of rows counts."""
        return State(memory, self.past(len(memory)))

    def step(self, ids: Ids, state: State) -> tuple[Logits, State]:
        """Read T tokens, give the logits of what follows each."""
        hidden, past = self.read(ids, state.past)
        return self.project(hidden), State(state.memory, past)
