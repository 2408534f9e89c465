"""Activations as curves, with their slopes; and how near to GELU its approximations come."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.nn.activations import ACTIVATIONS
from saccade.registry import lookup

ACTIVATION_EQUATIONS = {  # in the order in which they are shown; softmax is of many numbers, not of one
    "sigmoid": "1 / (1 + exp(-x))",
    "tanh": "2σ(2x) - 1",
    "relu": "max(0, x)",
    "leaky_relu": "max(0.01 x, x)",
    "elu": "x, or exp(x) - 1 below 0",
    "selu": "1.051 x, or 1.758 (exp(x) - 1) below 0",
    "silu": "x σ(x)",
    "gelu_exact": "x Φ(x)",
}
GELU_APPROXIMATIONS = {
    "gelu": "x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    "gelu_sigmoid": "x σ(1.702 x)",
}
KINKED_ACTIVATIONS = ("relu", "leaky_relu", "selu")  # where the slope jumps at 0
GELU_ERROR_LIMIT, GELU_ERROR_POINTS = (
    8.0,
    160_001,
)  # farther out all three of GELU are 0 or x to a millionth


class ActivationCurve(NamedTuple):
    """An activation at some numbers."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    derivative: NDArray[np.float64]
    derivative_at_zero: float  # the slope that is taken there, whether or not there is one


class GELUApproximation(NamedTuple):
    """How far from x Φ(x) another function is."""

    name: str
    x: NDArray[np.float64]
    error: NDArray[np.float64]

    @property
    def max_error(self) -> float:
        """The largest distance."""
        return float(np.abs(self.error).max())

    @property
    def max_error_x(self) -> float:
        """The x of it."""
        return float(self.x[np.abs(self.error).argmax()])


def activation_curve(name: str, x: NDArray[np.float64]) -> ActivationCurve:
    """An activation and its slope, as learning gets it."""
    f = lookup(ACTIVATIONS, name, "activation")
    if name == "softmax":
        raise ValueError("softmax is a function of many numbers; wanted one of one number.")
    points = torch.tensor([*x, 0.0], dtype=torch.float64, requires_grad=True)
    y = f(points)
    (derivative,) = torch.autograd.grad(y.sum(), points)
    return ActivationCurve(
        name, x, y.detach().numpy()[:-1], derivative.numpy()[:-1], float(derivative[-1])
    )


def gelu_approximations() -> list[GELUApproximation]:
    """Both of GELU's, measured against the exact one."""
    x = torch.linspace(-GELU_ERROR_LIMIT, GELU_ERROR_LIMIT, GELU_ERROR_POINTS, dtype=torch.float64)
    exact = ACTIVATIONS["gelu_exact"](x)
    return [
        GELUApproximation(name, x.numpy(), (ACTIVATIONS[name](x) - exact).numpy())
        for name in GELU_APPROXIMATIONS
    ]
