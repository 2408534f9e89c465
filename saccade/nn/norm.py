r"""Normalisation layers: inputs scaled to unit size, then by a learned gain γ and bias β.

    y = γ (x - μ) / √(σ² + ε) + β

    batch   μ, σ² of one feature, over all rows of the batch     Ioffe and Szegedy 2015, algorithm 1
    layer   μ, σ² of one row, over its features                  Ba et al. 2016, eq. 4
    rms     of one row too, but μ = 0 and β = 0                  Zhang and Sennrich 2019, eq. 4

σ² is the biased variance, the mean of (x - μ)². Only batch norm in training makes a row depend on
the other rows of its batch; in evaluation it uses running averages. Torch's kernels compute all
three, and layer norm is torch's own class; a row is the last axis, as everywhere in this library.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    r"""γ (x - μ) / √(σ² + ε) + β, feature by feature, over all axes but the last.

    In training, μ and σ² are those of the batch, and running averages follow them with `momentum`
    m: r ← (1 - m) r + m μ, and likewise the (unbiased) variance. In evaluation they are the running
    averages. A layer before it needs no bias, which μ would remove.
    """

    def forward(
        self, input: Float[Tensor, "*rows D"], real: Bool[Tensor, "*rows"] | None = None
    ) -> Float[Tensor, "*rows D"]:
        """Normalise each feature, with statistics over the rows that are `real`, not padding.

        In training, rows that are not real become 0.
        """
        if real is not None and self.training:
            result = torch.zeros_like(input)
            result[real] = self.forward(input[real]).to(result.dtype)
            return result
        rows = input.flatten(0, -2)
        if self.training and len(rows) < 2:
            raise ValueError(
                f"got {len(rows)} row in training, which has no variance; expected 2 or more; "
                "try another norm (layer, rms)."
            )
        return super().forward(rows).view_as(input)


class RMSNorm(nn.RMSNorm):
    r"""γ x / √(1/D Σ_d x_d² + ε): no mean is subtracted, and no bias added.

    ε is 1e-5 as in the other two; torch's own default depends on the number format.
    """

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__(width, eps=eps)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": BatchNorm,
    "layer": nn.LayerNorm,
    "none": nn.Identity,
    "rms": RMSNorm,
}
