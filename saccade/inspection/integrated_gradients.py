r"""Integrated gradients (Sundararajan et al. 2017): an output attributed to the parts of an input.

    IG_i = (x_i - b_i) ∫_0^1 ∂f/∂x_i (b + t (x - b)) dt

with x the input and b the baseline. Σ_i IG_i = f(x) - f(b), up to the error of the numerical
integral (midpoint rule).
"""

from collections.abc import Callable

import torch
from torch import Tensor

INTEGRATION_STEPS = 128
PATH_CHUNK = 32  # points of the path in one forward and backward pass


def integrated_gradients(
    function: Callable[[Tensor], Tensor],
    inputs: Tensor,
    baseline: Tensor,
    steps: int = INTEGRATION_STEPS,
) -> Tensor:
    """Return the attribution of each element of `inputs`, in its shape.

    Args:
        function: from a batch of inputs, (N, *shape), to one value for each, (N,).
        inputs: one input, (*shape,).
        baseline: the input that the attribution is relative to, (*shape,).
        steps: points of the path at which the gradient is computed.
    """
    difference = inputs - baseline
    shares = (torch.arange(steps, dtype=inputs.dtype, device=inputs.device) + 0.5) / steps
    total = torch.zeros_like(inputs)
    for some in shares.split(PATH_CHUNK):
        points = baseline + some.view(-1, *[1] * inputs.dim()) * difference
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            [gradients] = torch.autograd.grad(function(points).sum(), points)
        total += gradients.sum(0)
    return difference * total / steps
