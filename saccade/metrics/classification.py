r"""Classes that were said, held against those that are."""

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def confusion_matrix(targets: IntArray, predictions: IntArray, num_classes: int) -> IntArray:
    """How often each class (rows) was said to be each (columns); a truth of −1 is left out."""
    table = np.zeros((num_classes, num_classes), np.int64)
    known = targets >= 0
    np.add.at(table, (targets[known], predictions[known]), 1)
    return table


def accuracy(targets: IntArray, predictions: IntArray) -> float:
    """The share of those that were said right; a truth of −1 never is."""
    return float((targets == predictions).mean())


def f1_scores(targets: IntArray, predictions: IntArray, num_classes: int) -> NDArray[np.float64]:
    r"""F1 of each class, 2 TP / (2 TP + FP + FN); NaN for one that neither is nor was said."""
    right = np.bincount(targets[targets == predictions], minlength=num_classes)
    there = np.bincount(targets[targets >= 0], minlength=num_classes)
    named = np.bincount(predictions, minlength=num_classes)
    total = (there + named).astype(np.float64)
    return np.divide(2.0 * right, total, out=np.full(num_classes, np.nan), where=total > 0)


def macro_f1(targets: IntArray, predictions: IntArray, num_classes: int) -> float:
    """The plain mean of F1 over the classes that are there or were said, as scikit-learn has it."""
    return float(np.nanmean(f1_scores(targets, predictions, num_classes)))
