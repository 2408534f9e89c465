"""Projection of vectors onto their first two principal components."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.types.arrays import FloatArray, IntArray


class Projection(NamedTuple):
    """2-D coordinates and the share of the variance that each of the two axes explains."""

    coordinates: FloatArray  # (N, 2)
    variance_ratios: tuple[float, float]

    @property
    def explained_variance(self) -> float:
        """Share of the variance that both axes explain together."""
        return sum(self.variance_ratios)


def spread_rows(coordinates: FloatArray, count: int) -> IntArray:
    """Return up to `count` points that are far from each other, the first from the mean.

    Each is the point whose distance to those chosen before is largest (Gonzalez 1985).
    """
    distances = np.linalg.norm(coordinates - coordinates.mean(0), axis=1)
    chosen: list[int] = []
    while len(chosen) < min(count, len(coordinates)) and (not chosen or distances.max() > 0):
        chosen.append(int(distances.argmax()))
        last = np.linalg.norm(coordinates - coordinates[chosen[-1]], axis=1)
        distances = last if len(chosen) == 1 else np.minimum(distances, last)
    return np.array(chosen, np.int64)


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
