"""Correlation of two lists of numbers: Pearson's r and Spearman's ρ."""

import numpy as np
from numpy.typing import NDArray

from saccade.types.arrays import FloatArray


def pearson(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """Return Pearson's correlation; NaN for fewer than two values or constant ones."""
    if len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return float("nan")
    # a mean of 1e200 would overflow when squared
    one, two = (v.astype(np.float64) / max(np.abs(v).max(), 1e-300) for v in (a, b))
    one, two = one - one.mean(), two - two.mean()
    scale = np.linalg.norm(one) * np.linalg.norm(two)
    return float(np.clip(one @ two / scale, -1, 1)) if scale > 0 else float("nan")


def spearman(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """Return Spearman's rank correlation; NaN for fewer than two values or constant ones."""
    return pearson(average_ranks(a), average_ranks(b))


def average_ranks(values: NDArray[np.floating]) -> FloatArray:
    """Return ranks from 1; tied values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: FloatArray = (last - (counts - 1) / 2)[inverse]
    return ranks
