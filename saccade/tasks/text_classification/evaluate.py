"""Accuracy, macro-F1, and precision and recall at k of predicted labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from saccade.estimators.baselines import majority_class
from saccade.metrics.classification import confusion_matrix, macro_f1
from saccade.tasks.base import Evaluator
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.data import EncodedTexts, LabelVocabulary
from saccade.tasks.text_classification.model import TextClassifier
from saccade.types.arrays import IntArray
from saccade.types.bags import Bags
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation


class LabelEvaluator(Evaluator[EncodedTexts]):
    """Negative log-likelihood of the true labels, and precision and recall at k.

    Without `data.multi_label` also accuracy, by which models are compared, and macro-F1 if every
    text has one label.
    """

    def __init__(self, recipe: ClassifyRecipe, model: TextClassifier, vocabulary: LabelVocabulary):
        self.model, self.vocabulary = model, vocabulary
        self.is_multi_label = recipe.data.multi_label
        if not self.is_multi_label:
            self.metric = ComparisonMetric("accuracy", True, 100.0)

    def evaluate(
        self,
        split: EncodedTexts,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of all texts of a split."""
        words, labels = split
        probabilities = self.model.predict_proba(words)
        order = np.argsort(-probabilities, axis=1, kind="stable")
        owner = _owners(labels)
        known = labels.rows >= 0
        is_true = np.zeros(probabilities.shape, bool)
        is_true[owner[known], labels.rows[known]] = True
        of_true = probabilities[owner[known], labels.rows[known]]
        loss = float(-np.log(np.maximum(of_true, 1e-30)).mean()) if len(of_true) else float("nan")
        metrics = {"examples": float(len(probabilities)), "loss": loss}
        conventions = {"loss": "mean of -log p of the true labels"}
        if not self.is_multi_label:
            metrics["accuracy"] = float(is_true[np.arange(len(order)), order[:, 0]].mean())
            unknown = int((~known).sum())
            note = f"; {unknown:,} unknown labels count as errors" if unknown else ""
            conventions["accuracy"] = f"share of texts whose most probable label is true{note}"
            if _has_one_label_each(labels):
                count = len(self.vocabulary.labels)
                metrics["macro_f1"] = macro_f1(labels.rows.astype(np.int64), order[:, 0], count)
                conventions["macro_f1"] = "mean F1 over the labels that occur or were predicted"
        for k in (1, 5):
            if k < len(self.vocabulary.labels):
                right = np.take_along_axis(is_true, order[:, :k], 1).sum()
                metrics[f"precision_at_{k}"] = float(right / (k * len(probabilities)))
                metrics[f"recall_at_{k}"] = float(right / max(len(owner), 1))
                among = f"the {k} most probable labels"
                conventions[f"precision_at_{k}"] = f"share of {among} that are true"
                conventions[f"recall_at_{k}"] = f"share of the true labels among {among}"
        on_progress("evaluating", len(probabilities), len(probabilities))
        return Evaluation(metrics, conventions)

    def floors(self, train: EncodedTexts, split: EncodedTexts) -> dict[str, dict[str, float]]:
        """Return the metrics of always predicting the most frequent training label."""
        labels, trained = split.labels, train.labels.rows
        found = majority_class(trained[trained >= 0], labels.rows, unknown=-1).metrics
        labels_per_text = len(labels.rows) / (len(labels.starts) - 1)
        recall = found["accuracy"]  # share of all labels
        precision = recall * labels_per_text
        metrics = {"precision_at_1": precision, "recall_at_1": recall}
        if not self.is_multi_label:
            metrics["accuracy"] = precision
            if _has_one_label_each(labels):
                metrics["macro_f1"] = found["macro_f1"]
        return {"majority label": metrics}


def label_confusion(model: TextClassifier, split: EncodedTexts) -> IntArray:
    """Return how often a text of each label (rows) was predicted to be of each (columns)."""
    predicted = model.predict_proba(split.words).argmax(1)
    targets = split.labels.rows.astype(np.int64)
    return confusion_matrix(targets, predicted[_owners(split.labels)], len(model.vocabulary.labels))


def _owners(labels: Bags) -> IntArray:
    """Return the index of the text of each label."""
    return np.repeat(np.arange(len(labels.starts) - 1), np.diff(labels.starts))


def _has_one_label_each(labels: Bags) -> bool:
    return bool((np.diff(labels.starts) == 1).all())
