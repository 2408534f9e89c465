"""Confusion matrix and checks of a text classifier."""

from collections.abc import Mapping

import numpy as np

from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import ConfusionMatrix, Figure
from saccade.tasks.base import Inspector
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.data import EncodedTexts, LabelVocabulary
from saccade.tasks.text_classification.evaluate import label_confusion
from saccade.tasks.text_classification.model import TextClassifier
from saccade.types.bags import Bags

MAX_CONFUSION_LABELS = 40  # labels of a confusion matrix


class LabelInspector(Inspector[EncodedTexts]):
    """Shows which labels are confused with which."""

    def __init__(self, recipe: ClassifyRecipe, model: TextClassifier, vocabulary: LabelVocabulary):
        self.model, self.vocabulary = model, vocabulary

    def example_input(self, split: EncodedTexts) -> str:
        """Return the first words of a held-out text."""
        words = split.words
        row = words.rows[words.starts[0] : words.starts[1]][:12]
        return " ".join(self.vocabulary.words[number] for number in row)

    def figures(self, splits: Mapping[str, EncodedTexts]) -> dict[str, Figure]:
        """Return the confusion matrix."""
        table = label_confusion(self.model, splits["test"])
        table = table[:MAX_CONFUSION_LABELS, :MAX_CONFUSION_LABELS]
        classes = self.vocabulary.labels[:MAX_CONFUSION_LABELS]
        return {"confusion.png": ConfusionMatrix(table, classes)}

    def compare_reloaded(
        self, other: TextClassifier, split: EncodedTexts, count: int
    ) -> CheckResult:
        """Check that the reloaded model gives the same probabilities."""
        starts = split.words.starts[: count + 1]
        words = Bags(starts, split.words.rows[: starts[-1]])
        difference = np.abs(self.model.predict_proba(words) - other.predict_proba(words)).max()
        return CheckResult("reload consistency", len(starts) - 1, float(difference), 0.0)
