r"""Registry of optimizers by name: the values of `train.optimizer`."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn
from torch.optim import Optimizer

from saccade.optim.adaptive import adadelta, adagrad, adam, adamw, nadam, rmsprop
from saccade.optim.lars_lamb import lamb, lars
from saccade.optim.look_ahead import nadam_lookahead, nesterov_lookahead
from saccade.optim.param_groups import Params
from saccade.optim.second_order import lbfgs, newton
from saccade.optim.sgd import averaged_momentum, momentum, nesterov, sgd
from saccade.optim.switching import SwitchingOptimizer
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


# optimizers that may replace another: length of a step along a constant gradient g is
# η ‖g‖ / (1 - β) where momentum sums gradients, else η ‖g‖
SWITCHES: dict[str, Callable[[OptimizerSettings], float]] = {
    "averaged_momentum": lambda settings: 1.0,
    "momentum": lambda settings: 1 - settings.momentum,
    "nesterov": lambda settings: 1 - settings.momentum,
    "nesterov_lookahead": lambda settings: 1.0,
    "sgd": lambda settings: 1.0,
}


def make_optimizer(name: str, params: Params, settings: OptimizerSettings) -> Optimizer:
    """Return the named optimizer for a module or its parameters."""
    return lookup(OPTIMIZERS, name, "optimizer")(params, settings)


def make_switching_optimizer(
    names: tuple[str, str],
    switch_step: int,
    model: nn.Module,
    settings: OptimizerSettings,
    switch_lr: float | None = None,
) -> SwitchingOptimizer:
    """Return an optimizer that makes `switch_step` steps of the first, then those of the second.

    Args:
        names: of the two; the second is a key of `SWITCHES`.
        switch_step: number of steps of the first.
        model: its parameters are optimized.
        settings: of both.
        switch_lr: learning rate of the second; None: estimated from the steps of the first.
    """
    step_length = lookup(SWITCHES, names[1], "optimizer to switch to")(settings)
    first, second = (make_optimizer(name, model, settings) for name in names)
    factor = None if switch_lr is None else switch_lr / settings.lr
    return SwitchingOptimizer(
        first, second, switch_step, factor, step_length, decoupled_decay=names[0] == "adamw"
    )
