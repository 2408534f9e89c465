r"""The first networks: rows of numbers in, a number or a class out.

    linear    ŷ = w·x + b
    softmax   P(v | x) = softmax(W x + b)_v; for two classes it is logistic regression
    mlp       a_0 = x,  a_l = f(W_l a_{l-1} + b_l),  and the answer is W a_L + b

Each step adds one thing: more outputs, then layers between. Without f the mlp would be no more
than `linear`: a product of matrices is a matrix. Both of the first two have one optimum, whatever
they start from, and start at 0.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn

from saccade.config import Config
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.dropout import AlphaDropout, Dropout
from saccade.nn.manual_backprop import ACTIVATION_DERIVATIVES, Affine
from saccade.nn.norm import NORMS
from saccade.registry import lookup


class LinearRegressionConfig(Config):
    """Linear regression."""

    name: Literal["linear"] = "linear"
    inputs: int = 0  # from the data


class SoftmaxRegressionConfig(Config):
    """Softmax regression."""

    name: Literal["softmax"] = "softmax"
    inputs: int = 0  # from the data
    outputs: int = 0


class MLPConfig(Config):
    """A multilayer perceptron."""

    name: Literal["mlp"] = "mlp"
    inputs: int = 0  # from the data
    outputs: int = 0
    hidden: tuple[int, ...] = (32,)  # the width of each hidden layer
    activation: str = "relu"
    norm: Literal["none", "batch", "layer", "rms"] = "none"
    dropout: float = Field(0.0, ge=0, lt=1)

    @field_validator("hidden", mode="before")
    @classmethod
    def _typed(cls, value: Any) -> Any:
        """64 or 64,32, as people type it."""
        if isinstance(value, int):
            return (value,)
        return tuple(value.split(",")) if isinstance(value, str) else value

    @field_validator("hidden")
    @classmethod
    def _some(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1:
            raise ValueError("one width or more was wanted, each 1 or more; softmax has no layers")
        return value


class LinearRegression(nn.Module):
    """One answer for each row."""

    def __init__(self, config: LinearRegressionConfig):
        super().__init__()
        self.output = _from_nothing(config.inputs, 1)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B 1"]:
        """W·x + b."""
        return self.output(x)

    def layers(self) -> list[Affine]:
        """As `nn.backward` has them."""
        return [Affine(self.output.weight, self.output.bias)]


class SoftmaxRegression(nn.Module):
    """A logit for each class."""

    def __init__(self, config: SoftmaxRegressionConfig):
        super().__init__()
        self.output = _from_nothing(config.inputs, config.outputs)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """W x + b."""
        return self.output(x)

    def layers(self) -> list[Affine]:
        """As `nn.backward` has them."""
        return [Affine(self.output.weight, self.output.bias)]


class MLP(nn.Module):
    """Affine layers with something that is not affine between them."""

    def __init__(self, config: MLPConfig):
        super().__init__()
        lookup(ACTIVATION_DERIVATIVES, config.activation, "activation of single numbers")
        widths = (config.inputs, *config.hidden)
        self.hidden = nn.ModuleList(
            HiddenLayer(D, F, config.activation, config.norm, config.dropout)
            for D, F in pairwise(widths)
        )
        self.output = nn.Linear(widths[-1], config.outputs)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B V"]:
        """A logit for each class, or one number."""
        for layer in self.hidden:
            x = layer(x)
        return self.output(x)

    def layers(self) -> list[Affine]:
        """As `nn.backward` has them: without norms, and with nothing dropped."""
        every: Sequence[Any] = [*(layer.linear for layer in self.hidden), self.output]
        return [Affine(linear.weight, linear.bias) for linear in every]


class HiddenLayer(nn.Module):
    r"""dropout(f(norm(W x + b))): what is dropped are activations (Srivastava et al. 2014).

    With selu, dropout is the kind that keeps mean and variance.
    """

    def __init__(self, width: int, hidden: int, activation: str, norm: str, dropout: float):
        super().__init__()
        self.linear = nn.Linear(width, hidden)
        self.norm = lookup(NORMS, norm, "norm")(hidden)
        self.activation = lookup(ACTIVATIONS, activation, "activation")
        self.dropout = (AlphaDropout if activation == "selu" else Dropout)(dropout)

    def forward(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B F"]:
        """One layer on."""
        return self.dropout(self.activation(self.norm(self.linear(x))))


def _from_nothing(inputs: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


TABULAR_NETWORKS = {"linear": LinearRegression, "mlp": MLP, "softmax": SoftmaxRegression}
