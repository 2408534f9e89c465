"""Parts that tasks trained by the loop share: building a network, an objective without state."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.inspection.figures import Figure
from saccade.nn.init_model import init_model
from saccade.optim import check_newton_size
from saccade.seeding import preserve_rng, seed_for, seed_torch
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.training.objective import BatchT, Validation
from saccade.types.names import DEFAULT_INIT

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def train_settings(recipe: Recipe) -> TrainConfig:
    """Return the training settings of a recipe whose model is trained by the loop."""
    train: object = recipe.train
    assert isinstance(train, TrainConfig)
    return train


def build_network(recipe: Recipe, make: Callable[[], ModuleT]) -> ModuleT:
    """Build a network whose initial weights are a function of `train.seed` alone."""
    settings = train_settings(recipe)
    with preserve_rng():
        seed_torch(settings.seed, "weights")
        try:
            model = make()
        except ValueError as error:
            raise ConfigError(f"model: {error}") from None
    if settings.init != DEFAULT_INIT:
        _initialise(model, recipe, settings)
    if settings.optimizer == "newton":
        try:
            check_newton_size(count_parameters(model))
        except ValueError as error:
            raise ConfigError(f"train.optimizer: {error}") from None
    return model


def _initialise(model: nn.Module, recipe: Recipe, settings: TrainConfig) -> None:
    """Replace the model's own initial weights by those of `train.init`.

    The generator depends on the seed only, so weights that the method leaves alone are the same
    whatever the method.
    """
    generator = torch.Generator().manual_seed(seed_for(settings.seed, "init"))
    values = recipe.model.model_dump()
    activation, alpha = values.get("activation", "linear"), values.get("activation_alpha")
    try:
        initialised = init_model(
            model, settings.init, activation=activation, alpha=alpha, generator=generator
        )
    except ValueError as error:
        raise ConfigError(f"train.init: {error}") from None
    if not initialised:
        raise ConfigError(
            f"got train.init {settings.init!r}; expected a model with linear, convolutional or "
            f"recurrent layers, which {recipe.model_name} has not; try without train.init."
        )


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters; tied weights count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's first parameter."""
    return next(model.parameters()).device


class StatelessObjective(Generic[BatchT]):
    """Base of objectives whose batches are independent of each other."""

    addressable = True
    unit = "tokens"
    validate: Callable[[], Validation] | None = None

    def __init__(self, recipe: Recipe, model: nn.Module):
        self.recipe, self.model = recipe, model
        self.settings = train_settings(recipe)

    def split_batch(self, batch: BatchT, limit: int) -> Sequence[BatchT]:
        """Return the batch as it is; it is not split over threads."""
        return [batch]

    def describe_batch(self, batch: BatchT) -> str:
        """Return the name of the data."""
        return self.recipe.data_name

    def state_dict(self) -> dict[str, Tensor]:
        """Return nothing: batches carry no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Ignore the state: there is none."""

    def figures(self) -> dict[str, Figure]:
        """Return no figures."""
        return {}

    def compile(self) -> None:
        """Refuse torch.compile."""
        raise ConfigError(
            f"got train.compile for the task {self.recipe.task}, which does not support it; try "
            "without train.compile."
        )
