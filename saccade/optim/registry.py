r"""The optimisers by name: what `train.optimizer` may be."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn
from torch.optim import Optimizer

from saccade.optim.adaptive import adadelta, adagrad, adam, adamw, nadam, rmsprop
from saccade.optim.lars_lamb import lamb, lars
from saccade.optim.second_order import lbfgs, newton
from saccade.optim.sgd import averaged_momentum, momentum, nesterov, sgd
from saccade.registry import lookup

FULL_BATCH = "gradient_descent"  # the one whose every step sees all the training data


class OptimizerSettings(NamedTuple):
    """What is asked of an optimiser; each takes what it has a use for."""

    lr: float
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta2: float | None = None  # None: as is usual for the method

    @property
    def beta2_kwargs(self) -> dict[str, float]:
        """For how long squared gradients count, if that is asked for."""
        return {} if self.beta2 is None else {"beta2": self.beta2}


OPTIMIZERS: dict[str, Callable[[nn.Module, OptimizerSettings], Optimizer]] = {
    "adadelta": lambda model, settings: adadelta(
        model, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "adagrad": lambda model, settings: adagrad(model, settings.lr, settings.weight_decay),
    "adam": lambda model, settings: adam(
        model, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "adamw": lambda model, settings: adamw(
        model, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "averaged_momentum": lambda model, settings: averaged_momentum(
        model, settings.lr, settings.weight_decay, settings.momentum
    ),
    FULL_BATCH: lambda model, settings: sgd(model, settings.lr, settings.weight_decay),
    "lamb": lambda model, settings: lamb(
        model, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "lamb_unclamped": lambda model, settings: lamb(
        model, settings.lr, settings.weight_decay, clamp=None, **settings.beta2_kwargs
    ),
    "lars": lambda model, settings: lars(
        model, settings.lr, settings.weight_decay, settings.momentum
    ),
    "lbfgs": lambda model, settings: lbfgs(model, settings.lr, settings.weight_decay),
    "momentum": lambda model, settings: momentum(
        model, settings.lr, settings.weight_decay, settings.momentum
    ),
    "nadam": lambda model, settings: nadam(
        model, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "nesterov": lambda model, settings: nesterov(
        model, settings.lr, settings.weight_decay, settings.momentum
    ),
    "newton": lambda model, settings: newton(model, settings.lr, settings.weight_decay),
    "rmsprop": lambda model, settings: rmsprop(
        model, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "sgd": lambda model, settings: sgd(model, settings.lr, settings.weight_decay),
}


def make_optimizer(name: str, model: nn.Module, optimizer_settings: OptimizerSettings) -> Optimizer:
    """The optimiser of a model's weights."""
    return lookup(OPTIMIZERS, name, "optimizer")(model, optimizer_settings)
