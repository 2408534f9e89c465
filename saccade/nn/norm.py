r"""Norms: numbers brought to one size, then stretched and shifted as is learned (γ, β).

    y = γ (x - μ) / √(σ² + ε) + β

    batch   μ, σ² of one feature, over all rows of the batch     Ioffe and Szegedy 2015, algorithm 1
    layer   μ, σ² of one row, over its features                  Ba et al. 2016, eq. 4
    rms     of one row too, but μ = 0 and β = 0                  Zhang and Sennrich 2019, eq. 4

σ² is the mean of (x - μ)², divided by the count and not by one less. What a row becomes depends on
the other rows of its batch with `batch` while it learns, and with nothing else: evaluated, batch
norm takes the running averages that it has kept. The framework's kernels compute all three; a row
is the last axis, as everywhere in this library.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    r"""γ (x - μ) / √(σ² + ε) + β, feature by feature, over all axes but the last.

    Learning, μ and σ² are the batch's, and running averages move towards them by `momentum` m:
    r ← (1 - m) r + m μ, and so for the variance, there divided by the count less one. Evaluated,
    they are the running averages, so that a row's answer is its own. Padded places count as rows:
    it is for batches that have none. A layer before it needs no bias, which μ would take away.
    """

    def forward(self, input: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """Every feature on its own."""
        rows = input.flatten(0, -2)
        if self.training and len(rows) < 2:
            raise ValueError(
                f"batch norm got {len(rows)} row to learn from, and one row has no variance; "
                "wanted 2 or more, or a norm that asks for one row alone (layer, rms)."
            )
        return super().forward(rows).view_as(input)


class LayerNorm(nn.LayerNorm):
    r"""γ (x - μ) / √(σ² + ε) + β, with μ and σ² over the features of one row."""


class RMSNorm(nn.RMSNorm):
    r"""γ x / √(1/D Σ_d x_d² + ε): no mean is taken away, and nothing added.

    ε is 1e-5 as in the other two, where the framework's own default goes by the format of numbers.
    """

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__(width, eps=eps)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": BatchNorm,
    "layer": LayerNorm,
    "none": nn.Identity,
    "rms": RMSNorm,
}
