r"""Learned mixture of the layers of an encoder (ELMo, Peters et al. 2018, equation 1).

mixed_t = γ Σ_j s_j h_{t,j},   s = softmax(w)
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.types.shapes import Hidden


class LayerMix(nn.Module):
    """One weight for each layer and one scale; at the start all layers have the same weight."""

    def __init__(self, layers: int):
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def shares(self) -> Float[Tensor, " L"]:
        """The weight s_j of each layer; they sum to 1."""
        return self.scores.softmax(0)

    def forward(self, layers: Sequence[Hidden]) -> Hidden:
        """Return the scaled weighted sum of the layers."""
        weighted = [share * layer for share, layer in zip(self.shares, layers, strict=True)]
        return self.scale * torch.stack(weighted).sum(0)
