"""Activations as curves, with their slopes; and how near to GELU its approximations come."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.lookup import pick
from saccade.nn.activations import ACTIVATIONS

EQUATIONS = {  # in the order in which they are shown; softmax is of many numbers, not of one
    "sigmoid": "1 / (1 + exp(-x))",
    "tanh": "2σ(2x) - 1",
    "relu": "max(0, x)",
    "leaky_relu": "max(0.01 x, x)",
    "elu": "x, or exp(x) - 1 below 0",
    "selu": "1.051 x, or 1.758 (exp(x) - 1) below 0",
    "silu": "x σ(x)",
    "gelu_exact": "x Φ(x)",
}
APPROXIMATIONS = {
    "gelu": "x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    "gelu_sigmoid": "x σ(1.702 x)",
}
CORNERS = ("relu", "leaky_relu", "selu")  # where the slope jumps at 0
WIDE, STEPS = 8.0, 160_001  # farther out all three of GELU are 0 or x to a millionth


class Curve(NamedTuple):
    """An activation at some numbers."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    slope: NDArray[np.float64]
    at_zero: float  # the slope that is taken there, whether or not there is one


class Approximation(NamedTuple):
    """How far from x Φ(x) another function is."""

    name: str
    x: NDArray[np.float64]
    error: NDArray[np.float64]

    @property
    def largest(self) -> float:
        """The largest distance."""
        return float(np.abs(self.error).max())

    @property
    def place(self) -> float:
        """The x of it."""
        return float(self.x[np.abs(self.error).argmax()])


def curve(name: str, x: NDArray[np.float64]) -> Curve:
    """An activation and its slope, as learning gets it."""
    f = pick(ACTIVATIONS, name, "activation")
    if name == "softmax":
        raise ValueError("softmax is a function of many numbers; wanted one of one number.")
    points = torch.tensor([*x, 0.0], dtype=torch.float64, requires_grad=True)
    y = f(points)
    (slope,) = torch.autograd.grad(y.sum(), points)
    return Curve(name, x, y.detach().numpy()[:-1], slope.numpy()[:-1], float(slope[-1]))


def approximations() -> list[Approximation]:
    """Both of GELU's, measured against the exact one."""
    x = torch.linspace(-WIDE, WIDE, STEPS, dtype=torch.float64)
    exact = ACTIVATIONS["gelu_exact"](x)
    return [
        Approximation(name, x.numpy(), (ACTIVATIONS[name](x) - exact).numpy())
        for name in APPROXIMATIONS
    ]
