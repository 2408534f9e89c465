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
from saccade.models.speaking import Translator
from saccade.nn.embedding import Embedding
from saccade.nn.recurrent import Recurrent
from saccade.types import Hidden, Ids, Lengths, State


class Seq2SeqConfig(Config):
    """The recurrent encoder and decoder with one fixed context."""

    name: Literal["seq2seq"] = "seq2seq"
    source_vocab: int = 0  # from the data
    target_vocab: int = 0
    width: int = Field(128, ge=1)
    depth: int = Field(1, ge=1)
    cell: Literal["rnn", "rnn_relu", "gru", "gru_reset_first", "lstm"] = "gru"
    dropout: float = Field(0.1, ge=0, lt=1)


class Context(NamedTuple):
    """What the encoder leaves: a vector, and the state that the decoder starts from."""

    context: Float[Tensor, "B D"]
    start: Float[Tensor, "B L E"]


class Seq2Seq(Translator):
    """Reads the source into one vector, writes the target from it."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        width = config.width
        self.source = Embedding(config.source_vocab, width, dropout=config.dropout)
        self.target = Embedding(config.target_vocab, width, dropout=config.dropout)
        self.encoder = Recurrent(config.cell, width, width, config.depth, dropout=config.dropout)
        self.decoder = Recurrent(
            config.cell, 2 * width, width, config.depth, dropout=config.dropout
        )
        self.output = nn.Linear(3 * width, config.target_vocab)
        self.width = width

    def encode(self, source: Ids, lengths: Lengths | None) -> Context:
        """The last state of the encoder is all that is kept of the source."""
        read = self.encoder(self.source(source), lengths)
        return Context(read.last[:, -1, : self.width], read.last)

    def start(self, memory: Context) -> State:
        """The decoder starts where the encoder ended, layer by layer."""
        return State(memory, memory.start)

    def read(self, ids: Ids, state: State) -> tuple[Hidden, State]:
        """All T steps at once: nothing of step t has to be known to begin step t + 1."""
        embedded = self.target(ids)
        context = state.memory.context
        context = context.repeat_interleave(ids.shape[0] // context.shape[0], dim=0)
        context = context[:, None].expand(-1, ids.shape[1], -1)
        read = self.decoder(torch.cat([embedded, context], dim=-1), start=state.past)
        hidden = torch.cat([read.outputs, context, embedded], dim=-1)
        return hidden, State(state.memory, read.last)
