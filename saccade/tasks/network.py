"""What tasks that train a network have in common."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.nn.init_model import init_model
from saccade.optim import check_newton_size
from saccade.seeding import preserve_rng, seed_for, seed_torch
from saccade.tasks.task import Task
from saccade.training.config import DEFAULT_INIT


class TrainableTask(Task):
    """A task whose model is trained by the loop."""

    is_trained = True
    model: nn.Module
    carry: dict[str, Tensor]  # what a batch leaves for the next one, a hidden state say

    def __init__(self, recipe: Any, make: Callable[[], nn.Module]):
        super().__init__(recipe)
        self.carry = {}
        with preserve_rng():
            seed_torch(recipe.train.seed, "weights")
            try:
                self.model = make()
            except ValueError as error:
                raise ConfigError(f"model: {error}") from None
        if recipe.train.init != DEFAULT_INIT:
            self._begin(recipe.train.init)
        if recipe.train.optimizer == "newton":
            try:
                check_newton_size(self.parameters)
            except ValueError as error:
                raise ConfigError(f"train.optimizer: {error}") from None

    def _begin(self, name: str) -> None:
        """In place of the model's own start: a function of the seed, and of nothing drawn before.

        So what is not begun anew (`nn.starting`) is the same whatever the method.
        """
        luck = torch.Generator().manual_seed(seed_for(self.recipe.train.seed, "init"))
        activation = getattr(self.recipe.model, "activation", "linear")
        try:
            begun = init_model(self.model, name, activation=activation, generator=luck)
        except ValueError as error:
            raise ConfigError(f"train.init: {error}") from None
        if not begun:
            raise ConfigError(
                f"train.init is {name!r}, and {self.recipe.model.name} has no affine, "
                "convolutional or recurrent layer that could begin so; leave it out."
            )

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def parameters(self) -> int:
        """How many numbers were learned; tied weights count once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def weights(self) -> dict[str, Tensor]:
        """The model's."""
        return self.model.state_dict()

    def load(self, weights: dict[str, Tensor]) -> None:
        """Into the model."""
        self.model.load_state_dict(weights)

    def describe_batch(self, batch: Any) -> str:
        """The file and lines of a batch, for a message."""
        return self.name

    def split_batch(self, batch: Any, limit: int) -> Sequence[Any]:
        """A batch in so many parts at most, to be learned from side by side; here the whole."""
        return [batch]

    def compile(self) -> None:
        """Let torch.compile make kernels for this model."""
        raise ConfigError(f"{self.recipe.task} cannot be compiled; leave train.compile out.")
