r"""How the learning rate moves: a warm-up, then a decay to (nearly) nothing."""

import math

DECAYS = ("cosine", "inverse_sqrt", "linear", "none")


def scale(step: int, share: float, warmup: int, decay: str) -> float:
    r"""The factor on the learning rate at a step (from 1), with `share` of the training done.

    Linear warm-up min(1, step / warmup) (Goyal et al. 2017), times one of
    cosine ½(1 + cos π·share) (Loshchilov and Hutter 2017), linear 1 - share, none 1, and
    inverse_sqrt √(warmup / step) after the warm-up (Vaswani et al. 2017, eq. 3): it does not know
    how long the training will be. Ours is 1 at its highest; the paper's is 1 / √(width · warmup).
    """
    if decay not in DECAYS:
        raise ValueError(f"there is no decay {decay!r}; there are {', '.join(DECAYS)}.")
    rise = min(1.0, step / warmup) if warmup else 1.0
    share = min(max(share, 0.0), 1.0)
    fall = {
        "cosine": 0.5 * (1 + math.cos(math.pi * share)),
        "inverse_sqrt": math.sqrt(min(1.0, max(warmup, 1) / step)),
        "linear": 1 - share,
        "none": 1.0,
    }
    return rise * fall[decay]
