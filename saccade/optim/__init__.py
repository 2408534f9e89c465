"""Optimizers, learning-rate schedules and constrained minimisation.

A function in lower case (`adamw(model, lr=1e-3)`) takes a module or an iterable of parameters and
applies weight decay to matrices only. A class (`LAMB(model.parameters(), lr=1e-3)`) takes
parameters like those of `torch.optim`.
"""

from saccade.optim.adaptive import adadelta, adagrad, adam, adamw, nadam, rmsprop
from saccade.optim.clipping import clip_grad_norm
from saccade.optim.constrained import Solution, minimise
from saccade.optim.lars_lamb import LAMB, LARS, lamb, lars
from saccade.optim.lr_controller import PIDState, pid_step, update_ratio
from saccade.optim.param_groups import set_learning_rate
from saccade.optim.registry import (
    OPTIMIZERS,
    SWITCHES,
    OptimizerSettings,
    make_optimizer,
    make_switching_optimizer,
)
from saccade.optim.schedules import SCHEDULES, linear_warmup, lr_factor
from saccade.optim.second_order import LBFGS, Newton, check_newton_size, lbfgs, newton
from saccade.optim.sgd import averaged_momentum, momentum, nesterov, sgd
from saccade.optim.switching import SwitchingOptimizer
from saccade.types.names import FULL_BATCH

__all__ = [
    "FULL_BATCH",
    "LAMB",
    "LARS",
    "LBFGS",
    "Newton",
    "OPTIMIZERS",
    "OptimizerSettings",
    "PIDState",
    "SCHEDULES",
    "SWITCHES",
    "Solution",
    "SwitchingOptimizer",
    "adadelta",
    "adagrad",
    "adam",
    "adamw",
    "averaged_momentum",
    "check_newton_size",
    "clip_grad_norm",
    "lamb",
    "lars",
    "lbfgs",
    "linear_warmup",
    "lr_factor",
    "make_optimizer",
    "make_switching_optimizer",
    "minimise",
    "momentum",
    "nadam",
    "nesterov",
    "newton",
    "pid_step",
    "rmsprop",
    "set_learning_rate",
    "sgd",
    "update_ratio",
]
