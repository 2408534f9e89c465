"""Projection of vectors onto their first two principal components."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.types.arrays import FloatArray


class Projection(NamedTuple):
    """2-D coordinates and the share of the variance that each of the two axes explains."""

    coordinates: FloatArray  # (N, 2)
    variance_ratios: tuple[float, float]

    @property
    def explained_variance(self) -> float:
        """Share of the variance that both axes explain together."""
        return sum(self.variance_ratios)


def project_pca(vectors: NDArray[np.floating]) -> Projection:
    """Project (N, D) vectors onto their first two principal components.

    The sign of each axis is chosen so that its largest coordinate is positive.
    """
    centred = vectors.astype(np.float64) - vectors.mean(0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = np.zeros((len(vectors), 2))
    kept = min(2, len(singular))
    coordinates[:, :kept] = left[:, :kept] * singular[:kept]
    strongest = np.abs(coordinates).argmax(0)
    coordinates *= np.where(coordinates[strongest, [0, 1]] < 0, -1, 1)
    total = float((singular**2).sum())
    if not total:  # all vectors are equal
        return Projection(coordinates, (1.0, 0.0))
    first, second = (*(singular[:2] ** 2 / total).tolist(), 0.0)[:2]
    return Projection(coordinates, (first, second))
