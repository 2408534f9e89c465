r"""Kernel regression built from the parts of attention.

    f(q) = Σ_i α_i y_i,   α = softmax_i(−(q − x_i)² / (2σ²))

Nadaraya 1964, Watson 1964: the query q looks at the keys x_i and takes the mean of the values
y_i. The score is `nn.Gaussian` and the weights are `nn.weights`, as in every other attention
here; σ is the only weight that is learned. `fitted.kernel` computes the same without them.
"""

from math import log
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.nn.attention import attention_weights
from saccade.nn.attention_scores import GaussianScore


class KernelRegressionConfig(Config):
    """Kernel regression that fits itself."""

    name: Literal["kernel"] = "kernel"
    kernel: Literal["gaussian", "boxcar", "triangular", "epanechnikov"] = "gaussian"
    bandwidth: float | None = Field(None, gt=0, allow_inf_nan=False)  # open: learned
    initial_bandwidth: float | None = Field(
        None, gt=0, allow_inf_nan=False
    )  # drawn beside the other


class KernelAttentionConfig(Config):
    """Kernel regression as attention."""

    name: Literal["attention"] = "attention"
    initial_bandwidth: float | None = Field(None, gt=0, allow_inf_nan=False)  # where σ starts


class KernelAttention(nn.Module):
    """Keys and values are the points themselves; they are handed in, and not learned.

    In float64, unlike other models: for keys far from zero, what tells one from the next is in
    the last digits.
    """

    def __init__(
        self, initial_bandwidth: float, keys: Float[Tensor, " S"], values: Float[Tensor, " S"]
    ):
        super().__init__()
        self.score = GaussianScore(initial_bandwidth, learned=True)
        # the score has rounded it to the default format
        self.score.log_sigma = nn.Parameter(
            torch.tensor(log(initial_bandwidth), dtype=torch.float64)
        )
        self.keys: Tensor
        self.values: Tensor
        self.register_buffer("keys", keys.double(), persistent=False)
        self.register_buffer("values", values.double(), persistent=False)

    @property
    def bandwidth(self) -> float:
        """σ as it is now."""
        with torch.no_grad():
            return float(self.score.sigma)

    def weights(
        self, queries: Float[Tensor, " T"], exclude: Int[Tensor, " T"] | None = None
    ) -> Float[Tensor, "T S"]:
        """How much each query looks at each key; at all of them but its `own`, where one is named.

        A point that could see itself would foretell itself best with a width of nothing.
        """
        scores = self.score(queries[None, None, :, None], self.keys[None, None, :, None])
        may_see = None if exclude is None else _others(exclude, len(self.keys))[None, None]
        return attention_weights(scores, may_see)[0, 0]

    def forward(
        self, queries: Float[Tensor, " T"], exclude: Int[Tensor, " T"] | None = None
    ) -> Float[Tensor, " T"]:
        """f at each query."""
        return self.weights(queries, exclude) @ self.values


def _others(exclude: Int[Tensor, " T"], num_keys: int) -> Bool[Tensor, "T S"]:
    """Every key but the query's own."""
    return torch.arange(num_keys, device=exclude.device) != exclude[:, None]
