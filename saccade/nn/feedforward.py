r"""The part of a block that looks at one place at a time."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from saccade.lookup import pick
from saccade.types import Hidden


def gelu(x: Tensor) -> Tensor:
    r"""x Φ(x), by its approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).

    Hendrycks and Gimpel 2016, section 2; what GPT-1 to GPT-3 compute.
    """
    return F.gelu(x, approximate="tanh")


def relu(x: Tensor) -> Tensor:
    r"""max(0, x)."""
    return x.relu()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": gelu, "relu": relu}


class FeedForward(nn.Module):
    r"""W_2 f(W_1 x + b_1) + b_2, f relu (Vaswani et al. 2017, eq. 2) or gelu.

    No dropout between the two: the residual branch has its own.
    """

    def __init__(self, width: int, hidden: int, activation: str = "relu"):
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)
        self.activation = pick(ACTIVATIONS, activation, "activation")

    def forward(self, x: Hidden) -> Hidden:
        """Every place by itself."""
        return self.outer(self.activation(self.inner(x)))
