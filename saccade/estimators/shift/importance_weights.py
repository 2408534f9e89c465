r"""Importance weights for training under covariate and label shift.

q is the distribution of the training data (source), p that of deployment (target).

- **Covariate shift**, p(x) ≠ q(x) with p(y | x) = q(y | x): weight each row by β(x) = p(x) / q(x).
- **Label shift**, p(y) ≠ q(y) with p(x | y) = q(x | y): weight each row by p(y) / q(y).
- **Concept shift**, p(y | x) ≠ q(y | x): weights do not help; train on rows of the target.

`saccade.estimators.shift.detect` tests which of them is present.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.logistic_regression import LogisticModel, fit_logistic
from saccade.types.arrays import FloatArray, IntArray

MAX_CONDITION_NUMBER = 30.0  # of a confusion matrix; above it, the estimate is mostly noise


class ImportanceWeights(NamedTuple):
    """β of each row of the source, and the effective sample size."""

    values: FloatArray  # (N,)
    clipped: int  # number of weights that were clipped
    effective_rows: float  # (Σβ)² / Σβ²: as many rows of equal weight have the same variance


class DomainClassifier(NamedTuple):
    """Logistic regression of target versus source rows, which estimates log p(x) / q(x)."""

    linear: LogisticModel
    mean: FloatArray
    scale: FloatArray
    odds: float  # N / M

    def log_ratio(self, inputs: NDArray[Any]) -> FloatArray:
        """Return log p(x) / q(x) of each row: the logit h(x) corrected for the sample sizes."""
        logits = self.linear.logits((np.asarray(inputs, np.float64) - self.mean) / self.scale)
        return logits[:, 1] - logits[:, 0] + np.log(self.odds)

    def weights(self, inputs: NDArray[Any], max_weight: float = 10.0) -> ImportanceWeights:
        """Return β of each row, clipped to `max_weight`."""
        unclipped = np.exp(np.minimum(self.log_ratio(inputs), 700.0))
        values = np.minimum(unclipped, max_weight)
        clipped = int((unclipped > max_weight).sum())
        return ImportanceWeights(values, clipped, effective_sample_size(values))


def fit_domain_classifier(
    source: NDArray[Any], target: NDArray[Any], penalty: float = 1.0
) -> DomainClassifier:
    """Fit a logistic regression of the table that a row is from: N source and M target rows."""
    tables = [_table(rows, name) for rows, name in ((source, "source"), (target, "target"))]
    if tables[0].shape[1] != tables[1].shape[1]:
        raise ValueError(
            f"got source rows of {tables[0].shape[1]} numbers and target rows of "
            f"{tables[1].shape[1]}; expected the same columns in both."
        )
    both = np.concatenate(tables)
    mean, deviation = both.mean(axis=0), both.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    domains = np.repeat(np.array([0, 1]), [len(table) for table in tables])
    linear = fit_logistic((both - mean) / scale, domains, 2, penalty=penalty)
    return DomainClassifier(linear, mean, scale, len(tables[0]) / len(tables[1]))


def covariate_weights(
    source: NDArray[Any], target: NDArray[Any], max_weight: float = 10.0, penalty: float = 1.0
) -> ImportanceWeights:
    r"""Return β_i = min(exp(h(x_i)), c) of every row of the source, c being `max_weight`.

    h is a logistic regression that separates target (1) from source (-1) rows: with equally many
    of each, p(1 | x) / p(-1 | x) = p(x) / q(x). With N source and M target rows the ratio is off by
    the factor M / N, which is corrected here; the algorithm of d2l is otherwise the same.
    """
    return fit_domain_classifier(source, target, penalty).weights(source, max_weight)


def effective_sample_size(weights: NDArray[Any]) -> float:
    """Return (Σβ)² / Σβ² (Kish 1965): N for equal weights, 1 if one row has all the weight."""
    squares = float(np.square(weights).sum())
    return float(np.sum(weights)) ** 2 / squares if squares else 0.0


class LabelShiftEstimate(NamedTuple):
    """Class frequencies of source and target; a row of class y has the weight weights[y]."""

    source: FloatArray  # (K,) q(y)
    target: FloatArray  # (K,) p(y)
    weights: FloatArray  # (K,) p(y) / q(y)
    condition: float  # number of the confusion matrix: bounds the amplification of errors


def estimate_label_shift(
    labels: IntArray, source_predictions: NDArray[Any], target_predictions: NDArray[Any]
) -> LabelShiftEstimate:
    r"""Estimate p(y) of an unlabelled target from a model's predictions (BBSE, Lipton et al. 2018).

    `labels` (N,) and `source_predictions` (N, K) are of source rows that the model was not trained
    on; each row of predictions sums to 1 (one-hot or probabilities). `target_predictions` (M, K)
    are of the target. With C_ij the mean prediction of class i where j is true, and μ the mean
    prediction on the target, C p = μ, since p(ŷ | y) is the same in both. Negative solutions are
    set to 0.
    """
    predictions = _table(source_predictions, "source")
    shifted = _table(target_predictions, "target")
    size = predictions.shape[1]
    counts = np.bincount(labels, minlength=size)
    if len(labels) != len(predictions) or len(counts) != size or shifted.shape[1] != size:
        raise ValueError(
            f"got {len(labels)} labels up to {len(counts) - 1}, predictions of shape "
            f"{predictions.shape}, and {shifted.shape} for the target; expected one label per "
            "prediction, and as many columns as classes."
        )
    if not counts.all():
        raise ValueError(
            f"got no held-out source row of class {np.flatnonzero(counts == 0).tolist()}; expected "
            "rows of every class, to estimate the confusion matrix; try holding out more rows."
        )
    confusion = np.stack([predictions[labels == k].mean(axis=0) for k in range(size)], axis=1)
    condition = float(np.linalg.cond(confusion))
    if not condition <= MAX_CONDITION_NUMBER:
        raise ValueError(
            f"got a confusion matrix with condition number {condition:.3g}: the predictions hardly "
            f"depend on the class; expected {MAX_CONDITION_NUMBER:g} or less; try a better model, "
            "or merging the classes that it confuses."
        )
    raw = np.maximum(np.linalg.solve(confusion, shifted.mean(axis=0)), 0.0)
    target, source = raw / raw.sum(), counts / counts.sum()
    return LabelShiftEstimate(source, target, target / source, condition)


def _table(rows: NDArray[Any], name: str) -> FloatArray:
    table = np.asarray(rows, np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError(
            f"got {name} rows of shape {table.shape}; expected a non-empty table of finite "
            "numbers, (rows, columns)."
        )
    return table
