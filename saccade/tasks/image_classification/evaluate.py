"""Accuracy of predicted classes, the report by class, and the most confident mistakes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.samplers import evenly_spaced_rows
from saccade.estimators.baselines import majority_class
from saccade.estimators.logistic_regression import fit_logistic
from saccade.estimators.temperature import stable_softmax
from saccade.metrics.classification import (
    accuracy,
    class_report,
    confusion_matrix,
    macro_f1,
)
from saccade.tasks.base import Evaluator
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.image_classification.scorer import ImageScorer
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction

TOP_CLASSES = 5
MAX_REPORTED_CLASSES = 100  # of the report by class
MAX_CONFUSED_CLASSES = 40
MAX_REPORTED_IMAGES = 10  # mistakes
FLOOR_SIDE = 14  # pixels of the images for logistic regression
MAX_FLOOR_IMAGES = 5000
FLOOR_STEPS = 100


@dataclass(frozen=True, eq=False)
class ScoredImages:
    """Images of a split with the probabilities of their classes."""

    split: ImageSplit
    labels: Sequence[str]
    probabilities: FloatArray  # (images, classes)

    @cached_property
    def predicted(self) -> IntArray:
        """The most probable class of each image."""
        return self.probabilities.argmax(1)

    @property
    def confusion(self) -> IntArray:
        """Counts of images by true class (rows) and predicted class (columns)."""
        return confusion_matrix(self.split.classes, self.predicted, len(self.labels))

    def mistakes(self, limit: int = MAX_REPORTED_IMAGES) -> IntArray:
        """Return the images whose wrong class is most probable, most probable first."""
        wrong = np.flatnonzero((self.predicted != self.split.classes) & (self.split.classes >= 0))
        confidence = self.probabilities[wrong].max(1)
        return wrong[np.argsort(-confidence, kind="stable")][:limit]

    def describe_mistakes(self, limit: int = MAX_REPORTED_IMAGES) -> list[dict[str, Any]]:
        """Return the mistakes as rows of a table."""
        return [
            {
                "image": self.split.names[row],
                "true": self.labels[int(self.split.classes[row])],
                "predicted": self.labels[int(self.predicted[row])],
                "probability": round(float(self.probabilities[row].max()), 4),
            }
            for row in self.mistakes(limit).tolist()
        ]


def score_images(
    scorer: ImageScorer, split: ImageSplit, on_progress: Progress = ignore_progress
) -> ScoredImages:
    """Return the probabilities of all images of a split."""
    probabilities = stable_softmax(scorer.split_logits(split, on_progress))
    return ScoredImages(split, scorer.labels, probabilities)


class ImageEvaluator(Evaluator[ImageSplit]):
    """Accuracy of the most probable class, and of the five most probable ones."""

    metric = ComparisonMetric("accuracy", higher_is_better=True, factor=100.0)
    headline = ("accuracy", "top5_accuracy", "macro_f1")

    def __init__(self, scorer: ImageScorer):
        self.scorer, self.labels = scorer, scorer.labels

    def evaluate(
        self,
        split: ImageSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of a split, and tables of classes and mistakes."""
        self.refuse_options(options, "a classifier computes one probability for each class")
        scored = score_images(self.scorer, split.take(limit), on_progress)
        targets, some = scored.split.classes, scored.split
        metrics = {"accuracy": accuracy(targets, scored.predicted)}
        conventions = {"accuracy": "share of images whose most probable class is true"}
        if some.unknown:
            names = ", ".join(map(repr, list(some.unknown)[:TOP_CLASSES]))
            conventions["accuracy"] += f"; images of unknown classes ({names}) count as errors"
        if not some.is_held_out:
            conventions["accuracy"] += "; on images that were trained on"
        if len(self.labels) > TOP_CLASSES:
            best = np.argpartition(-scored.probabilities, TOP_CLASSES, axis=1)[:, :TOP_CLASSES]
            metrics["top5_accuracy"] = float((best == targets[:, None]).any(1).mean())
            conventions["top5_accuracy"] = "true class among the 5 most probable ones"
        metrics["macro_f1"] = macro_f1(targets, scored.predicted, len(self.labels))
        conventions["macro_f1"] = "mean F1 over the classes that occur or were predicted"
        known = np.flatnonzero(targets >= 0)
        omitted = {}
        if len(known):
            of_true = scored.probabilities[known, targets[known]]
            metrics["loss"] = float(-np.log(np.maximum(of_true, 1e-30)).mean())
            conventions["loss"] = "mean of -log p of the true class"
        else:
            omitted["loss"] = "the run knows none of the classes"
        metrics["examples"] = float(len(some))
        return Evaluation(
            metrics, conventions, self._tables(scored), omitted=omitted, notes=split.notes
        )

    def _tables(self, scored: ScoredImages) -> dict[str, Any]:
        """Return the report by class, the confusion matrix and the mistakes."""
        numbers = np.arange(len(self.labels))
        report = class_report(
            scored.split.classes[:, None] == numbers, scored.predicted[:, None] == numbers
        )
        frequent = np.sort(np.argsort(-report.support, kind="stable")[:MAX_REPORTED_CLASSES])
        tables: dict[str, Any] = {
            "classes": report.rows(self.labels, frequent),
            "mistakes": scored.describe_mistakes(),
        }
        if len(self.labels) <= MAX_CONFUSED_CLASSES:
            counts = scored.confusion.tolist()
            tables["confusion"] = {"classes": list(self.labels), "counts": counts}
        if scored.split.unknown:
            tables["unknown_labels"] = dict(scored.split.unknown)
        return tables

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return the accuracy, and among nearly equal ones the smaller loss."""
        return metrics["accuracy"] - 0.01 * metrics.get("loss", 0.0)

    def floors(self, train: ImageSplit, split: ImageSplit) -> dict[str, dict[str, float]]:
        """Return the metrics of the most frequent class, and of logistic regression on pixels."""
        known = train.classes[train.classes >= 0]
        floors = {"majority class": majority_class(known, split.classes, unknown=-1).metrics}
        rows = np.flatnonzero(train.classes >= 0)
        rows = rows[evenly_spaced_rows(len(rows), MAX_FLOOR_IMAGES)]
        targets = train.classes[rows]
        if len(np.unique(targets)) < 2:
            return floors
        model = fit_logistic(
            small_pixels(train, rows), targets, len(self.labels), max_steps=FLOOR_STEPS
        )
        predicted = model.logits(small_pixels(split, np.arange(len(split)))).argmax(1)
        floors["logistic regression on pixels"] = {
            "accuracy": accuracy(split.classes, predicted),
            "macro_f1": macro_f1(split.classes, predicted, len(self.labels)),
        }
        return floors

    def inputs(self, split: ImageSplit) -> list[Any]:
        """Return the decoded images."""
        return list(split.pixels_at(np.arange(len(split))))

    def score_each(
        self, split: ImageSplit, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64] | None:
        """Return 100 for each image whose class is right."""
        ids = self.scorer.transform.label_ids
        predicted = np.array([ids[prediction.text] for prediction in predictions])
        return 100.0 * (predicted == split.classes)


def small_pixels(split: ImageSplit, rows: IntArray) -> FloatArray:
    """Return images as rows of at most 14 × 14 × C block means, from 0 to 1."""
    pixels = split.pixels_at(rows).astype(np.float64) / 255
    side = pixels.shape[1]
    edges = np.arange(min(FLOOR_SIDE, side)) * side // min(FLOOR_SIDE, side)
    lengths = np.diff([*edges, side])
    sums = np.add.reduceat(np.add.reduceat(pixels, edges, 1), edges, 2)
    means = sums / np.outer(lengths, lengths)[:, :, None]
    return means.reshape(len(rows), -1)
