"""Capabilities of the language modelling task, by recipe."""

from typing import Any

import torch
from torch import nn

from saccade.data.spelling import spell_words
from saccade.data.text.token_store import TokenCorpus
from saccade.data.tokenizers import Tokenizer
from saccade.models.elmo import Elmo
from saccade.models.registry import LANGUAGE_MODELS
from saccade.tasks.base import Components
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.language_modeling.evaluate import LanguageEvaluator
from saccade.tasks.language_modeling.inspect import LanguageInspector, NGramInspector
from saccade.tasks.language_modeling.masked import (
    GapFiller,
    MaskedEvaluator,
    MaskedInspector,
    MaskedObjective,
)
from saccade.tasks.language_modeling.ngram import NGramFit, NGramModel
from saccade.tasks.language_modeling.objective import LanguageObjective
from saccade.tasks.language_modeling.predict import TextGenerator
from saccade.tasks.neural import build_network

LanguageComponents = Components[LanguageRecipe, Tokenizer, Any, TokenCorpus]


def build_language_model(recipe: LanguageRecipe, tokenizer: Tokenizer) -> nn.Module:
    """Build the network of a recipe."""
    model_class: type[nn.Module] = LANGUAGE_MODELS[recipe.model_name].model_class
    model = build_network(recipe, lambda: model_class(recipe.model))
    if isinstance(model, Elmo):
        words = tokenizer.display_tokens(range(tokenizer.vocab_size))
        model.spell(torch.from_numpy(spell_words(words)))
    return model


CAUSAL = LanguageComponents(
    build_model=build_language_model,
    predictor=TextGenerator,
    evaluator=LanguageEvaluator,
    inspector=LanguageInspector,
    objective=LanguageObjective,
)
COUNTED = LanguageComponents(
    build_model=NGramModel,
    predictor=TextGenerator,
    evaluator=LanguageEvaluator,
    inspector=NGramInspector,
    estimator=NGramFit,
)
MASKED = LanguageComponents(
    build_model=build_language_model,
    predictor=GapFiller,
    evaluator=MaskedEvaluator,
    inspector=MaskedInspector,
    objective=MaskedObjective,
)


def language_components(recipe: LanguageRecipe) -> LanguageComponents:
    """Return the capabilities of a recipe: causal network, counts, or bidirectional network."""
    by_name = {"ngram": COUNTED, "bidirectional": MASKED, "elmo": MASKED}
    return by_name.get(recipe.model_name, CAUSAL)
