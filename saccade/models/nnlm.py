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
from saccade.models.speaking import LanguageModel
from saccade.nn.activations import ACTIVATIONS, Activation
from saccade.nn.dropout import Dropout
from saccade.types import Hidden, Ids


class NNLMConfig(Config):
    """A feed-forward model of the last words."""

    name: Literal["nnlm"] = "nnlm"
    vocab_size: int = 0  # from the data
    order: int = Field(5, ge=2)  # n: one more than the words it sees
    width: int = Field(128, ge=1)  # of a word
    hidden: int = Field(256, ge=1)
    activation: Activation = "tanh"  # of the hidden layer
    direct: bool = False  # the words also reach the logits without the hidden layer
    dropout: float = Field(0.1, ge=0, lt=1)


class NNLM(LanguageModel):
    """A window that moves over the text."""

    def __init__(self, config: NNLMConfig):
        super().__init__()
        self.seen, self.direct = config.order - 1, config.direct
        joined = self.seen * config.width
        # one row more, of zeros, for what is before the first word
        self.nothing = config.vocab_size
        self.table = nn.Embedding(config.vocab_size + 1, config.width, padding_idx=self.nothing)
        self.inner = nn.Linear(joined, config.hidden)
        self.output = nn.Linear(config.hidden + (joined if config.direct else 0), config.vocab_size)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.dropout)

    @property
    def sees(self) -> str:
        """What a token sees."""
        return f"the {self.seen} before it"

    def past(self, rows: int) -> tuple[Tensor]:
        """Nothing, as many times as words are seen."""
        return (torch.full((rows, self.seen), self.nothing, device=self.table.weight.device),)

    def read(self, ids: Ids, past: tuple[Tensor]) -> tuple[Hidden, tuple[Tensor]]:
        """All windows at once."""
        before = torch.cat([past[0], ids], dim=1)
        # (B, T, n-1, D), the oldest first, without the window that ends before the first id
        windows = self.table(before).unfold(1, self.seen, 1)[:, 1:].transpose(-1, -2)
        x = self.dropout(windows.flatten(2))
        hidden = self.dropout(self.activation(self.inner(x)))
        if self.direct:
            hidden = torch.cat([hidden, x], dim=-1)
        return hidden, (before[:, -self.seen :],)
