r"""How the learning rate moves: factors on it, as functions of the step and of what is done.

What is done is a `share` of the training from 0 to 1, so that a training may be bounded by steps
or by the clock. The step is counted from 1.
"""

import math
from collections.abc import Callable

ONE_CYCLE_RISE = 0.3  # of the training in one cycle; what follows are the framework's ends of it
ONE_CYCLE_START, ONE_CYCLE_END = 1 / 25, 1 / 25e4


def linear_warmup(step: int, warmup: int) -> float:
    r"""min(1, step / warmup) (Goyal et al. 2017)."""
    return min(1.0, step / warmup) if warmup else 1.0


def cosine_decay(progress: float) -> float:
    r"""½ (1 + cos π·share) (Loshchilov and Hutter 2017)."""
    return 0.5 * (1 + math.cos(math.pi * progress))


def linear_decay(progress: float) -> float:
    r"""1 - share."""
    return 1 - progress


def inverse_sqrt_decay(step: int, warmup: int) -> float:
    r"""√(warmup / step) after the warm-up (Vaswani et al. 2017, eq. 3).

    It does not know how long the training will be. Ours is 1 at its highest; the paper's is
    1 / √(width · warmup).
    """
    return math.sqrt(min(1.0, max(warmup, 1) / step))


def one_cycle(progress: float) -> float:
    r"""From 1/25 up to 1 in the first three tenths, then down to 1/250,000, both by a cosine.

    Smith and Topin 2018; the shares and ends are the framework's. It needs no other warm-up.
    """
    if progress < ONE_CYCLE_RISE:
        return 1 + (ONE_CYCLE_START - 1) * cosine_decay(progress / ONE_CYCLE_RISE)
    return ONE_CYCLE_END + (1 - ONE_CYCLE_END) * cosine_decay(
        (progress - ONE_CYCLE_RISE) / (1 - ONE_CYCLE_RISE)
    )


def step_decay(progress: float) -> float:
    r"""1, a tenth from half of the training on, a hundredth from three quarters on.

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
    "none": lambda step, progress, warmup: linear_warmup(step, warmup),  # as constant was called
    "one_cycle": lambda step, progress, warmup: one_cycle(progress),
    "pid": lambda step, progress, warmup: linear_warmup(
        step, warmup
    ),  # times what the controller says
    "step": lambda step, progress, warmup: linear_warmup(step, warmup) * step_decay(progress),
}


def lr_factor(step: int, progress: float, warmup: int, schedule: str) -> float:
    r"""The factor on the learning rate at a step, with `share` of the training done.

    But for `one_cycle`, which rises by itself, a warm-up times one of the functions above.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"there is no decay {schedule!r}; there are {', '.join(SCHEDULES)}.")
    return SCHEDULES[schedule](step, min(max(progress, 0.0), 1.0), warmup)
