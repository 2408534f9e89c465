r"""Feed-forward n-gram language model: the embeddings of the last n-1 tokens, one hidden layer.

Bengio et al. 2003, eq. 1, where x = [E w_{t-1}; …; E w_{t-n+1}]:

    logits_t = b + U f(d + H x)  [+ W x with `direct_connections`],  f tanh, or any `activation`

The context is that of an n-gram model, but similar tokens have similar embeddings, so it
generalises to n-grams that the training text does not contain. Positions before the first token
are zeros.
"""

import torch
from torch import Tensor, nn

from saccade.models.base import CausalLM
from saccade.models.config import NNLMConfig
from saccade.nn.activations import make_activation
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Hidden, TokenIds


class NNLM(CausalLM):
    """A multilayer perceptron over a sliding window of n-1 embeddings."""

    def __init__(self, config: NNLMConfig):
        super().__init__()
        self.history, self.direct_connections = config.order - 1, config.direct_connections
        joined = self.history * config.width
        # one row more, of zeros, for positions before the first token
        self.padding_id = config.vocab_size
        self.table = nn.Embedding(config.vocab_size + 1, config.width, padding_idx=self.padding_id)
        self.inner = nn.Linear(joined, config.hidden)
        self.output = nn.Linear(
            config.hidden + (joined if config.direct_connections else 0), config.vocab_size
        )
        self.activation = make_activation(config.activation, config.activation_alpha)
        self.dropout = Dropout(config.dropout)

    @property
    def context_description(self) -> str:
        """The part of the preceding text that a prediction depends on, in words."""
        return f"the {self.history} before it"

    def init_cache(self, rows: int) -> tuple[Tensor]:
        """Return n-1 padding ids per row."""
        return (torch.full((rows, self.history), self.padding_id, device=self.table.weight.device),)

    def forward_hidden(self, ids: TokenIds, cache: tuple[Tensor]) -> tuple[Hidden, tuple[Tensor]]:
        """Compute all windows in parallel; the cache holds the last n-1 ids."""
        before = torch.cat([cache[0], ids], dim=1)
        # (B, T, n-1, D), the oldest first, without the window that ends before the first id
        windows = self.table(before).unfold(1, self.history, 1)[:, 1:].transpose(-1, -2)
        x = self.dropout(windows.flatten(2))
        hidden = self.dropout(self.activation(self.inner(x)))
        if self.direct_connections:
            hidden = torch.cat([hidden, x], dim=-1)
        return hidden, (before[:, -self.history :],)
