"""The translation task."""

from saccade.data.datasets import PAIR_DATASETS
from saccade.data.synthetic.sequences import SYNTHETIC_PAIRS
from saccade.models.base import EncoderDecoder
from saccade.models.registry import TRANSLATION_MODELS
from saccade.tasks.base import Components, TaskSpec
from saccade.tasks.neural import build_network
from saccade.tasks.translation.config import TranslationRecipe
from saccade.tasks.translation.data import PairSplit, TokenizerPair, load_pair_split, prepare_pairs
from saccade.tasks.translation.evaluate import TranslationEvaluator
from saccade.tasks.translation.inspect import TranslationInspector
from saccade.tasks.translation.objective import TranslationObjective
from saccade.tasks.translation.predict import TranslationPredictor


def build_translator(recipe: TranslationRecipe, tokenizers: TokenizerPair) -> EncoderDecoder:
    """Build the model of a recipe."""
    model_class: type[EncoderDecoder] = TRANSLATION_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


_COMPONENTS = Components[TranslationRecipe, TokenizerPair, EncoderDecoder, PairSplit](
    build_model=build_translator,
    predictor=TranslationPredictor,
    evaluator=TranslationEvaluator,
    inspector=TranslationInspector,
    objective=TranslationObjective,
)

TRANSLATION = TaskSpec(
    name="translate",
    summary="sequence to sequence: translate pairs of texts",
    recipe=TranslationRecipe,
    models=TRANSLATION_MODELS,
    synthetic=SYNTHETIC_PAIRS,
    datasets=PAIR_DATASETS,
    prepare=prepare_pairs,
    load_split=load_pair_split,
    read_preprocessor=TokenizerPair.from_json,
    components=lambda recipe: _COMPONENTS,
    transferable_data_settings=("tokenizer",),
)
