"""What is compared besides models: one setting, value after value, all else the same."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from saccade.nn.activations import ACTIVATIONS
from saccade.nn.init import INITS
from saccade.optim import OPTIMIZERS
from saccade.training.config import DEFAULT_INIT

Overrides = Mapping[str, Any]  # settings by dotted path


class Sweep(NamedTuple):
    """A setting, and its values, each with what else it needs to be set."""

    path: str
    values: Mapping[str, Overrides]
    opt_in: Mapping[str, str] = {}  # values that are tried if they are named, and why only then

    @property
    def name(self) -> str:
        """Of one value, in a table."""
        return self.path.rpartition(".")[2]

    def changes(self, value: str) -> dict[str, Any]:
        """All that makes a recipe one with this value."""
        return {**self.values[value], self.path: value}


# No rate suits all: a step of Adam's kind is as long as its rate, one of the others as the gradient
# (or, by their trust, the weights) has it besides. Those that are not here learn with the recipe's
# own rate, which was chosen with AdamW. --set train.learning_rate=… sets one for all.
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
    "newton": 1.0,
    "sgd": 1.0,
}
LINE_SEARCH_SETTINGS = {
    "train.warmup": 0,
    "train.schedule": "constant",
}  # how far to go they find out themselves


def _optimizer(name: str) -> Overrides:
    rate = (
        {"train.learning_rate": SWEEP_LEARNING_RATES[name]} if name in SWEEP_LEARNING_RATES else {}
    )
    return {**rate, **(LINE_SEARCH_SETTINGS if name in ("lbfgs", "newton") else {})}


OPT_IN_ACTIVATIONS = {"softmax": "it is a function of a whole layer and not of one number"}
SWEEPS: dict[str, Sweep] = {
    "activations": Sweep("model.activation", dict.fromkeys(ACTIVATIONS, {}), OPT_IN_ACTIVATIONS),
    "inits": Sweep("train.init", dict.fromkeys((DEFAULT_INIT, *INITS), {})),
    "optimizers": Sweep("train.optimizer", {name: _optimizer(name) for name in OPTIMIZERS}),
}
