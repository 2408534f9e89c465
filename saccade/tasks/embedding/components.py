"""Capabilities of sentence vectors."""

from typing import Any

from saccade.data.wordpiece import WordPieceTokenizer
from saccade.tasks.base import Components
from saccade.tasks.embedding.config import EmbeddingRecipe
from saccade.tasks.embedding.data import SentenceSplit
from saccade.tasks.embedding.evaluate import SentenceEvaluator
from saccade.tasks.embedding.inspect import SentenceInspector
from saccade.tasks.embedding.objective import (
    SentenceObjective,
    build_encoder,
    copy_encoder_weights,
)
from saccade.tasks.embedding.predict import SentencePredictor
from saccade.tasks.embedding.scorer import SentenceScorer

EmbeddingComponents = Components[EmbeddingRecipe, WordPieceTokenizer, Any, SentenceSplit]

SENTENCE_NETWORK = EmbeddingComponents(
    build_model=build_encoder,
    predictor=lambda *given: SentencePredictor(SentenceScorer(*given)),
    evaluator=lambda *given: SentenceEvaluator(SentenceScorer(*given)),
    inspector=lambda *given: SentenceInspector(SentenceScorer(*given)),
    objective=SentenceObjective,
    transfer_weights=copy_encoder_weights,
)


def embedding_components(recipe: EmbeddingRecipe) -> EmbeddingComponents:
    """Return the capabilities of a recipe: all models are networks."""
    return SENTENCE_NETWORK
