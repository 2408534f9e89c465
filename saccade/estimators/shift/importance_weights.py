r"""Learning where the world has moved: weights for the rows that a model learns from.

q is what was learned from (the source), p where the model is to work (the target).

- **Covariate shift**, p(x) ≠ q(x) with p(y | x) = q(y | x): weigh each row by β(x) = p(x) / q(x).
- **Label shift**, p(y) ≠ q(y) with p(x | y) = q(x | y): weigh each row by p(y) / q(y).
- **Concept shift**, p(y | x) ≠ q(y | x): no weights help; learn from rows of the target.

`saccade.estimators.shift.detect` says which of them it is.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.logistic_regression import FloatArray, IntArray, LogisticModel, fit_logistic

MAX_CONDITION_NUMBER = (
    30.0  # the condition number of a confusion matrix from which on noise is all that is left
)


class ImportanceWeights(NamedTuple):
    """β of each row of the source, and what is left of it as a sample."""

    values: FloatArray  # (N,)
    clipped: int  # so many were above the limit
    effective_rows: float  # (Σβ)² / Σβ²: as many rows of equal weight would know as much


class DomainClassifier(NamedTuple):
    """What tells target rows from source rows, and so how much likelier a row is in the target."""

    linear: LogisticModel
    mean: FloatArray
    scale: FloatArray
    odds: float  # N / M

    def log_ratio(self, inputs: NDArray[Any]) -> FloatArray:
        """log p(x) / q(x) of each row: h(x), freed of how many rows of each kind it has seen."""
        logits = self.linear.logits((np.asarray(inputs, np.float64) - self.mean) / self.scale)
        return logits[:, 1] - logits[:, 0] + np.log(self.odds)

    def weights(self, inputs: NDArray[Any], max_weight: float = 10.0) -> ImportanceWeights:
        """β of each row, none above the limit."""
        free = np.exp(np.minimum(self.log_ratio(inputs), 700.0))
        values = np.minimum(free, max_weight)
        return ImportanceWeights(
            values, int((free > max_weight).sum()), effective_sample_size(values)
        )


def fit_domain_classifier(
    source: NDArray[Any], target: NDArray[Any], penalty: float = 1.0
) -> DomainClassifier:
    """A logistic regression of which of two tables a row is from, N of one and M of the other."""
    tables = [_table(rows, what) for rows, what in ((source, "source"), (target, "target"))]
    if tables[0].shape[1] != tables[1].shape[1]:
        raise ValueError(
            f"got source rows of {tables[0].shape[1]} numbers and target rows of "
            f"{tables[1].shape[1]}; wanted the same columns in both."
        )
    both = np.concatenate(tables)
    mean, spread = both.mean(axis=0), both.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    which = np.repeat(np.array([0, 1]), [len(table) for table in tables])
    linear = fit_logistic((both - mean) / scale, which, 2, penalty=penalty)
    return DomainClassifier(linear, mean, scale, len(tables[0]) / len(tables[1]))


def covariate_weights(
    source: NDArray[Any], target: NDArray[Any], max_weight: float = 10.0, penalty: float = 1.0
) -> ImportanceWeights:
    r"""β_i = min(exp(h(x_i)), c), for every row of the source.

    h is a logistic regression that tells target (1) from source (-1) rows: with as many of each
    p(1 | x) / p(-1 | x) = p(x) / q(x). With N of the source and M of the target that is off by
    M / N, which is put right here. Differs from d2l's algorithm in nothing else.
    """
    return fit_domain_classifier(source, target, penalty).weights(source, max_weight)


def effective_sample_size(weights: NDArray[Any]) -> float:
    """(Σβ)² / Σβ² (Kish 1965): N for equal weights, 1 if one row has them all."""
    squares = float(np.square(weights).sum())
    return float(np.sum(weights)) ** 2 / squares if squares else 0.0


class LabelShiftEstimate(NamedTuple):
    """How often each class comes, here and there; a row of class y is weighed weights[y]."""

    source: FloatArray  # (K,) q(y)
    target: FloatArray  # (K,) p(y)
    weights: FloatArray  # (K,) p(y) / q(y)
    condition: float  # of the confusion matrix: errors in what is said grow by this at most


def estimate_label_shift(
    labels: IntArray, source_predictions: NDArray[Any], target_predictions: NDArray[Any]
) -> LabelShiftEstimate:
    r"""p(y) of a target without labels, from what a model says (Lipton et al. 2018).

    `truth` (N,) and `said` (N, K) are of source rows that the model did not learn from, each row
    of `said` shares that add up to 1 (1 and 0s, or chances); `said_of_target` (M, K) is of the
    target. With C_ij how much of i is said where j is true, and μ the mean of what is said of the
    target, C p = μ, since p(ŷ | y) is the same in both. What comes out below 0 is set to 0.
    """
    shares, elsewhere = _table(source_predictions, "source"), _table(target_predictions, "target")
    size = shares.shape[1]
    counts = np.bincount(labels, minlength=size)
    if len(labels) != len(shares) or len(counts) != size or elsewhere.shape[1] != size:
        raise ValueError(
            f"got {len(labels)} labels up to {len(counts) - 1}, answers of shape {shares.shape} and "
            f"{elsewhere.shape} for the target; wanted a label for each answer, of as many classes."
        )
    if not counts.all():
        raise ValueError(
            f"got no held-out source row of class {np.flatnonzero(counts == 0).tolist()}; of those "
            "the model's mistakes are not known: hold out more rows."
        )
    confusion = np.stack([shares[labels == k].mean(axis=0) for k in range(size)], axis=1)
    condition = float(np.linalg.cond(confusion))
    if not condition <= MAX_CONDITION_NUMBER:
        raise ValueError(
            "the model's answers hardly depend on the class: the condition number of its confusion "
            f"matrix is {condition:.3g}, wanted {MAX_CONDITION_NUMBER:g} or less. Train a better one, or join the "
            "classes that it takes for each other."
        )
    raw = np.maximum(np.linalg.solve(confusion, elsewhere.mean(axis=0)), 0.0)
    target, source = raw / raw.sum(), counts / counts.sum()
    return LabelShiftEstimate(source, target, target / source, condition)


def _table(rows: NDArray[Any], what: str) -> FloatArray:
    table = np.asarray(rows, np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError(
            f"got {what} rows of shape {table.shape}; wanted a table of finite numbers, a row each."
        )
    return table
