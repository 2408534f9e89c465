r"""Newton's method for roots: x ← x - f(x) / f'(x).

For optimisation the same step is applied to the gradient, x ← x - f'(x) / f''(x) (`newton`). Near a
simple root the number of correct digits doubles in each step; at a root of multiplicity m the error
falls by (m - 1) / m only, and where f' is 0 there is no step.
"""

from collections.abc import Callable

import torch
from torch import Tensor

MAX_ROOT_STEPS = 100


def newton_root(
    function: Callable[[Tensor], Tensor],
    start: float,
    tolerance: float = 1e-12,
    max_steps: int = MAX_ROOT_STEPS,
) -> list[float]:
    """Return the points from `start` to a root of a function of one number.

    The derivative is computed by autograd. Ends when a step is at most `tolerance` (1 + |x|).
    """
    points = [float(start)]
    for _ in range(max_steps):
        x = torch.tensor(points[-1], dtype=torch.float64, requires_grad=True)
        value = function(x)
        [slope] = torch.autograd.grad(value, x)
        if value.item() == 0:
            return points
        if slope.item() == 0 or not torch.isfinite(slope):
            raise ValueError(
                f"got a slope of {float(slope)} at x = {points[-1]:g}; expected one other than 0: "
                "try another start."
            )
        step = (value / slope).item()
        points.append(points[-1] - step)
        if abs(step) <= tolerance * (1 + abs(points[-1])):
            return points
    raise ValueError(
        f"got no root in {max_steps} steps, x = {points[-1]:g} at last; try another start."
    )
