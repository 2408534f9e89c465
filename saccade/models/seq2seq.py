r"""A recurrent encoder and decoder with one fixed context between them.

Cho et al. 2014 (and Sutskever et al. 2014): the source is read into one vector c, and every step
of the decoder sees that same vector beside the token before it,

    h_t = f(h_{t-1}, [e(y_{t-1}); c]),   logits_t = W [h_t; c; e(y_{t-1})].

It is what attention was invented to replace: c does not grow with the source.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.base import EncoderDecoder
from saccade.nn.embedding import Embedding
from saccade.nn.rnn import RNN
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds


class Seq2SeqConfig(Config):
    """The recurrent encoder and decoder with one fixed context."""

    name: Literal["seq2seq"] = "seq2seq"
    source_vocab_size: int = 0  # from the data
    target_vocab_size: int = 0
    width: int = Field(128, ge=1)
    depth: int = Field(1, ge=1)
    cell: Literal["rnn", "rnn_relu", "gru", "gru_reset_first", "lstm"] = "gru"
    dropout: float = Field(0.1, ge=0, lt=1)


class Seq2SeqMemory(NamedTuple):
    """What the encoder leaves: a vector, and the state that the decoder starts from."""

    context: Float[Tensor, "B D"]
    init_state: Float[Tensor, "B L E"]


class Seq2Seq(EncoderDecoder):
    """Reads the source into one vector, writes the target from it."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        width = config.width
        self.source = Embedding(config.source_vocab_size, width, dropout=config.dropout)
        self.target = Embedding(config.target_vocab_size, width, dropout=config.dropout)
        self.encoder = RNN(config.cell, width, width, config.depth, dropout=config.dropout)
        self.decoder = RNN(config.cell, 2 * width, width, config.depth, dropout=config.dropout)
        self.output = nn.Linear(3 * width, config.target_vocab_size)
        self.width = width

    def encode(self, source: TokenIds, lengths: Lengths | None) -> Seq2SeqMemory:
        """The last state of the encoder is all that is kept of the source."""
        read = self.encoder(self.source(source), lengths)
        return Seq2SeqMemory(read.last_state[:, -1, : self.width], read.last_state)

    def init_state(self, memory: Seq2SeqMemory) -> DecoderState:
        """The decoder starts where the encoder ended, layer by layer."""
        return DecoderState(memory, memory.init_state)

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """All T steps at once: nothing of step t has to be known to begin step t + 1."""
        embedded = self.target(ids)
        context = state.memory.context
        context = context.repeat_interleave(ids.shape[0] // context.shape[0], dim=0)
        context = context[:, None].expand(-1, ids.shape[1], -1)
        read = self.decoder(torch.cat([embedded, context], dim=-1), start=state.cache)
        hidden = torch.cat([read.outputs, context, embedded], dim=-1)
        return hidden, DecoderState(state.memory, read.last_state)
