r"""Bidirectional recurrent language model: predicts each token from its left and right context.

Schuster and Paliwal 1997. The token at position t of x_1 … x_n is predicted from all others:

    →h_t = f(E x_t, →h_{t-1}),   ←h_t = f(E x_t, ←h_{t+1}),
    logits_t = tanh(W [→h_{t-1}; ←h_{t+1}]) E^T

Neither state depends on x_t, at any depth: the two stacks are joined only after their last layers,
as in Peters et al. 2018. A stack whose layers read both directions would depend on x_t from the
second layer up. The model fills gaps; it cannot continue a text, since its prediction for a
position needs the tokens after it.
"""

import torch
import torch.nn.functional as F
from torch import nn

from saccade.models.base import TokenModel
from saccade.models.config import BidirectionalLMConfig
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import one_hot_inputs
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.rnn import RNN, reverse_sequences
from saccade.types.shapes import Hidden, Lengths, Logits, TokenIds


class BidirectionalBase(TokenModel):
    """A forward and a backward stack, neither of which depends on the token that it predicts."""

    forward_stack: RNN
    backward_stack: RNN
    dropout: Dropout

    def forward(self, ids: TokenIds, lengths: Lengths | None = None) -> Logits:
        """Return the logits of the token at each position, given all other tokens of its row."""
        return self.compute_logits(self.forward_hidden(ids, lengths))

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the inputs of the first layers."""
        raise NotImplementedError

    def joined(self, before: Hidden, after: Hidden) -> Hidden:
        """Return the vector that predicts a token from the states of both directions."""
        raise NotImplementedError

    def directions(self, ids: TokenIds, lengths: Lengths | None) -> tuple[Hidden, Hidden]:
        """Return the states before and after each position; rows are padded at the end."""
        x = self.embed(ids)
        before = self.forward_stack(x, lengths).outputs
        reversed_states = self.backward_stack(reverse_sequences(x, lengths), lengths).outputs
        # shift by one position: zeros before the first and after the last token
        before = F.pad(before, (0, 0, 1, 0))[:, :-1]
        after = reverse_sequences(F.pad(reversed_states, (0, 0, 1, 0))[:, :-1], lengths)
        return before, after

    def forward_hidden(self, ids: TokenIds, lengths: Lengths | None) -> Hidden:
        """Return the hidden vector of each position from both sides."""
        return self.joined(*self.directions(ids, lengths))

    def predictors(self, ids: TokenIds, lengths: Lengths | None) -> tuple[Hidden, ...]:
        """Return the hidden vectors that are trained to predict each token: one of both sides."""
        return (self.forward_hidden(ids, lengths),)


class BidirectionalLM(BidirectionalBase):
    """A forward and a backward recurrent stack with one output layer, tied to the embeddings."""

    def __init__(self, config: BidirectionalLMConfig):
        super().__init__()
        width = config.width
        self.table = nn.Embedding(config.vocab_size, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.one_hot = config.input == "one_hot"
        inputs = config.vocab_size if self.one_hot else width
        sizes = (config.cell, inputs, width, config.depth)
        self.forward_stack = RNN(*sizes, dropout=config.dropout)
        self.backward_stack = RNN(*sizes, dropout=config.dropout)
        self.join = nn.Linear(2 * width, width)
        self.dropout = Dropout(config.dropout)

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings (tied) and a bias."""
        return OutputLayer(self.table.weight, self.bias)

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the inputs of the first layers; one-hot vectors have no dropout."""
        if self.one_hot:
            return one_hot_inputs(ids, self.table.weight)
        return self.dropout(self.table(ids) * self.table.embedding_dim**0.5)

    def joined(self, before: Hidden, after: Hidden) -> Hidden:
        """Return tanh(W [before; after])."""
        return self.dropout(self.join(torch.cat([before, after], dim=-1)).tanh())
