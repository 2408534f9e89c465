r"""Regression metrics: RMSE, MAE and R², as in scikit-learn."""

import numpy as np

from saccade.types.arrays import FloatArray


def rmse(targets: FloatArray, predictions: FloatArray) -> float:
    r"""Return the root mean squared error √(1/N Σ (ŷ - y)²)."""
    return float(np.sqrt(((predictions - targets) ** 2).mean()))


def mae(targets: FloatArray, predictions: FloatArray) -> float:
    r"""Return the mean absolute error 1/N Σ |ŷ - y|."""
    return float(np.abs(predictions - targets).mean())


def r_squared(targets: FloatArray, predictions: FloatArray) -> float:
    r"""Return R² = 1 - Σ (ŷ - y)² / Σ (y - ȳ)², ȳ being the mean of these targets.

    Predicting ȳ gives 0; a worse model gives a negative value. NaN if all targets are equal, where
    scikit-learn's `r2_score` returns 0 or 1.
    """
    total = float(((targets - targets.mean()) ** 2).sum())
    return 1 - float(((predictions - targets) ** 2).sum()) / total if total else float("nan")
