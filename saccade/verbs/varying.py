"""What is compared besides models: one setting, value after value, all else the same."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from saccade.optim import OPTIMIZERS

Changes = Mapping[str, Any]  # settings by dotted path


class Varied(NamedTuple):
    """A setting, and its values, each with what else it needs to be set."""

    path: str
    values: Mapping[str, Changes]

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
    "adagrad": 0.02,
    "averaged_momentum": 0.5,
    "gradient_descent": 0.5,
    "lamb": 0.02,
    "lamb_unclamped": 0.02,
    "lars": 2.0,
    "lbfgs": 1.0,
    "momentum": 0.05,
    "nesterov": 0.05,
    "newton": 1.0,
    "sgd": 0.5,
}

VARIED: dict[str, Varied] = {
    "optimizers": Varied(
        "train.optimizer",
        {
            name: {"train.learning_rate": RATES[name]} if name in RATES else {}
            for name in sorted(OPTIMIZERS)
        },
    ),
}
