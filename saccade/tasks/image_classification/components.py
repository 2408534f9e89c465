"""Capabilities of the image classification task."""

from saccade.data.images.transform import ImageTransform
from saccade.models.image_base import ImageNetwork
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


IMAGE_NETWORK = ImageComponents(
    build_model=build_image_network,
    predictor=lambda *given: ImagePredictor(ImageScorer(*given)),
    evaluator=lambda *given: ImageEvaluator(ImageScorer(*given)),
    inspector=lambda *given: ImageInspector(ImageScorer(*given)),
    objective=ImageObjective,
)


def image_components(recipe: ImageRecipe) -> ImageComponents:
    """Return the capabilities of a recipe: all models are networks."""
    return IMAGE_NETWORK
