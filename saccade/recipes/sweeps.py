"""Settings whose values `compare` can compare, everything else being equal. No torch."""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from saccade.types.names import Activation, InitName, OptimizerName

Overrides = Mapping[str, Any]  # settings by dotted path


class Sweep(NamedTuple):
    """A setting and its values, each with other settings that it needs."""

    path: str
    values: Mapping[str, Overrides]
    opt_in: Mapping[str, str] = {}  # values left out unless named, and why

    @property
    def name(self) -> str:
        """Name of the setting, for a table heading."""
        return self.path.rpartition(".")[2]

    def changes(self, value: str) -> dict[str, Any]:
        """Return the overrides for one value."""
        return {**self.values[value], self.path: value}


# No learning rate suits all: the length of an Adam step is the rate; for the others it also depends
# on the gradient (or, with a trust ratio, on the weights). Optimizers that are not listed use the
# recipe's rate, which was chosen with AdamW. --set train.learning_rate=… sets one for all.
SWEEP_LEARNING_RATES = {
    "adadelta": 1.0,
    "adagrad": 0.05,
    "averaged_momentum": 2.0,
    "gradient_descent": 1.0,
    "lamb": 0.05,
    "lamb_unclamped": 0.05,
    "lars": 2.0,
    "lbfgs": 1.0,
    "momentum": 0.2,
    "nesterov": 0.2,
    "nesterov_lookahead": 2.0,
    "newton": 1.0,
    "sgd": 1.0,
}
# optimizers with a line search choose the step length themselves
LINE_SEARCH_SETTINGS = {"train.warmup": 0, "train.schedule": "constant"}


def _optimizer_overrides(name: str) -> Overrides:
    rate = (
        {"train.learning_rate": SWEEP_LEARNING_RATES[name]} if name in SWEEP_LEARNING_RATES else {}
    )
    return {**rate, **(LINE_SEARCH_SETTINGS if name in ("lbfgs", "newton") else {})}


OPT_IN_ACTIVATIONS = {"softmax": "it is a function of a whole layer, not of one unit"}
SWEEPS: dict[str, Sweep] = {
    "activations": Sweep(
        "model.activation", dict.fromkeys(get_args(Activation), {}), OPT_IN_ACTIVATIONS
    ),
    "inits": Sweep("train.init", dict.fromkeys(get_args(InitName), {})),
    "optimizers": Sweep(
        "train.optimizer", {name: _optimizer_overrides(name) for name in get_args(OptimizerName)}
    ),
}
