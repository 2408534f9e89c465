r"""Learning-rate schedules: factors on the learning rate.

They are functions of the step, counted from 1, and of the `progress` of training from 0 to 1, so
that training can be limited by steps or by the clock.
"""

import math
from collections.abc import Callable

ONE_CYCLE_RISE = 0.3  # share of training in which the rate rises; this and the ends as in torch
ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1 / 25e4


def linear_warmup(step: int, warmup: int) -> float:
    r"""Return min(1, step / warmup) (Goyal et al. 2017)."""
    return min(1.0, step / warmup) if warmup else 1.0


def cosine_decay(progress: float) -> float:
    r"""Return ½ (1 + cos π·progress) (Loshchilov and Hutter 2017)."""
    return 0.5 * (1 + math.cos(math.pi * progress))


def linear_decay(progress: float) -> float:
    r"""Return 1 - progress."""
    return 1 - progress


def inverse_sqrt_decay(step: int, warmup: int) -> float:
    r"""Return √(warmup / step) after the warm-up (Vaswani et al. 2017, eq. 3).

    Independent of the length of training. Its maximum is 1; the paper's is 1 / √(width · warmup).
    """
    return math.sqrt(min(1.0, max(warmup, 1) / step))


def one_cycle(progress: float) -> float:
    r"""Rise from 1/25 to 1 in the first 30 % of training, then fall to 1/250,000, both by a cosine.

    Smith and Topin 2018, with the defaults of torch's `OneCycleLR`. It includes its warm-up.
    """
    if progress < ONE_CYCLE_RISE:
        return 1 + (ONE_CYCLE_START - 1) * cosine_decay(progress / ONE_CYCLE_RISE)
    return ONE_CYCLE_END + (1 - ONE_CYCLE_END) * cosine_decay(
        (progress - ONE_CYCLE_RISE) / (1 - ONE_CYCLE_RISE)
    )


def step_decay(progress: float) -> float:
    r"""Return 1, then 0.1 from half of training on, then 0.01 from three quarters on.

    He et al. 2016, section 4.2.
    """
    return 0.01 if progress >= 0.75 else 0.1 if progress >= 0.5 else 1.0


SCHEDULES: dict[str, Callable[[int, float, int], float]] = {
    "constant": lambda step, progress, warmup: linear_warmup(step, warmup),
    "cosine": lambda step, progress, warmup: linear_warmup(step, warmup) * cosine_decay(progress),
    "inverse_sqrt": lambda step, progress, warmup: (
        linear_warmup(step, warmup) * inverse_sqrt_decay(step, warmup)
    ),
    "linear": lambda step, progress, warmup: linear_warmup(step, warmup) * linear_decay(progress),
    "none": lambda step, progress, warmup: linear_warmup(step, warmup),  # old name of "constant"
    "one_cycle": lambda step, progress, warmup: one_cycle(progress),
    # the training loop multiplies this by the controller's factor
    "pid": lambda step, progress, warmup: linear_warmup(step, warmup),
    "step": lambda step, progress, warmup: linear_warmup(step, warmup) * step_decay(progress),
}


def lr_factor(step: int, progress: float, warmup: int, schedule: str) -> float:
    r"""Return the factor on the learning rate at a step.

    A linear warm-up times one of the functions above; `one_cycle` includes its own warm-up.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"got schedule {schedule!r}; expected one of {', '.join(SCHEDULES)}.")
    return SCHEDULES[schedule](step, min(max(progress, 0.0), 1.0), warmup)
