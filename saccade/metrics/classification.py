r"""Classes that were said, held against those that are."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def confusion(truth: Indices, said: Indices, classes: int) -> Indices:
    """How often each class (rows) was said to be each (columns); a truth of −1 is left out."""
    table = np.zeros((classes, classes), np.int64)
    known = truth >= 0
    np.add.at(table, (truth[known], said[known]), 1)
    return table


def accuracy(truth: Indices, said: Indices) -> float:
    """The share of those that were said right; a truth of −1 never is."""
    return float((truth == said).mean())


def f1_scores(truth: Indices, said: Indices, classes: int) -> NDArray[np.float64]:
    r"""F1 of each class, 2 TP / (2 TP + FP + FN); NaN for one that neither is nor was said."""
    right = np.bincount(truth[truth == said], minlength=classes)
    there = np.bincount(truth[truth >= 0], minlength=classes)
    named = np.bincount(said, minlength=classes)
    total = (there + named).astype(np.float64)
    return np.divide(2.0 * right, total, out=np.full(classes, np.nan), where=total > 0)


def macro_f1(truth: Indices, said: Indices, classes: int) -> float:
    """The plain mean of F1 over the classes that are there or were said, as scikit-learn has it."""
    return float(np.nanmean(f1_scores(truth, said, classes)))
