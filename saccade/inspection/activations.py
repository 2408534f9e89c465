"""Activation functions and their derivatives as curves, and the errors of GELU's approximations."""

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.inspection.figures import ACTIVATION_EQUATIONS as ACTIVATION_EQUATIONS
from saccade.inspection.figures import KINKED_ACTIVATIONS as KINKED_ACTIVATIONS
from saccade.inspection.figures import ActivationCurve, GELUApproximation
from saccade.nn.activations import ACTIVATIONS, make_activation

GELU_APPROXIMATIONS = {
    "gelu": "x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    "gelu_sigmoid": "x σ(1.702 x)",
}
# beyond ±8 GELU and both approximations are 0 or x to within 1e-6
GELU_ERROR_LIMIT, GELU_ERROR_POINTS = 8.0, 160_001


def activation_curve(
    name: str, x: NDArray[np.float64], alpha: float | None = None
) -> ActivationCurve:
    """Evaluate an activation, with its α if it has one, and its derivative (by autograd) at `x`."""
    f = make_activation(name, alpha)
    if name == "softmax":
        raise ValueError(
            "got softmax, a function of a vector; expected an activation of one number."
        )
    points = torch.tensor([*x, 0.0], dtype=torch.float64, requires_grad=True)
    y = f(points)
    (derivative,) = torch.autograd.grad(y.sum(), points)
    return ActivationCurve(
        name, x, y.detach().numpy()[:-1], derivative.numpy()[:-1], float(derivative[-1]), alpha
    )


def gelu_approximations() -> list[GELUApproximation]:
    """Measure the tanh and the sigmoid approximation against the exact GELU."""
    x = torch.linspace(-GELU_ERROR_LIMIT, GELU_ERROR_LIMIT, GELU_ERROR_POINTS, dtype=torch.float64)
    exact = ACTIVATIONS["gelu_exact"](x)
    return [
        GELUApproximation(name, x.numpy(), (ACTIVATIONS[name](x) - exact).numpy())
        for name in GELU_APPROXIMATIONS
    ]
