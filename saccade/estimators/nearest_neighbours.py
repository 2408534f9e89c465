r"""Classification by the nearest neighbours of a vector, weighted by their similarity."""

import numpy as np

from saccade.types.arrays import FloatArray, IntArray

NEIGHBOUR_BLOCK = 1024  # queries whose similarities are in memory at a time


def nearest_rows(queries: FloatArray, rows: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    """Return the `count` rows of largest cosine to each query, and the cosines, largest first.

    Of equal cosines, the first row is first.
    """
    count = min(count, len(rows))
    unit_rows = _unit(rows)
    found = np.zeros((len(queries), count), np.int64)
    cosines = np.zeros((len(queries), count))
    for start in range(0, len(queries), NEIGHBOUR_BLOCK):
        block = slice(start, start + NEIGHBOUR_BLOCK)
        similar = _unit(queries[block]) @ unit_rows.T
        order = np.argsort(-similar, axis=1, kind="stable")[:, :count]
        found[block], cosines[block] = order, np.take_along_axis(similar, order, 1)
    return found, cosines


def classify_by_neighbours(
    queries: FloatArray,
    rows: FloatArray,
    labels: IntArray,
    num_classes: int,
    *,
    count: int = 20,
    temperature: float = 0.07,
) -> IntArray:
    r"""Return the class of largest Σ_k exp(cos_k / τ) over the nearest rows (Wu et al. 2018)."""
    found, cosines = nearest_rows(queries, rows, count)
    weights = np.exp((cosines - cosines[:, :1]) / temperature)
    votes = np.zeros((len(queries), num_classes))
    for neighbour in range(found.shape[1]):
        np.add.at(
            votes, (np.arange(len(queries)), labels[found[:, neighbour]]), weights[:, neighbour]
        )
    return votes.argmax(1)


def _unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
