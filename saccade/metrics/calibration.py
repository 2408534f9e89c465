r"""Calibration of probabilities: reliability by confidence, and expected calibration error.

Predictions are grouped into M bins of equal width by their confidence, the probability of the
predicted class. A model is calibrated if in each bin the share of correct predictions is the mean
confidence (Guo et al. 2017):

    ECE = Σ_m |B_m| / N · |accuracy(B_m) - confidence(B_m)|
"""

from typing import NamedTuple

import numpy as np

from saccade.types.arrays import BoolArray, FloatArray, IntArray

RELIABILITY_BINS = 10


class ReliabilityBins(NamedTuple):
    """Bins of predictions by confidence; empty bins are left out."""

    confidence: FloatArray  # mean of each bin
    accuracy: FloatArray  # share of correct predictions
    counts: IntArray

    @property
    def error(self) -> float:
        """Expected calibration error; 0 without predictions."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float(gaps @ self.counts / max(self.counts.sum(), 1))


def reliability(
    confidence: FloatArray, is_correct: BoolArray, bins: int = RELIABILITY_BINS
) -> ReliabilityBins:
    """Group predictions by confidence into bins (0, 1/M], (1/M, 2/M], …, ((M-1)/M, 1]."""
    numbers = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(numbers, minlength=bins)
    filled = np.flatnonzero(counts)
    sums = [
        np.bincount(numbers, weights=values, minlength=bins)[filled]
        for values in (confidence, is_correct.astype(np.float64))
    ]
    means = [total / counts[filled] for total in sums]
    return ReliabilityBins(means[0], means[1], counts[filled])


def expected_calibration_error(
    confidence: FloatArray, is_correct: BoolArray, bins: int = RELIABILITY_BINS
) -> float:
    """Return the mean gap between confidence and accuracy over bins of equal width."""
    return reliability(confidence, is_correct, bins).error
