r"""Registry of optimizers by name: the values of `train.optimizer`."""

from collections.abc import Callable
from typing import NamedTuple

from torch.optim import Optimizer

from saccade.optim.adaptive import adadelta, adagrad, adam, adamw, nadam, rmsprop
from saccade.optim.lars_lamb import lamb, lars
from saccade.optim.look_ahead import nadam_lookahead, nesterov_lookahead
from saccade.optim.param_groups import Params
from saccade.optim.second_order import lbfgs, newton
from saccade.optim.sgd import averaged_momentum, momentum, nesterov, sgd
from saccade.registry import lookup
from saccade.types.names import FULL_BATCH


class OptimizerSettings(NamedTuple):
    """Settings of an optimizer; each optimizer uses those it has."""

    lr: float
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta2: float | None = None  # None: the default of the optimizer

    @property
    def beta2_kwargs(self) -> dict[str, float]:
        """Return `beta2` as a keyword argument if it is set."""
        return {} if self.beta2 is None else {"beta2": self.beta2}


OPTIMIZERS: dict[str, Callable[[Params, OptimizerSettings], Optimizer]] = {
    "adadelta": lambda params, settings: adadelta(
        params, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "adagrad": lambda params, settings: adagrad(params, settings.lr, settings.weight_decay),
    "adam": lambda params, settings: adam(
        params, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "adamw": lambda params, settings: adamw(
        params, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "averaged_momentum": lambda params, settings: averaged_momentum(
        params, settings.lr, settings.weight_decay, settings.momentum
    ),
    FULL_BATCH: lambda params, settings: sgd(params, settings.lr, settings.weight_decay),
    "lamb": lambda params, settings: lamb(
        params, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "lamb_unclamped": lambda params, settings: lamb(
        params, settings.lr, settings.weight_decay, clamp=None, **settings.beta2_kwargs
    ),
    "lars": lambda params, settings: lars(
        params, settings.lr, settings.weight_decay, settings.momentum
    ),
    "lbfgs": lambda params, settings: lbfgs(params, settings.lr, settings.weight_decay),
    "momentum": lambda params, settings: momentum(
        params, settings.lr, settings.weight_decay, settings.momentum
    ),
    "nadam": lambda params, settings: nadam(
        params, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "nadam_lookahead": lambda params, settings: nadam_lookahead(
        params, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "nesterov": lambda params, settings: nesterov(
        params, settings.lr, settings.weight_decay, settings.momentum
    ),
    "nesterov_lookahead": lambda params, settings: nesterov_lookahead(
        params, settings.lr, settings.weight_decay, settings.momentum
    ),
    "newton": lambda params, settings: newton(params, settings.lr, settings.weight_decay),
    "rmsprop": lambda params, settings: rmsprop(
        params, settings.lr, settings.weight_decay, **settings.beta2_kwargs
    ),
    "sgd": lambda params, settings: sgd(params, settings.lr, settings.weight_decay),
}


def make_optimizer(name: str, params: Params, settings: OptimizerSettings) -> Optimizer:
    """Return the named optimizer for a module or its parameters."""
    return lookup(OPTIMIZERS, name, "optimizer")(params, settings)
