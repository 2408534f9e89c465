"""Predicting the labels of texts."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.text_classification.scorer import LabelScorer
from saccade.types.arrays import FloatArray
from saccade.types.limits import MAX_COUNT
from saccade.types.results import Prediction

MAX_LISTED_PROBABILITIES = 20  # labels up to which a prediction has the probability of each
PREDICT_TEXTS_CHUNK = 8192  # texts between two reports of progress


class RankedOptions(Config):
    """Options of a task that ranks its answers."""

    n_best: int = Field(1, ge=1, le=MAX_COUNT)
    """Number of answers, best first."""


class LabelPredictor(TextPredictor):
    """Predicts the most probable label of a text, or all probable ones."""

    options = RankedOptions

    def __init__(self, scorer: LabelScorer):
        self.scorer, self.labels = scorer, scorer.vocabulary.labels

    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the `n_best` labels of each text with their calibrated probabilities.

        Where a text may have several labels, one answer has all labels from the threshold on, with
        commas between; more answers are the single labels.
        """
        assert isinstance(options, RankedOptions)
        predictions: list[Prediction] = []
        for start in range(0, len(inputs), PREDICT_TEXTS_CHUNK):
            rows = self.scorer.predict_proba(inputs[start : start + PREDICT_TEXTS_CHUNK])
            if options.n_best > 1:
                predictions += [self._ranked(row, options.n_best) for row in rows]
            elif self.scorer.multi_label:
                predictions += [self._several(row) for row in rows]
            else:
                predictions += self._best(rows)
            context.on_progress("predicting", len(predictions), len(inputs))
        return predictions

    def _best(self, rows: FloatArray) -> list[Prediction]:
        best = rows.argmax(1)
        scores = rows[np.arange(len(rows)), best]
        found = [
            Prediction(self.labels[label], score)
            for label, score in zip(best.tolist(), scores.tolist(), strict=True)
        ]
        if len(self.labels) > MAX_LISTED_PROBABILITIES:
            return found
        return [
            prediction._replace(probabilities=dict(zip(self.labels, row, strict=True)))
            for prediction, row in zip(found, rows.tolist(), strict=True)
        ]

    def _ranked(self, row: FloatArray, n_best: int) -> Prediction:
        order = np.argsort(-row, kind="stable")[:n_best]
        ranked = [Prediction(self.labels[i], float(row[i])) for i in order]
        return ranked[0]._replace(alternatives=tuple(ranked[1:]))

    def _several(self, row: FloatArray) -> Prediction:
        chosen = np.flatnonzero(self.scorer.decide(row[None])[0])
        order = chosen[np.argsort(-row[chosen], kind="stable")]
        by_label = {self.labels[i]: float(row[i]) for i in order}
        return Prediction(",".join(by_label), min(by_label.values()), probabilities=by_label)
