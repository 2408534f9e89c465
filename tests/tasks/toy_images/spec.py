"""The toy task."""

from torch import nn

from saccade.tasks.base import Components, TaskSpec
from saccade.tasks.neural import build_network
from tests.tasks.toy_images.config import IMAGE_MODELS, ToyImageRecipe
from tests.tasks.toy_images.data import (
    SYNTHETIC_IMAGES,
    PixelScaler,
    load_images,
    prepare_images,
    read_scaler,
)
from tests.tasks.toy_images.evaluate import ImageEvaluator
from tests.tasks.toy_images.inspect import ImageInspector
from tests.tasks.toy_images.objective import ImageObjective
from tests.tasks.toy_images.predict import ImagePredictor


def build_classifier(recipe: ToyImageRecipe, scaler: PixelScaler) -> nn.Module:
    """Build the model of a recipe."""
    model_class = IMAGE_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


COMPONENTS = Components(
    build_model=build_classifier,
    predictor=ImagePredictor,
    evaluator=ImageEvaluator,
    inspector=ImageInspector,
    objective=ImageObjective,
)
TOY_IMAGES = TaskSpec(
    name="toy-images",
    summary="classify images of bars",
    recipe=ToyImageRecipe,
    models=IMAGE_MODELS,
    synthetic=SYNTHETIC_IMAGES,
    datasets={},
    prepare=prepare_images,
    load_split=load_images,
    read_preprocessor=read_scaler,
    components=lambda recipe: COMPONENTS,
)
