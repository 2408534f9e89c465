r"""Word vectors from the bytes of the words: convolutions, highway layers, projection.

    c_k = max over positions of relu(W_k * E b + b_k)    for each kernel size k   (Kim et al. 2016)
    y   = g ∘ relu(W y + b) + (1 - g) ∘ y,  g = σ(W_g y + b_g)    (Srivastava et al. 2015)
    x   = P y + b_p

The ids of the bytes are those of `saccade.types.word_ids`.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.nn.conv1d import Convolution
from saccade.nn.dropout import Dropout
from saccade.types.word_ids import BYTE_IDS

CARRY_BIAS = -2.0  # of the gates at the start: most of the input is carried on


class Highway(nn.Module):
    """One highway layer: a gated mixture of a transformed input and the input itself."""

    def __init__(self, width: int):
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, CARRY_BIAS)

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Apply the layer."""
        gate = self.gate(x).sigmoid()
        return gate * self.transform(x).relu() + (1 - gate) * x


class CharacterCNN(nn.Module):
    """The vector of each word from its bytes; padding at the end of a word changes nothing."""

    def __init__(
        self,
        byte_width: int,
        kernels: Sequence[int],
        filters: Sequence[int],
        highway: int = 0,
        width: int | None = None,
        dropout: float = 0.0,
    ):
        """Build the layers.

        Args:
            byte_width: width of the vector of a byte.
            kernels: kernel sizes, in bytes.
            filters: number of filters of each kernel size.
            highway: number of highway layers.
            width: of the projection at the end; None: none, so that the width is that of all
                filters.
            dropout: of the vectors of the bytes.
        """
        super().__init__()
        self.table = nn.Embedding(BYTE_IDS, byte_width, padding_idx=0)
        self.convolutions = nn.ModuleList(
            Convolution(byte_width, count, size)
            for size, count in zip(kernels, filters, strict=True)
        )
        self.highway = nn.ModuleList(Highway(sum(filters)) for _ in range(highway))
        self.projection = nn.Identity() if width is None else nn.Linear(sum(filters), width)
        self.dropout = Dropout(dropout)
        self.width = sum(filters) if width is None else width

    def forward(self, spelling: Int[Tensor, "N L"]) -> Float[Tensor, "N D"]:
        """Return a vector for each word."""
        lengths = (spelling > 0).sum(1)
        is_byte = (spelling > 0)[..., None]
        x = self.dropout(self.table(spelling))
        convolutions: Iterable[nn.Module] = self.convolutions
        # relu is not negative, so that zeros at the padding never are the maximum
        pooled = [(layer(x, lengths).relu() * is_byte).amax(1) for layer in convolutions]
        y = torch.cat(pooled, dim=1)
        layers: Iterable[nn.Module] = self.highway
        for layer in layers:
            y = layer(y)
        return self.projection(y)
