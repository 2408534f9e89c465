"""Predicting the labels of texts."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.text.labelled import LabelledText
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.data import LabelVocabulary, encode_texts
from saccade.tasks.text_classification.model import TextClassifier
from saccade.types.results import Prediction


class RankedOptions(Config):
    """Options of a task that ranks its answers."""

    n_best: int = Field(1, ge=1)


class LabelPredictor(TextPredictor):
    """Predicts the most probable labels of a text."""

    options = RankedOptions

    def __init__(self, recipe: ClassifyRecipe, model: TextClassifier, vocabulary: LabelVocabulary):
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary

    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the `n_best` labels of each text with their probabilities."""
        assert isinstance(options, RankedOptions)
        texts = [LabelledText((), text.replace("\n", " ")) for text in inputs]  # one line each
        split = self.recipe.data.split
        words = encode_texts(texts, self.model.index, self.vocabulary.label_ids, split).words
        probabilities = self.model.predict_proba(words)
        context.on_progress("predicting", len(inputs), len(inputs))
        predictions = []
        for row in probabilities:
            order = np.argsort(-row, kind="stable")[: options.n_best]
            ranked = [Prediction(self.vocabulary.labels[i], float(row[i])) for i in order]
            predictions.append(ranked[0]._replace(alternatives=tuple(ranked[1:])))
        return predictions
