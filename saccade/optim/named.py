r"""The optimisers by name: what `train.optimizer` may be."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn
from torch.optim import Optimizer

from saccade.lookup import pick
from saccade.optim.adaptive import adadelta, adagrad, adam, adamw, nadam, rmsprop
from saccade.optim.gradient import averaged_momentum, momentum, nesterov, sgd
from saccade.optim.layerwise import lamb, lars
from saccade.optim.newton import lbfgs, newton

WHOLE = "gradient_descent"  # the one whose every step sees all the training data


class Wishes(NamedTuple):
    """What is asked of an optimiser; each takes what it has a use for."""

    rate: float
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta2: float | None = None  # None: as is usual for the method

    @property
    def counting(self) -> dict[str, float]:
        """For how long squared gradients count, if that is asked for."""
        return {} if self.beta2 is None else {"beta2": self.beta2}


OPTIMIZERS: dict[str, Callable[[nn.Module, Wishes], Optimizer]] = {
    "adadelta": lambda model, how: adadelta(model, how.rate, how.weight_decay, **how.counting),
    "adagrad": lambda model, how: adagrad(model, how.rate, how.weight_decay),
    "adam": lambda model, how: adam(model, how.rate, how.weight_decay, **how.counting),
    "adamw": lambda model, how: adamw(model, how.rate, how.weight_decay, **how.counting),
    "averaged_momentum": lambda model, how: averaged_momentum(
        model, how.rate, how.weight_decay, how.momentum
    ),
    WHOLE: lambda model, how: sgd(model, how.rate, how.weight_decay),
    "lamb": lambda model, how: lamb(model, how.rate, how.weight_decay, **how.counting),
    "lamb_unclamped": lambda model, how: lamb(
        model, how.rate, how.weight_decay, clamp=None, **how.counting
    ),
    "lars": lambda model, how: lars(model, how.rate, how.weight_decay, how.momentum),
    "lbfgs": lambda model, how: lbfgs(model, how.rate, how.weight_decay),
    "momentum": lambda model, how: momentum(model, how.rate, how.weight_decay, how.momentum),
    "nadam": lambda model, how: nadam(model, how.rate, how.weight_decay, **how.counting),
    "nesterov": lambda model, how: nesterov(model, how.rate, how.weight_decay, how.momentum),
    "newton": lambda model, how: newton(model, how.rate, how.weight_decay),
    "rmsprop": lambda model, how: rmsprop(model, how.rate, how.weight_decay, **how.counting),
    "sgd": lambda model, how: sgd(model, how.rate, how.weight_decay),
}


def optimizer_named(name: str, model: nn.Module, wishes: Wishes) -> Optimizer:
    """The optimiser of a model's weights."""
    return pick(OPTIMIZERS, name, "optimizer")(model, wishes)
