r"""Token embeddings, scaled and with positions, and one-hot vectors."""

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.dropout import Dropout
from saccade.nn.positional_encoding import LearnedPositions, SinusoidalPositions
from saccade.types.shapes import Hidden, TokenIds


def one_hot_inputs(ids: TokenIds, table: Float[Tensor, "V D"]) -> Float[Tensor, "B T V"]:
    """Return 1 at each id and 0 elsewhere, in the dtype of a table with V rows."""
    return F.one_hot(ids.long(), table.shape[0]).to(table.dtype)


class TokenEmbedding(nn.Module):
    r"""√D · E[id] + p, then dropout (Vaswani et al. 2017, sections 3.4 and 3.5).

    Unlike `nn.Embedding` it scales the rows and adds positions. E is initialised with variance 1/D,
    so that the scaled rows have variance 1, like the positions, and the same matrix as output
    projection gives logits of variance about 1.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        positions: SinusoidalPositions | LearnedPositions | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, ids: TokenIds, start: int = 0) -> Hidden:
        """Return the vectors of ids at the positions from `start` on."""
        x = self.table(ids) * math.sqrt(self.table.embedding_dim)
        if self.positions is not None:
            x = x + self.positions(start, ids.shape[1])
        return self.dropout(x)
