r"""Numbers that were said, held against those that are."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rmse(truth: Floats, said: Floats) -> float:
    r"""√(1/N Σ (ŷ - y)²)."""
    return float(np.sqrt(((said - truth) ** 2).mean()))


def mae(truth: Floats, said: Floats) -> float:
    r"""1/N Σ |ŷ - y|."""
    return float(np.abs(said - truth).mean())


def r_squared(truth: Floats, said: Floats) -> float:
    r"""1 - Σ (ŷ - y)² / Σ (y - ȳ)², ȳ the mean of these very y; NaN if they are all one.

    0 is what saying their mean would give, and a model can be worse than that.
    """
    spread = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float(((said - truth) ** 2).sum()) / spread if spread else float("nan")
