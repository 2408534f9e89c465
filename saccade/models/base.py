"""What all models that write have in common: how a hidden vector becomes a word."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.types.shapes import DecoderState, Hidden, Logits, TokenIds


class TokenModel(nn.Module):
    """A network that ends in words, in a layer called `output` if it does not say otherwise."""

    output: nn.Linear

    @property
    def output_layer(self) -> OutputLayer:
        """A row and a bias for each."""
        return OutputLayer(self.output.weight, self.output.bias)

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """What is compared with the words: the hidden vectors themselves."""
        return hidden

    def compute_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Hidden vectors to logits."""
        return self.output_layer.logits(self.pre_logits(hidden))


class EncoderDecoder(TokenModel, ABC):
    """A speaker that is told what to say: `encode` the source, `start`, then read and `step`."""

    @abstractmethod
    def encode(self, source: TokenIds, lengths: Any) -> Any:
        """Read the source once."""

    @abstractmethod
    def init_state(self, memory: Any) -> DecoderState:
        """Before the first word."""

    @abstractmethod
    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """T more tokens after those in the state."""

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Read T tokens, give the logits of what follows each."""
        hidden, state = self.decode_hidden(ids, state)
        return self.compute_logits(hidden), state


class CausalLM(TokenModel, ABC):
    """A speaker that goes on from what it has read: `past` is nothing yet, `read` more and more.

    `carries` says that what was read in one segment of training reaches into the next, as
    `segment` hands it over: a tuple of tensors, batch first.
    """

    is_stateful = True
    eval_stride: int | None = None  # tokens to score at a time, if more or fewer would cost more
    context_length: int | None = None  # tokens that its attention sees at once; None: it has none

    @property
    def context_description(self) -> str:
        """How much of the text before it a token sees, in words."""
        return "all that is before it"

    @abstractmethod
    def init_cache(self, rows: int) -> Any:
        """What is remembered before anything is read."""

    @abstractmethod
    def forward_hidden(self, ids: TokenIds, cache: Any) -> tuple[Hidden, Any]:
        """T more tokens after those in the past."""

    def init_segment_memory(self, rows: int) -> Any:
        """What the first segment of training is handed."""
        return self.init_cache(rows)

    def forward_segment(self, ids: TokenIds, segment_memory: Any) -> tuple[Hidden, Any]:
        """A segment of training, after what the one before it has left."""
        return self.forward_hidden(ids, segment_memory)

    def init_state(self, memory: Any) -> DecoderState:
        """Nothing is read yet; of `memory` only the number of rows counts."""
        return DecoderState(memory, self.init_cache(len(memory)))

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Read T tokens, give the logits of what follows each."""
        hidden, cache = self.forward_hidden(ids, state.cache)
        return self.compute_logits(hidden), DecoderState(state.memory, cache)
