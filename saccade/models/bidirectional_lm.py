r"""Two recurrent stacks, one from each end of a text, which meet where a token is missing.

Schuster and Paliwal 1997. Of x_1 … x_n the token at place t is told by all others:

    →h_t = f(E x_t, →h_{t-1}),   ←h_t = f(E x_t, ←h_{t+1}),
    logits_t = tanh(W [→h_{t-1}; ←h_{t+1}]) E^T

Neither state has seen x_t itself, at any depth: the stacks meet only after their last layers, as in
Peters et al. 2018. A stack whose layers read both directions would have seen it from the second
layer on. Such a model fills gaps; it cannot go on with a text, since its answer for a place needs
what comes after it.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from saccade.config import Config
from saccade.models.base import TokenModel
from saccade.nn.dropout import Dropout
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.rnn import RNN, reverse_sequences
from saccade.types.shapes import Hidden, Lengths, TokenIds


class BidirectionalLMConfig(Config):
    """A recurrent model that reads from both ends."""

    name: Literal["bidirectional"] = "bidirectional"
    vocab_size: int = 0  # from the data
    cell: Literal["rnn", "gru", "lstm"] = "gru"
    width: int = Field(256, ge=1)
    depth: int = Field(1, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)


class BidirectionalLM(TokenModel):
    """What stands at each place, told by what stands to both sides of it."""

    def __init__(self, config: BidirectionalLMConfig):
        super().__init__()
        width = config.width
        self.table = nn.Embedding(config.vocab_size, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        sizes = (config.cell, width, width, config.depth)
        self.forward_stack = RNN(*sizes, dropout=config.dropout)
        self.backward_stack = RNN(*sizes, dropout=config.dropout)
        self.join = nn.Linear(2 * width, width)
        self.dropout = Dropout(config.dropout)

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings, and a bias for each."""
        return OutputLayer(self.table.weight, self.bias)

    def forward_hidden(self, ids: TokenIds, lengths: Lengths | None) -> Hidden:
        """At every place what its neighbours say of it; rows are padded at their end."""
        x = self.dropout(self.table(ids) * self.table.embedding_dim**0.5)
        before = self.forward_stack(x, lengths).outputs
        mirrored = self.backward_stack(reverse_sequences(x, lengths), lengths).outputs
        # each state moves one place on: nothing is before the first place, or after the last
        before = F.pad(before, (0, 0, 1, 0))[:, :-1]
        after = reverse_sequences(F.pad(mirrored, (0, 0, 1, 0))[:, :-1], lengths)
        return self.dropout(self.join(torch.cat([before, after], dim=-1)).tanh())
