"""Capabilities of the word vector task, by recipe."""

from collections.abc import Mapping

from saccade.data.text.word_corpus import WordVocabulary
from saccade.tasks.base import Components
from saccade.tasks.word_vectors.config import VectorsRecipe
from saccade.tasks.word_vectors.data import (
    WordSplit,
)
from saccade.tasks.word_vectors.evaluate import WordVectorEvaluator
from saccade.tasks.word_vectors.inspect import WordVectorInspector
from saccade.tasks.word_vectors.lookup import WordVectorModel
from saccade.tasks.word_vectors.predict import NeighborPredictor
from saccade.training.estimator import FitContext


class WordVectorFit:
    """Estimator: fits the vectors by the model's own method."""

    is_resumable = True

    def __init__(
        self,
        recipe: VectorsRecipe,
        model: WordVectorModel,
        vocabulary: WordVocabulary,
        splits: Mapping[str, WordSplit],
    ):
        self.model, self.corpus = model, splits["train"].corpus

    def fit(self, context: FitContext) -> None:
        """Fit the vectors."""
        assert self.corpus is not None
        self.model.vectors.fit(self.corpus, context)
        self.model.__dict__.pop("unit_vectors", None)


_COMPONENTS = Components[VectorsRecipe, WordVocabulary, WordVectorModel, WordSplit](
    build_model=WordVectorModel,
    predictor=NeighborPredictor,
    evaluator=WordVectorEvaluator,
    inspector=WordVectorInspector,
    estimator=WordVectorFit,
)


def word_vector_components(
    recipe: VectorsRecipe,
) -> Components[VectorsRecipe, WordVocabulary, WordVectorModel, WordSplit]:
    """Return the capabilities of a recipe."""
    return _COMPONENTS
