r"""Kernel regression as an attention layer.

    f(q) = Σ_i α_i y_i,   α = softmax_i(−(q − x_i)² / (2σ²))

Nadaraya 1964, Watson 1964: the query q attends to the keys x_i and returns the weighted mean of the
values y_i. The score is `nn.attention_scores.GaussianScore` and the weights are those of every
other attention here; σ is the only learned parameter. `estimators.kernel_regression` computes the
same function without attention layers.
"""

from math import log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.nn.attention_scores import GaussianScore
from saccade.nn.functional import attention_weights


class KernelAttention(nn.Module):
    """Gaussian attention whose keys and values are the data points; they are not learned.

    Computes in float64, unlike other models: for keys far from zero, the differences between
    them are in the last digits.
    """

    def __init__(
        self, initial_bandwidth: float, keys: Float[Tensor, " S"], values: Float[Tensor, " S"]
    ):
        super().__init__()
        self.score = GaussianScore(initial_bandwidth, learned=True)
        # GaussianScore rounds its argument to the default dtype
        self.score.log_sigma = nn.Parameter(
            torch.tensor(log(initial_bandwidth), dtype=torch.float64)
        )
        self.keys: Tensor
        self.values: Tensor
        self.register_buffer("keys", keys.double(), persistent=False)
        self.register_buffer("values", values.double(), persistent=False)

    @property
    def bandwidth(self) -> float:
        """The current σ."""
        with torch.no_grad():
            return float(self.score.sigma)

    def weights(
        self, queries: Float[Tensor, " T"], exclude: Int[Tensor, " T"] | None = None
    ) -> Float[Tensor, "T S"]:
        """Return the attention weights; `exclude` holds one key per query that gets weight 0.

        In training every point is excluded from its own prediction (leave-one-out); otherwise
        the loss would be smallest for a bandwidth of 0.
        """
        scores = self.score(queries[None, None, :, None], self.keys[None, None, :, None])
        mask = None if exclude is None else _all_but(exclude, len(self.keys))[None, None]
        return attention_weights(scores, mask)[0, 0]

    def forward(
        self, queries: Float[Tensor, " T"], exclude: Int[Tensor, " T"] | None = None
    ) -> Float[Tensor, " T"]:
        """Return f at each query."""
        return self.weights(queries, exclude) @ self.values


def _all_but(exclude: Int[Tensor, " T"], num_keys: int) -> Bool[Tensor, "T S"]:
    """Return the mask of all keys except one per query."""
    return torch.arange(num_keys, device=exclude.device) != exclude[:, None]
