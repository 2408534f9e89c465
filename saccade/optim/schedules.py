r"""How the learning rate moves: a warm-up, then a decay to (nearly) nothing."""

import math

DECAYS = ("cosine", "linear", "none")


def scale(step: int, share: float, warmup: int, decay: str) -> float:
    r"""The factor on the learning rate at a step (from 1), with `share` of the training done.

    Linear warm-up min(1, step / warmup) (Goyal et al. 2017), times one of
    cosine ½(1 + cos π·share) (Loshchilov and Hutter 2017), linear 1 - share, none 1.
    """
    if decay not in DECAYS:
        raise ValueError(f"there is no decay {decay!r}; there are {', '.join(DECAYS)}.")
    rise = min(1.0, step / warmup) if warmup else 1.0
    share = min(max(share, 0.0), 1.0)
    fall = {"cosine": 0.5 * (1 + math.cos(math.pi * share)), "linear": 1 - share, "none": 1.0}
    return rise * fall[decay]
