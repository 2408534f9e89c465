r"""Classification metrics: accuracy, F1 and confusion matrix, as in scikit-learn.

Convention: a target of −1 is a class that the model does not know. It counts as an error in the
accuracy, and is left out of the confusion matrix and of the classes over which F1 is averaged.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saccade.types.arrays import BoolArray, FloatArray, IntArray


def confusion_matrix(targets: IntArray, predictions: IntArray, num_classes: int) -> IntArray:
    """Count each (true class, predicted class): rows are true classes, columns predicted ones.

    Agrees with scikit-learn's `confusion_matrix`; targets of −1 are left out.
    """
    matrix = np.zeros((num_classes, num_classes), np.int64)
    known = targets >= 0
    np.add.at(matrix, (targets[known], predictions[known]), 1)
    return matrix


def accuracy(targets: IntArray, predictions: IntArray) -> float:
    """Return the fraction of correct predictions; a target of −1 is never correct."""
    return float((targets == predictions).mean())


def f1_scores(targets: IntArray, predictions: IntArray, num_classes: int) -> FloatArray:
    r"""Return F1 = 2 TP / (2 TP + FP + FN) of each class.

    NaN for a class that occurs neither in the targets nor in the predictions.
    """
    true_positives = np.bincount(targets[targets == predictions], minlength=num_classes)
    actual = np.bincount(targets[targets >= 0], minlength=num_classes)
    predicted = np.bincount(predictions, minlength=num_classes)
    total = (actual + predicted).astype(np.float64)
    undefined = np.full(num_classes, np.nan)
    return np.divide(2.0 * true_positives, total, out=undefined, where=total > 0)


def macro_f1(targets: IntArray, predictions: IntArray, num_classes: int) -> float:
    """Return the unweighted mean of F1 over the classes in the targets or the predictions.

    Agrees with scikit-learn's `f1_score(average="macro")`.
    """
    return float(np.nanmean(f1_scores(targets, predictions, num_classes)))


class ClassReport(NamedTuple):
    """Precision, recall and F1 of each class, and the number of its examples.

    A precision without predictions and a recall without examples are 0, as scikit-learn's
    `precision_recall_fscore_support(zero_division=0)`.
    """

    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    support: IntArray

    def rows(self, labels: Sequence[str], chosen: IntArray) -> list[dict[str, Any]]:
        """Return the figures of some classes as rows of a table."""
        return [
            {
                "label": labels[number],
                "precision": round(float(self.precision[number]), 4),
                "recall": round(float(self.recall[number]), 4),
                "f1": round(float(self.f1[number]), 4),
                "support": int(self.support[number]),
            }
            for number in chosen.tolist()
        ]


def class_report(is_true: BoolArray, is_predicted: BoolArray) -> ClassReport:
    """Return the report of predictions, given as tables of (examples, classes)."""
    hits = (is_true & is_predicted).sum(0)
    support, predicted = is_true.sum(0), is_predicted.sum(0)
    return ClassReport(
        hits / np.maximum(predicted, 1),
        hits / np.maximum(support, 1),
        2.0 * hits / np.maximum(support + predicted, 1),
        support,
    )


def micro_f1(is_true: BoolArray, is_predicted: BoolArray) -> float:
    """Return F1 over all examples and classes together; 0 if nothing is true or predicted."""
    hits = int((is_true & is_predicted).sum())
    return 2.0 * hits / max(int(is_true.sum()) + int(is_predicted.sum()), 1)
