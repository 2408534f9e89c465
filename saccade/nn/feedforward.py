r"""Position-wise feed-forward network of a Transformer block."""

from torch import nn

from saccade.nn.activations import make_activation
from saccade.types.shapes import Hidden


class FeedForward(nn.Module):
    r"""W_2 f(W_1 x + b_1) + b_2, f relu (Vaswani et al. 2017, eq. 2) or any of `ACTIVATIONS`.

    `alpha` is that of elu or leaky_relu. There is no dropout between the two layers: the residual
    branch has its own.
    """

    def __init__(
        self, width: int, hidden: int, activation: str = "relu", alpha: float | None = None
    ):
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)
        self.activation = make_activation(activation, alpha)

    def forward(self, x: Hidden) -> Hidden:
        """Apply the network to each position."""
        return self.outer(self.activation(self.inner(x)))
