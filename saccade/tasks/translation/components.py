"""Capabilities of the translation task, by recipe."""

from saccade.models.base import EncoderDecoder
from saccade.models.registry import TRANSLATION_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import Components
from saccade.tasks.neural import build_network
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import PairSplit, TokenizerPair
from saccade.tasks.translation.objective import TranslationObjective
from saccade.tasks.translation.predict import TranslationPredictor


def build_translator(recipe: TranslationRecipe, tokenizers: TokenizerPair) -> EncoderDecoder:
    """Build the model of a recipe."""
    model_class: type[EncoderDecoder] = TRANSLATION_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


_COMPONENTS = Components[TranslationRecipe, TokenizerPair, EncoderDecoder, PairSplit](
    build_model=build_translator,
    predictor=TranslationPredictor,
    # prediction needs neither these nor sacrebleu, which takes a while to import
    evaluator=import_when_called("saccade.tasks.translation.evaluate:TranslationEvaluator"),
    inspector=import_when_called("saccade.tasks.translation.inspect:TranslationInspector"),
    objective=TranslationObjective,
)


def translation_components(
    recipe: TranslationRecipe,
) -> Components[TranslationRecipe, TokenizerPair, EncoderDecoder, PairSplit]:
    """Return the capabilities of a recipe."""
    return _COMPONENTS
