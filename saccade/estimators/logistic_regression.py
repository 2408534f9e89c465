r"""Logistic regression: chances of classes from a weighted sum, by steps that cannot be too long.

    p(k | x) = softmax(W x + b)_k,    minimise Σ_n v_n · -log p(y_n | x_n) + λ/2 ‖W‖²

The bend of this is nowhere more than ½ XᵀVX for each class, whatever W is (Böhning 1992). A step of
Newton's with that bound in place of the bend always goes down, has one matrix to be solved for all
steps, and needs no rate. With two classes it is the logistic regression of their difference, whose
penalty is then λ/4 of its square.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class LogisticModel(NamedTuple):
    """What was learned; `steps` is how many it took, `most` if it was not at rest by then."""

    weights: FloatArray  # (K, D)
    biases: FloatArray  # (K,)
    steps: int

    def logits(self, inputs: FloatArray) -> FloatArray:
        """(N, K)."""
        return inputs @ self.weights.T + self.biases

    def predict_log_proba(self, inputs: FloatArray) -> FloatArray:
        """(N, K): log p(k | x)."""
        return _log_softmax(self.logits(inputs))


def fit_logistic(
    inputs: NDArray[Any],
    labels: IntArray,
    num_classes: int,
    *,
    weights: NDArray[Any] | None = None,
    penalty: float = 1.0,
    tolerance: float = 1e-6,
    max_steps: int = 1000,
) -> LogisticModel:
    """From rows and their class, 0 … size - 1, until no slope is above `tolerance` a row."""
    points = np.asarray(inputs, np.float64)
    rows = np.column_stack([points, np.ones(len(points))])
    each = np.ones(len(points)) if weights is None else np.asarray(weights, np.float64)
    if not np.isfinite(rows).all() or labels.shape != (len(rows),) or each.shape != (len(rows),):
        raise ValueError(
            f"got inputs {points.shape}, classes {labels.shape}, weights {each.shape} in shape; "
            "wanted finite numbers, and a class and a weight for each row."
        )
    ridge = np.full(rows.shape[1], penalty)
    ridge[-1] = 0.0  # the bias is free
    bound = (rows.T * each) @ rows / 2 + np.diag(ridge)
    inverse = np.linalg.pinv(bound, hermitian=True)
    wanted = np.eye(num_classes)[labels]
    learned = np.zeros((rows.shape[1], num_classes))
    steps = 0
    while steps < max_steps:
        missed = np.exp(_log_softmax(rows @ learned)) - wanted
        slope = rows.T @ (each[:, None] * missed) + ridge[:, None] * learned
        if np.abs(slope).max() <= tolerance * each.sum():
            break
        learned -= inverse @ slope
        steps += 1
    return LogisticModel(learned[:-1].T, learned[-1], steps)


def _log_softmax(logits: FloatArray) -> FloatArray:
    held = logits - logits.max(axis=1, keepdims=True)
    return held - np.log(np.exp(held).sum(axis=1, keepdims=True))
