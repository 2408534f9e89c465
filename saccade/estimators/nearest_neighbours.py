r"""Exact nearest neighbours by cosine, and classification by their vote."""

import numpy as np

from saccade.types.arrays import Float32Array, FloatArray, IntArray

NEIGHBOUR_QUERIES = 1024  # queries, and rows, whose similarities are in memory at a time
NEIGHBOUR_ROWS = 8192

Vectors = FloatArray | Float32Array


def nearest_rows(queries: Vectors, rows: Vectors, count: int) -> tuple[IntArray, FloatArray]:
    """Return the `count` rows of largest cosine to each query, and the cosines, largest first.

    Of equal cosines, the first row is first. At most 1,024 × 8,192 similarities are in memory.
    """
    count = min(count, len(rows))
    found = np.zeros((len(queries), count), np.int64)
    cosines = np.full((len(queries), count), -np.inf)
    for start in range(0, len(rows), NEIGHBOUR_ROWS):
        unit_rows = unit_vectors(rows[start : start + NEIGHBOUR_ROWS])
        for first in range(0, len(queries), NEIGHBOUR_QUERIES):
            block = slice(first, first + NEIGHBOUR_QUERIES)
            similar = unit_vectors(queries[block]) @ unit_rows.T
            best = largest(similar, count)
            # those of earlier rows are first, so that a stable sort keeps them first
            values = np.hstack([cosines[block], np.take_along_axis(similar, best, 1)])
            numbers = np.hstack([found[block], best + start])
            order = np.argsort(-values, axis=1, kind="stable")[:, :count]
            found[block] = np.take_along_axis(numbers, order, 1)
            cosines[block] = np.take_along_axis(values, order, 1)
    return found, cosines


def largest(values: Vectors, count: int) -> IntArray:
    """Return the columns of the `count` largest values of each row, in ascending order.

    Of values that are equal to the smallest of them, the first ones are taken.
    """
    count = min(count, values.shape[1])
    if not count or count == values.shape[1]:
        return np.tile(np.arange(count), (len(values), 1))
    chosen = np.argpartition(-values, count - 1, axis=1)[:, :count]
    smallest = np.take_along_axis(values, chosen, 1).min(1, keepdims=True)
    tied = np.flatnonzero((values >= smallest).sum(1) > count)
    chosen[tied] = np.argsort(-values[tied], axis=1, kind="stable")[:, :count]
    return np.sort(chosen, axis=1)


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


def unit_vectors(vectors: Vectors) -> Vectors:
    """Return vectors of length 1; those of length 0 stay 0."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
