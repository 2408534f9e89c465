"""Nearest neighbours of words and of analogies."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.text.word_corpus import WordVocabulary
from saccade.estimators.word_vectors.neighbors import nearest_neighbors, parse_analogy
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.word_vectors.config import VectorsRecipe
from saccade.tasks.word_vectors.lookup import WordVectorModel
from saccade.types.limits import MAX_COUNT
from saccade.types.results import Prediction

DEFAULT_NEIGHBORS = 10


class NeighborOptions(Config):
    """Options of a nearest-neighbour query."""

    n_best: int | None = Field(None, ge=1, le=MAX_COUNT)  # None: ten neighbours in one line


class NeighborPredictor(TextPredictor):
    """Predicts the words nearest to a word, or to an analogy such as "king - man + woman"."""

    options = NeighborOptions

    def __init__(self, recipe: VectorsRecipe, model: WordVectorModel, vocabulary: WordVocabulary):
        self.model, self.vocabulary = model, vocabulary

    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the nearest words; with `n_best`, that many as alternatives, else in one line."""
        assert isinstance(options, NeighborOptions)
        queries, excluded = [], []
        for number, text in enumerate(inputs, context.first):
            terms = [
                (term.sign, *self.model.find(term.word, text, number))
                for term in parse_analogy(text)
            ]
            queries.append(sum(sign * vector for sign, vector, _ in terms))
            excluded.append([row for _, _, row in terms if row is not None])
        count = options.n_best or DEFAULT_NEIGHBORS
        rows, cosines = nearest_neighbors(
            np.array(queries, np.float32), self.model.unit_vectors, count, excluded
        )
        context.on_progress("predicting", len(inputs), len(inputs))
        predictions = []
        for ids, scores in zip(rows.tolist(), cosines.tolist(), strict=True):
            pairs = zip(ids, scores, strict=True)
            near = [Prediction(self.vocabulary.words[row], score) for row, score in pairs]
            if options.n_best:
                predictions.append(near[0]._replace(alternatives=tuple(near[1:])))
            else:
                predictions.append(_in_one_line(near))
        return predictions


def _in_one_line(neighbors: list[Prediction]) -> Prediction:
    text = ", ".join(f"{one.text} {one.score:.3f}" for one in neighbors)
    return Prediction(text, neighbors[0].score)
