r"""Numbers that were said, held against those that are."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def rmse(targets: FloatArray, predictions: FloatArray) -> float:
    r"""√(1/N Σ (ŷ - y)²)."""
    return float(np.sqrt(((predictions - targets) ** 2).mean()))


def mae(targets: FloatArray, predictions: FloatArray) -> float:
    r"""1/N Σ |ŷ - y|."""
    return float(np.abs(predictions - targets).mean())


def r_squared(targets: FloatArray, predictions: FloatArray) -> float:
    r"""1 - Σ (ŷ - y)² / Σ (y - ȳ)², ȳ the mean of these very y; NaN if they are all one.

    0 is what saying their mean would give, and a model can be worse than that.
    """
    spread = float(((targets - targets.mean()) ** 2).sum())
    return 1 - float(((predictions - targets) ** 2).sum()) / spread if spread else float("nan")
