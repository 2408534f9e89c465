r"""A controller that holds a hyper-parameter where something measured is as it should be.

Here the learning rate, so that a step changes the weights by about a thousandth of their length:
less learns slowly, much more throws away what was learned. What that takes differs from model to
model, from optimiser to optimiser, and in the course of a training.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

PROPORTIONAL_GAIN, INTEGRAL_GAIN, DERIVATIVE_GAIN = 0.1, 0.1, 0.05
MAX_LOG_FACTOR = math.log(1e6)  # that the factor goes up or down


class PIDState(NamedTuple):
    """What a controller remembers: log of the factor, the last error, and the sum of all errors."""

    log_factor: float = 0.0
    error: float | None = None  # None: nothing was measured yet
    total: float = 0.0

    @property
    def factor(self) -> float:
        """On what is controlled; 1 at the beginning."""
        return math.exp(self.log_factor)


def pid_step(control: PIDState, measured: float, target: float) -> PIDState:
    r"""The controller after one more measurement r of what should be r* (Minorsky 1922).

    e_t = log r* - log r_t,   log f_{t+1} = K_P e_t + K_I Σ_{i≤t} e_i + K_D (e_t - e_{t-1})

    with K_P = K_I = 0.1 and K_D = 0.05: proportional to the error, to its integral and to its
    derivative, where e_0 = e_1. On logarithms, since r is about f times something: then twice too
    much is as far off as half of it, and after a sudden change the error is down to a tenth within
    25 steps. A measurement that has no logarithm changes nothing. While f is at its end (10⁶ or
    10⁻⁶) the sum does not grow any further.
    """
    if not 0 < measured < math.inf:
        return control
    error = math.log(target) - math.log(measured)
    before = error if control.error is None else control.error
    total = control.total + error
    wanted = PROPORTIONAL_GAIN * error + INTEGRAL_GAIN * total + DERIVATIVE_GAIN * (error - before)
    held = min(max(wanted, -MAX_LOG_FACTOR), MAX_LOG_FACTOR)
    return PIDState(held, error, total if held == wanted else control.total)


@torch.no_grad()
def update_ratio(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    r"""‖w' - w‖ / ‖w‖ over all weights together; 0 of weights that are all 0."""
    moved = torch.nn.utils.get_total_norm(torch._foreach_sub(list(after), list(before)))
    size = torch.nn.utils.get_total_norm(list(before))
    return float(moved / size) if float(size) else 0.0
