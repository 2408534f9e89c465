r"""Multinomial logistic regression, fitted by a bound-optimisation (majorise–minimise) method.

    p(k | x) = softmax(W x + b)_k,    minimise Σ_n v_n · -log p(y_n | x_n) + λ/2 ‖W‖²

The Hessian is bounded by ½ XᵀVX for each class, whatever W is (Böhning 1992). A Newton step with
this bound in place of the Hessian always decreases the objective, needs one factorisation for all
steps, and has no learning rate. With two classes it is binary logistic regression of the difference
of the two rows of W, whose penalty is then λ/4 of its square.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.types.arrays import FloatArray, IntArray


class LogisticModel(NamedTuple):
    """Fitted weights; `steps` equals `max_steps` if the fit did not converge."""

    weights: FloatArray  # (K, D)
    biases: FloatArray  # (K,)
    steps: int

    def logits(self, inputs: FloatArray) -> FloatArray:
        """Return W x + b, (N, K)."""
        return inputs @ self.weights.T + self.biases

    def predict_log_proba(self, inputs: FloatArray) -> FloatArray:
        """Return log p(k | x), (N, K)."""
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
    """Fit to rows and labels 0 … num_classes - 1, with optional weights of the rows.

    Stops when no component of the gradient, divided by the total weight, exceeds `tolerance`.
    """
    points = np.asarray(inputs, np.float64)
    rows = np.column_stack([points, np.ones(len(points))])
    row_weights = np.ones(len(points)) if weights is None else np.asarray(weights, np.float64)
    per_row = (len(rows),)
    if not np.isfinite(rows).all() or labels.shape != per_row or row_weights.shape != per_row:
        raise ValueError(
            f"got inputs of shape {points.shape}, labels {labels.shape}, weights "
            f"{row_weights.shape}; expected finite numbers, and one label and one weight per row."
        )
    ridge = np.full(rows.shape[1], penalty)
    ridge[-1] = 0.0  # the bias is not penalised
    hessian_bound = (rows.T * row_weights) @ rows / 2 + np.diag(ridge)
    inverse = np.linalg.pinv(hessian_bound, hermitian=True)
    one_hot = np.eye(num_classes)[labels]
    params = np.zeros((rows.shape[1], num_classes))
    steps = 0
    while steps < max_steps:
        residuals = np.exp(_log_softmax(rows @ params)) - one_hot
        gradient = rows.T @ (row_weights[:, None] * residuals) + ridge[:, None] * params
        if np.abs(gradient).max() <= tolerance * row_weights.sum():
            break
        params -= inverse @ gradient
        steps += 1
    return LogisticModel(params[:-1].T, params[-1], steps)


def _log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
