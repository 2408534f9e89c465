"""What is compared besides models: one setting, value after value, all else the same."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from saccade.nn.activations import ACTIVATIONS
from saccade.nn.init import INITS
from saccade.optim import OPTIMIZERS
from saccade.training.settings import OWN

Changes = Mapping[str, Any]  # settings by dotted path


class Varied(NamedTuple):
    """A setting, and its values, each with what else it needs to be set."""

    path: str
    values: Mapping[str, Changes]
    unasked: Mapping[str, str] = {}  # values that are tried if they are named, and why only then

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
RATES = {
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
SEARCHING = {"train.warmup": 0, "train.decay": "constant"}  # how far to go they find out themselves


def _optimizer(name: str) -> Changes:
    rate = {"train.learning_rate": RATES[name]} if name in RATES else {}
    return {**rate, **(SEARCHING if name in ("lbfgs", "newton") else {})}


UNLIKE = {"softmax": "it is a function of a whole layer and not of one number"}
VARIED: dict[str, Varied] = {
    "activations": Varied("model.activation", dict.fromkeys(ACTIVATIONS, {}), UNLIKE),
    "inits": Varied("train.init", dict.fromkeys((OWN, *INITS), {})),
    "optimizers": Varied("train.optimizer", {name: _optimizer(name) for name in OPTIMIZERS}),
}
