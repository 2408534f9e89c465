"""The network of a recipe of contrastive learning."""

from saccade.data.images.transform import ImageTransform
from saccade.errors import ConfigError
from saccade.models.contrastive import ContrastiveNetwork
from saccade.models.image_base import ImageNetwork
from saccade.models.registry import IMAGE_MODELS
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.neural import build_network

PUBLISHED_WEIGHTS = {"weights": None, "pretrained": False}  # settings: value without them


def build_contrastive_network(
    recipe: ContrastiveRecipe, transform: ImageTransform
) -> ContrastiveNetwork:
    """Build the network of a recipe, without its output layer, and the projection."""
    values = recipe.model.model_dump()
    for name, absent in PUBLISHED_WEIGHTS.items():
        if values.get(name, absent) != absent:
            raise ConfigError(
                f"got model.{name}={values[name]} for the task contrastive; expected initial "
                f"weights that are random; try --set model.{name}={str(absent).lower()}."
            )
    model_class: type[ImageNetwork] = IMAGE_MODELS[recipe.model_name].model_class
    # the output layer, which is removed, is the smallest one
    config = recipe.model.model_copy(update={"classes": 1})
    settings = recipe.train
    return build_network(
        recipe,
        lambda: ContrastiveNetwork(
            model_class(config), settings.projection_hidden, settings.projection_width
        ),
    )
