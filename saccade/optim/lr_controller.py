r"""A PID controller that adapts the learning rate to a target update-to-weight ratio.

A step should change the weights by about a thousandth of their norm: less learns slowly, much more
destroys what was learned. The learning rate that achieves this depends on the model and the
optimizer, and changes during training.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

PROPORTIONAL_GAIN, INTEGRAL_GAIN, DERIVATIVE_GAIN = 0.1, 0.1, 0.05
MAX_LOG_FACTOR = math.log(1e6)  # limit of |log factor|


class PIDState(NamedTuple):
    """State of the controller: log of the factor, last error, sum of all errors."""

    log_factor: float = 0.0
    error: float | None = None  # None before the first measurement
    total: float = 0.0

    @property
    def factor(self) -> float:
        """Factor on the controlled value; 1 initially."""
        return math.exp(self.log_factor)


def pid_step(control: PIDState, measured: float, target: float) -> PIDState:
    r"""Return the controller's state after a measurement r with target r* (Minorsky 1922).

    e_t = log r* - log r_t,   log f_{t+1} = K_P e_t + K_I Σ_{i≤t} e_i + K_D (e_t - e_{t-1})

    with K_P = K_I = 0.1 and K_D = 0.05: proportional to the error, its integral and its derivative,
    where e_0 = e_1. The error is logarithmic because r is about proportional to f, so a factor of
    two counts the same in both directions; after a sudden change the error falls to a tenth within
    25 steps. A measurement without a logarithm is ignored. While f is at its limit (10⁶ or 10⁻⁶)
    the sum does not grow any further (no integral wind-up).
    """
    if not 0 < measured < math.inf:
        return control
    error = math.log(target) - math.log(measured)
    previous = error if control.error is None else control.error
    total = control.total + error
    unclamped = (
        PROPORTIONAL_GAIN * error + INTEGRAL_GAIN * total + DERIVATIVE_GAIN * (error - previous)
    )
    clamped = min(max(unclamped, -MAX_LOG_FACTOR), MAX_LOG_FACTOR)
    return PIDState(clamped, error, total if clamped == unclamped else control.total)


@torch.no_grad()
def update_ratio(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    r"""Return ‖w' - w‖ / ‖w‖ over all weights together; 0 if all weights are 0."""
    update_norm = torch.nn.utils.get_total_norm(torch._foreach_sub(list(after), list(before)))
    weight_norm = torch.nn.utils.get_total_norm(list(before))
    return float(update_norm / weight_norm) if float(weight_norm) else 0.0
