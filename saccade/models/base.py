r"""Base classes of the models that predict tokens.

    TokenModel       hidden vectors → logits, through `output_layer`
    EncoderDecoder   `logits = model(source, target_in, source_lengths)`
    CausalLM         `logits = model(ids)`

An encoder-decoder and a causal language model also generate one token after another:
`init_state(memory)` returns a state, `step(ids, state) -> (logits, state)` advances it. States are
named tuples of tensors that are passed in and returned; a model keeps nothing between two calls.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.types.shapes import DecoderState, Hidden, Lengths, Logits, Source, TokenIds


class TokenModel(nn.Module):
    """Base class of models with a token output layer (`self.output` unless overridden)."""

    engine_name: ClassVar[str] = "torch"  # see `inference.engine`
    output: nn.Linear

    @property
    def output_layer(self) -> OutputLayer:
        """Weight (V, E) and bias (V) of the output projection."""
        return OutputLayer(self.output.weight, self.output.bias)

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """Return the inputs of the output projection; here the hidden vectors themselves."""
        return hidden

    def compute_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Return the logits of hidden vectors."""
        return F.linear(self.pre_logits(hidden), *self.output_layer)


class EncoderDecoder(TokenModel, ABC):
    """A model of target sequences given a source sequence.

    `encode` computes the memory of the source once, `init_state` the decoder's first state, and
    `step` or `decode_hidden` advance it by T tokens.
    """

    @abstractmethod
    def encode(self, source: Source, lengths: Lengths | None) -> Any:
        """Encode the source; returns the memory, a named tuple of tensors, batch first.

        Args:
            source: token ids, padded at the end of each row, or images.
            lengths: number of tokens of each row; None if no row is padded.
        """

    @abstractmethod
    def init_state(self, memory: Any) -> DecoderState:
        """Return the decoder's state before the first token."""

    @abstractmethod
    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Return the hidden vectors of T more tokens, and the state after them."""

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Return the logits of the token after each of T more tokens, and the new state."""
        hidden, state = self.decode_hidden(ids, state)
        return self.compute_logits(hidden), state

    def forward(
        self,
        source: Source,
        target_in: Int[Tensor, "B U"],
        source_lengths: Lengths | None = None,
    ) -> Float[Tensor, "B U V"]:
        """Return the logits at every target position (teacher forcing).

        Args:
            source: source ids, padded at the end of each row, or images.
            target_in: target ids, starting with bos.
            source_lengths: number of tokens of each source row; None if no row is padded.
        """
        state = self.init_state(self.encode(source, source_lengths))
        hidden, _ = self.decode_hidden(target_in, state)
        return self.compute_logits(hidden)

    def target_hidden(
        self,
        source: Source,
        source_lengths: Lengths | None,
        target_in: Int[Tensor, "B U"],
        target_positions: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "N E"]:
        """Return the inputs of the output projection at the real target positions.

        `target_positions` are flat indices into B·T; None selects all. Padded positions never
        reach the output projection, which is most of the cost of a large vocabulary.
        """
        state = self.init_state(self.encode(source, source_lengths))
        hidden, _ = self.decode_hidden(target_in, state)
        hidden = hidden.flatten(0, 1)
        if target_positions is not None:
            hidden = hidden.index_select(0, target_positions)
        return self.pre_logits(hidden)


class CausalLM(TokenModel, ABC):
    """A model of the next token given the tokens before it.

    Generation reads with a cache (`init_cache`, `forward_hidden`, `step`). Training reads segments
    (`init_segment_memory`, `forward_segment`); with `is_stateful` the memory of one segment, a
    tuple of tensors, batch first, is the input of the next.
    """

    is_stateful = True
    eval_stride: int | None = None  # tokens per scoring call, if another number would cost more
    context_length: int | None = None  # positions that attention covers; None: no attention

    @property
    def context_description(self) -> str:
        """The part of the preceding text that a prediction depends on, in words."""
        return "all tokens before it"

    @abstractmethod
    def init_cache(self, rows: int) -> Any:
        """Return the cache of `rows` empty texts."""

    @abstractmethod
    def forward_hidden(self, ids: TokenIds, cache: Any) -> tuple[Hidden, Any]:
        """Return the hidden vectors of T more tokens, and the cache after them."""

    def forward(self, ids: TokenIds) -> Logits:
        """Return the logits of the token after each position."""
        hidden, _ = self.forward_hidden(ids, self.init_cache(len(ids)))
        return self.compute_logits(hidden)

    def init_segment_memory(self, rows: int) -> Any:
        """Return the memory before the first training segment."""
        return self.init_cache(rows)

    def forward_segment(self, ids: TokenIds, segment_memory: Any) -> tuple[Hidden, Any]:
        """Return the hidden vectors of a training segment, and the memory for the next one."""
        return self.forward_hidden(ids, segment_memory)

    def init_state(self, memory: Any) -> DecoderState:
        """Return the state of empty texts, as many as `memory` has rows."""
        return DecoderState(memory, self.init_cache(len(memory)))

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Return the logits of the token after each of T more tokens, and the new state."""
        hidden, cache = self.forward_hidden(ids, state.cache)
        return self.compute_logits(hidden), DecoderState(state.memory, cache)
