"""Capabilities of masked language modelling."""

from saccade.data.text.packing import TokenStream
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.models.bert_config import BertConfig
from saccade.models.bert_pretraining import BertPretraining
from saccade.tasks.base import Components
from saccade.tasks.masked_language_modeling.config import BertRecipe
from saccade.tasks.masked_language_modeling.evaluate import MaskedLMEvaluator
from saccade.tasks.masked_language_modeling.inspect import MaskedLMInspector
from saccade.tasks.masked_language_modeling.objective import MaskedLMObjective
from saccade.tasks.masked_language_modeling.predict import MaskFiller
from saccade.tasks.neural import build_network

BertComponents = Components[BertRecipe, WordPieceTokenizer, BertPretraining, TokenStream]


def build_bert(recipe: BertRecipe, tokenizer: WordPieceTokenizer) -> BertPretraining:
    """Build the network of a recipe."""
    config = recipe.model
    assert isinstance(config, BertConfig)
    return build_network(recipe, lambda: BertPretraining(config))


BERT = BertComponents(
    build_model=build_bert,
    predictor=MaskFiller,
    evaluator=MaskedLMEvaluator,
    inspector=MaskedLMInspector,
    objective=MaskedLMObjective,
)


def components(recipe: BertRecipe) -> BertComponents:
    """Return the capabilities of a recipe: all models are networks."""
    return BERT
