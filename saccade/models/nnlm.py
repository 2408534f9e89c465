r"""Bengio's neural model: the last n-1 words, each as a vector, joined, through one hidden layer.

Bengio et al. 2003, eq. 1, where x = [E w_{t-1}; …; E w_{t-n+1}]:

    logits_t = b + U f(d + H x)  [+ W x with `direct`],  f tanh, or any `activation`

It sees no farther than an n-gram, but knows that words are alike: what it has learned of one it
knows of its neighbours. Before the first word stand zeros.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.base import CausalLM
from saccade.nn.activations import ACTIVATIONS, Activation
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Hidden, TokenIds


class NNLMConfig(Config):
    """A feed-forward model of the last words."""

    name: Literal["nnlm"] = "nnlm"
    vocab_size: int = 0  # from the data
    order: int = Field(5, ge=2)  # n: one more than the words it sees
    width: int = Field(128, ge=1)  # of a word
    hidden: int = Field(256, ge=1)
    activation: Activation = "tanh"  # of the hidden layer
    direct_connections: bool = False  # the words also reach the logits without the hidden layer
    dropout: float = Field(0.1, ge=0, lt=1)


class NNLM(CausalLM):
    """A window that moves over the text."""

    def __init__(self, config: NNLMConfig):
        super().__init__()
        self.history, self.direct_connections = config.order - 1, config.direct_connections
        joined = self.history * config.width
        # one row more, of zeros, for what is before the first word
        self.padding_id = config.vocab_size
        self.table = nn.Embedding(config.vocab_size + 1, config.width, padding_idx=self.padding_id)
        self.inner = nn.Linear(joined, config.hidden)
        self.output = nn.Linear(
            config.hidden + (joined if config.direct_connections else 0), config.vocab_size
        )
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.dropout)

    @property
    def context_description(self) -> str:
        """What a token sees."""
        return f"the {self.history} before it"

    def init_cache(self, rows: int) -> tuple[Tensor]:
        """Nothing, as many times as words are seen."""
        return (torch.full((rows, self.history), self.padding_id, device=self.table.weight.device),)

    def forward_hidden(self, ids: TokenIds, cache: tuple[Tensor]) -> tuple[Hidden, tuple[Tensor]]:
        """All windows at once."""
        before = torch.cat([cache[0], ids], dim=1)
        # (B, T, n-1, D), the oldest first, without the window that ends before the first id
        windows = self.table(before).unfold(1, self.history, 1)[:, 1:].transpose(-1, -2)
        x = self.dropout(windows.flatten(2))
        hidden = self.dropout(self.activation(self.inner(x)))
        if self.direct_connections:
            hidden = torch.cat([hidden, x], dim=-1)
        return hidden, (before[:, -self.history :],)
