r"""Networks for tables: linear regression, softmax regression, multilayer perceptron.

    linear    ŷ = w·x + b
    softmax   P(v | x) = softmax(W x + b)_v; for two classes it is logistic regression
    mlp       a_0 = x,  a_l = f(W_l a_{l-1} + b_l),  output W a_L + b

Without the nonlinearity f the mlp would reduce to `linear`: a product of matrices is a matrix. The
losses of the first two are convex, so they are initialised with zeros.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.config import LinearRegressionConfig, MLPConfig, SoftmaxRegressionConfig
from saccade.nn.activations import make_activation
from saccade.nn.dropout import AlphaDropout, Dropout
from saccade.nn.manual_backprop import ACTIVATION_DERIVATIVES, Affine
from saccade.nn.norm import NORMS
from saccade.registry import lookup


class LinearRegression(nn.Module):
    """w·x + b: one number for each row."""

    def __init__(self, config: LinearRegressionConfig):
        super().__init__()
        self.output = _zero_linear(config.inputs, 1)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B 1"]:
        """Return the prediction for each row."""
        return self.output(x)

    def layers(self) -> list[Affine]:
        """Return the affine layers for `nn.manual_backprop`."""
        return [Affine(self.output.weight, self.output.bias)]


class SoftmaxRegression(nn.Module):
    """W x + b: a logit for each class (multinomial logistic regression)."""

    def __init__(self, config: SoftmaxRegressionConfig):
        super().__init__()
        self.output = _zero_linear(config.inputs, config.outputs)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """Return the logits of each row."""
        return self.output(x)

    def layers(self) -> list[Affine]:
        """Return the affine layers for `nn.manual_backprop`."""
        return [Affine(self.output.weight, self.output.bias)]


class MLP(nn.Module):
    """Affine layers with nonlinearities between them."""

    def __init__(self, config: MLPConfig):
        super().__init__()
        lookup(ACTIVATION_DERIVATIVES, config.activation, "activation of single numbers")
        widths = (config.inputs, *config.hidden)
        self.hidden = nn.ModuleList(
            HiddenLayer(
                D, F, config.activation, config.norm, config.dropout, config.activation_alpha
            )
            for D, F in pairwise(widths)
        )
        self.output = nn.Linear(widths[-1], config.outputs)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """Return the logits of each row, or one number per row."""
        for layer in self.hidden:
            x = layer(x)
        return self.output(x)

    def layers(self) -> list[Affine]:
        """Return the affine layers for `nn.manual_backprop`, without norms and dropout."""
        linears: Sequence[Any] = [*(layer.linear for layer in self.hidden), self.output]
        return [Affine(linear.weight, linear.bias) for linear in linears]


class HiddenLayer(nn.Module):
    r"""dropout(f(norm(W x + b))), with dropout of activations (Srivastava et al. 2014).

    With selu, alpha dropout is used, which keeps mean and variance (Klambauer et al. 2017).
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        activation: str,
        norm: str,
        dropout: float,
        alpha: float | None = None,
    ):
        super().__init__()
        self.linear = nn.Linear(width, hidden)
        self.norm = lookup(NORMS, norm, "norm")(hidden)
        self.activation = make_activation(activation, alpha)
        self.dropout = (AlphaDropout if activation == "selu" else Dropout)(dropout)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B F"]:
        """Return the activations."""
        return self.dropout(self.activation(self.norm(self.linear(x))))


def _zero_linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear layer initialised with zeros."""
    linear = nn.Linear(inputs, outputs)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
