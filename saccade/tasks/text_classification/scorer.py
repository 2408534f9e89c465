r"""Logits and calibrated probabilities of texts, whatever the model. Does not import torch.

    p = softmax(z / T), or σ(z / T) where a text may have several labels

T and the threshold of several labels are fitted on the dev split after training and are stored
with the weights of the model (`calibration`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from saccade.estimators.temperature import (
    fit_binary_temperature,
    fit_temperature,
    fit_threshold,
    stable_sigmoid,
    stable_softmax,
)
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.checks import CheckResult
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.texts import LabelVocabulary, TextSplit
from saccade.types.arrays import BoolArray, FloatArray

MIN_CALIBRATION_TEXTS = 50


class Calibration(NamedTuple):
    """Temperature of the probabilities, and threshold of several labels."""

    temperature: float = 1.0
    threshold: float = 0.5

    def to_array(self) -> FloatArray:
        """Return both as an array, for a file of weights."""
        return np.array(self)


class LinearTerms(NamedTuple):
    """The logits of a text as sums: of a term of each word, and of a bias."""

    words: FloatArray  # (words, labels)
    biases: FloatArray  # (labels,)


class LabelPair(NamedTuple):
    """The label that is explained, and the one whose logit is subtracted; None: independent."""

    chosen: int
    other: int | None

    def value(self, logits: Any) -> Any:
        """Return the explained value from logits (…, labels), an array or a tensor."""
        if self.other is None:
            return logits[..., self.chosen]
        return logits[..., self.chosen] - logits[..., self.other]


class WordScores(NamedTuple):
    """Scores of the words of a text, the base, and the unit and baseline in words."""

    scores: FloatArray
    base: float = 0.0
    unit: str = "log-odds"
    baseline: str = ""


class LabelScorer(ABC):
    """Logits of a model for texts, and what follows from them. Keeps no state between calls."""

    methods: tuple[str, ...] = ("occlusion",)  # of attribution, the default first

    def __init__(self, recipe: ClassifyRecipe, model: Any, vocabulary: LabelVocabulary):
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.multi_label = recipe.data.multi_label

    def with_model(self, model: Any) -> "LabelScorer":
        """Return the scorer of another model with the same settings."""
        return type(self)(self.recipe, model, self.vocabulary)

    @abstractmethod
    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, labels), not calibrated."""

    @property
    @abstractmethod
    def calibration(self) -> Calibration:
        """The calibration of the model."""

    def linear_terms(self, text: str) -> LinearTerms | None:
        """Return the terms of the logits by words, of a linear model."""
        return None

    def word_scores(self, text: str, num_words: int, method: str, pair: LabelPair) -> WordScores:
        """Return the contributions of a linear model; networks have methods of their own."""
        terms = self.linear_terms(text)
        assert terms is not None and method == "contributions"
        temperature = self.calibration.temperature
        base = float(pair.value(terms.biases)) / temperature
        return WordScores(pair.value(terms.words) / temperature, base, baseline="no words")

    def attention_maps(
        self, text: str, words: Sequence[str]
    ) -> dict[tuple[str, int, int], AttentionMap]:
        """Return the attention between the words of a text; none if the model has no attention."""
        return {}

    def checks(self, texts: Sequence[str]) -> Iterator[CheckResult]:
        """Run the invariance checks of this kind of model."""
        yield from ()

    def probabilities(self, logits: FloatArray) -> FloatArray:
        """Return calibrated probabilities; the labels of a text sum to 1 unless it has several."""
        scaled = logits / self.calibration.temperature
        return stable_sigmoid(scaled) if self.multi_label else stable_softmax(scaled)

    def predict_proba(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, labels): the probability of each label."""
        return self.probabilities(self.logits(texts))

    def decide(self, probabilities: FloatArray) -> BoolArray:
        """Return which labels are predicted: the best one, or all from the threshold on."""
        found = np.zeros(probabilities.shape, np.bool_)
        if probabilities.size:
            found[np.arange(len(found)), probabilities.argmax(1)] = True
        if self.multi_label:
            found |= probabilities >= self.calibration.threshold
        return found


def fit_calibration(scorer: LabelScorer, dev: TextSplit) -> Calibration:
    """Return the calibration by the dev split; the default where it is small or was trained on."""
    truths = dev.truths(len(scorer.vocabulary.labels))
    rows = np.flatnonzero(truths.any(1))
    if not dev.is_held_out or len(rows) < MIN_CALIBRATION_TEXTS:
        return Calibration()
    logits, truths = scorer.logits(dev.texts_at(rows)), truths[rows]
    if not scorer.multi_label:
        return Calibration(fit_temperature(logits, truths.argmax(1)))
    temperature = fit_binary_temperature(logits, truths)
    return Calibration(temperature, fit_threshold(stable_sigmoid(logits / temperature), truths))


def read_calibration(state: Mapping[str, Any]) -> Calibration:
    """Return the calibration of saved weights; runs before version 0.7 have none."""
    values = state.get("calibration")
    return Calibration() if values is None else Calibration(*(float(value) for value in values))
