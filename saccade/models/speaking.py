"""What all models that write have in common: how a hidden vector becomes a word."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.losses import Words
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
