r"""How the learning rate moves: factors on it, as functions of the step and of what is done.

What is done is a `share` of the training from 0 to 1, so that a training may be bounded by steps
or by the clock. The step is counted from 1.
"""

import math
from collections.abc import Callable

RISE = 0.3  # of the training in one cycle; what follows are the framework's ends of it
LOWEST, LAST = 1 / 25, 1 / 25e4


def warm_up(step: int, warmup: int) -> float:
    r"""min(1, step / warmup) (Goyal et al. 2017)."""
    return min(1.0, step / warmup) if warmup else 1.0


def cosine(share: float) -> float:
    r"""½ (1 + cos π·share) (Loshchilov and Hutter 2017)."""
    return 0.5 * (1 + math.cos(math.pi * share))


def linear(share: float) -> float:
    r"""1 - share."""
    return 1 - share


def inverse_sqrt(step: int, warmup: int) -> float:
    r"""√(warmup / step) after the warm-up (Vaswani et al. 2017, eq. 3).

    It does not know how long the training will be. Ours is 1 at its highest; the paper's is
    1 / √(width · warmup).
    """
    return math.sqrt(min(1.0, max(warmup, 1) / step))


def one_cycle(share: float) -> float:
    r"""From 1/25 up to 1 in the first three tenths, then down to 1/250,000, both by a cosine.

    Smith and Topin 2018; the shares and ends are the framework's. It needs no other warm-up.
    """
    if share < RISE:
        return 1 + (LOWEST - 1) * cosine(share / RISE)
    return LAST + (1 - LAST) * cosine((share - RISE) / (1 - RISE))


def steps_down(share: float) -> float:
    r"""1, a tenth from half of the training on, a hundredth from three quarters on.

    He et al. 2016, section 4.2.
    """
    return 0.01 if share >= 0.75 else 0.1 if share >= 0.5 else 1.0


DECAYS: dict[str, Callable[[int, float, int], float]] = {
    "constant": lambda step, share, warmup: warm_up(step, warmup),
    "cosine": lambda step, share, warmup: warm_up(step, warmup) * cosine(share),
    "inverse_sqrt": lambda step, share, warmup: warm_up(step, warmup) * inverse_sqrt(step, warmup),
    "linear": lambda step, share, warmup: warm_up(step, warmup) * linear(share),
    "none": lambda step, share, warmup: warm_up(step, warmup),  # as constant was called
    "one_cycle": lambda step, share, warmup: one_cycle(share),
    "pid": lambda step, share, warmup: warm_up(step, warmup),  # times what the controller says
    "step": lambda step, share, warmup: warm_up(step, warmup) * steps_down(share),
}


def scale(step: int, share: float, warmup: int, decay: str) -> float:
    r"""The factor on the learning rate at a step, with `share` of the training done.

    But for `one_cycle`, which rises by itself, a warm-up times one of the functions above.
    """
    if decay not in DECAYS:
        raise ValueError(f"there is no decay {decay!r}; there are {', '.join(DECAYS)}.")
    return DECAYS[decay](step, min(max(share, 0.0), 1.0), warmup)
