"""Logistic regression on n-grams as a model of the task. Does not import torch or numba."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saccade.estimators.text_classifiers.config import NGramClassifierConfig
from saccade.estimators.text_classifiers.ngrams import NGramClassifier
from saccade.tasks.text_classification.components import make_components
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.scorer import (
    Calibration,
    LabelScorer,
    LinearTerms,
    fit_calibration,
    read_calibration,
)
from saccade.tasks.text_classification.texts import (
    LabelVocabulary,
    TextSplit,
    known_rows,
    label_weights,
)
from saccade.training.estimator import FitContext
from saccade.types.arrays import FloatArray
from saccade.types.bags import join_bags


class NGramClassifierModel:
    """A classifier with its calibration."""

    def __init__(self, recipe: ClassifyRecipe, vocabulary: LabelVocabulary):
        assert isinstance(recipe.model, NGramClassifierConfig)
        self.classifier = NGramClassifier(recipe.model, len(vocabulary.labels), recipe.data.split)
        self.calibration = Calibration()

    def state_dict(self) -> dict[str, Any]:
        """Return all arrays."""
        return {**self.classifier.state_dict(), "calibration": self.calibration.to_array()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a fitted classifier."""
        self.classifier.load_state_dict(state)
        self.calibration = read_calibration(state)


class NGramLabelScorer(LabelScorer):
    """Logits of n-grams, which are sums over the words of a text."""

    methods = ("contributions", "occlusion")

    model: NGramClassifierModel

    @property
    def calibration(self) -> Calibration:
        """The calibration of the model."""
        return self.model.calibration

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, labels)."""
        return self.model.classifier.logits(texts).astype(np.float64)

    def linear_terms(self, text: str) -> LinearTerms:
        """Return the terms of the words."""
        return LinearTerms(*self.model.classifier.explain_words(text))


class NGramClassifierFit:
    """Estimator: counts the n-grams and solves for the weights.

    The weights are fitted to the training texts and calibrated on the dev split. Then, with
    `model.refit`, they are fitted to both together; n-grams and calibration are kept.
    """

    is_resumable = False

    def __init__(
        self,
        recipe: ClassifyRecipe,
        model: NGramClassifierModel,
        vocabulary: LabelVocabulary,
        splits: Mapping[str, TextSplit],
    ):
        self.model, self.train, self.dev = model, splits["train"], splits["dev"]
        self.scorer = NGramLabelScorer(recipe, model, vocabulary)
        self.label_weights = label_weights(vocabulary) if recipe.is_balanced else None
        self.refits = model.classifier.config.refit and self.dev.is_held_out

    def fit(self, context: FitContext) -> None:
        """Fit the classifier."""
        classifier, known = self.model.classifier, known_rows(self.train)
        labels = self.train.labels.take(known)

        def on_progress(what: str) -> None:
            context.on_progress(what, 0, None)

        rows = classifier.fit(
            self.train.texts_at(known),
            labels,
            self.label_weights,
            context.stop,
            context.threads,
            on_progress,
        )
        self.model.calibration = fit_calibration(self.scorer, self.dev)
        if not self.refits:
            return
        context.evaluate_dev()
        known = known_rows(self.dev)
        classifier.fit_rows(
            rows.append(classifier.features.rows(self.dev.texts_at(known))),
            join_bags([labels, self.dev.labels.take(known)]),
            self.label_weights,
            classifier.linear,
            context.stop,
            context.threads,
            on_progress,
        )


NGRAMS = make_components(
    NGramLabelScorer,
    None,  # calibrated in the fit
    build_model=NGramClassifierModel,
    estimator=NGramClassifierFit,
)
