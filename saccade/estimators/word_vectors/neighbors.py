r"""Nearest neighbors by cosine similarity, and analogies by vector arithmetic (3CosAdd).

"king - man + woman" (Mikolov et al. 2013): the word with the largest cosine to
\(\hat v_{king} - \hat v_{man} + \hat v_{woman}\), each \(\hat v\) of length 1, the query's words
excluded.
"""

from typing import NamedTuple

import numpy as np

from saccade.errors import DataError
from saccade.types.arrays import Float32Array, IntArray

NEIGHBOR_QUERY_CHUNK = 256  # queries per matrix of similarities to all words


class AnalogyTerm(NamedTuple):
    """A word of an analogy and its sign, 1 or −1."""

    word: str
    sign: int


def normalize_rows(vectors: Float32Array) -> Float32Array:
    """Scale each row to L2 norm 1; rows of zeros stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    normalized: Float32Array = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)
    return normalized


def parse_analogy(text: str) -> list[AnalogyTerm]:
    """Parse "king - man + woman" into +king −man +woman; signs must have spaces around them.

    A word may contain a hyphen, and may be + or - itself if it is the only one.
    """
    words = text.split()
    if not words:
        raise DataError("got an empty text; expected a word or an analogy (king - man + woman).")
    terms: list[AnalogyTerm] = []
    sign: int | None = 1
    for word in words:
        if sign is None and word in "+-−":
            sign = 1 if word == "+" else -1
        elif sign is None:
            raise DataError(
                f"got {text!r} without a sign before {word!r}; expected words with + or - between "
                "them (king - man + woman)."
            )
        else:
            terms.append(AnalogyTerm(word, sign))
            sign = None
    if sign is not None:
        raise DataError(f"got {text!r}; expected a word after the last sign.")
    return terms


def nearest_neighbors(
    queries: Float32Array, unit_vectors: Float32Array, count: int, exclude: list[list[int]]
) -> tuple[IntArray, Float32Array]:
    """Return the nearest rows to each query, best first, and their cosines.

    `exclude` lists, for each query, the rows that may not be returned.
    """
    rows = np.empty((len(queries), min(count, len(unit_vectors))), np.int64)
    cosines = np.empty(rows.shape, np.float32)
    for first in range(0, len(queries), NEIGHBOR_QUERY_CHUNK):
        chunk = slice(first, first + NEIGHBOR_QUERY_CHUNK)
        similarities = normalize_rows(queries[chunk]) @ unit_vectors.T
        for row, excluded in zip(similarities, exclude[chunk], strict=True):
            row[excluded] = -np.inf
        best = np.argpartition(-similarities, rows.shape[1] - 1, axis=1)[:, : rows.shape[1]]
        values = np.take_along_axis(similarities, best, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        rows[chunk] = np.take_along_axis(best, order, 1)
        cosines[chunk] = np.take_along_axis(values, order, 1)
    return rows, cosines
