"""Gradients in, updates out."""

from saccade.optim.adaptive import adadelta, adagrad, adam, adamw, nadam, rmsprop
from saccade.optim.clipping import clip_by_norm
from saccade.optim.constrained import Solution, minimise
from saccade.optim.control import Control, pid, update_ratio
from saccade.optim.gradient import averaged_momentum, momentum, nesterov, sgd
from saccade.optim.groups import set_rate
from saccade.optim.layerwise import LAMB, LARS, lamb, lars
from saccade.optim.named import OPTIMIZERS, WHOLE, Wishes, optimizer_named
from saccade.optim.newton import LBFGS, Newton, check_count
from saccade.optim.schedules import DECAYS, scale, warm_up

__all__ = [
    "Control",
    "DECAYS",
    "LAMB",
    "LARS",
    "LBFGS",
    "Newton",
    "OPTIMIZERS",
    "Solution",
    "WHOLE",
    "Wishes",
    "adadelta",
    "adagrad",
    "adam",
    "adamw",
    "averaged_momentum",
    "check_count",
    "clip_by_norm",
    "lamb",
    "lars",
    "minimise",
    "momentum",
    "nadam",
    "nesterov",
    "optimizer_named",
    "pid",
    "rmsprop",
    "scale",
    "set_rate",
    "sgd",
    "update_ratio",
    "warm_up",
]
