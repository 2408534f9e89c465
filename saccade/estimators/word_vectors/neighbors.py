r"""Words near each other: cosine similarity, and analogies by vector arithmetic.

"king - man + woman" (Mikolov et al. 2013): of all words but those named, the one whose direction is
nearest to \(\hat v_{king} - \hat v_{man} + \hat v_{woman}\), each \(\hat v\) of length 1 (3CosAdd).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import DataError

Float32Array = NDArray[np.float32]

NEIGHBOR_QUERY_CHUNK = 256  # questions; their similarities to all words are a table


class AnalogyTerm(NamedTuple):
    """A word, and whether it is added (1) or taken away (−1)."""

    word: str
    sign: int


def normalize_rows(vectors: Float32Array) -> Float32Array:
    """Each row with length 1; one without a length stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Float32Array = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return found


def parse_analogy(text: str) -> list[AnalogyTerm]:
    """ "king - man + woman" → +king −man +woman; signs stand between spaces.

    A word may have a hyphen, and may be + or - itself if it is the only one.
    """
    words = text.split()
    if not words:
        raise DataError("got nothing; a word was wanted, or an analogy (king - man + woman).")
    found: list[AnalogyTerm] = []
    sign: int | None = 1
    for word in words:
        if sign is None and word in "+-−":
            sign = 1 if word == "+" else -1
        elif sign is None:
            raise DataError(
                f"got {text!r}; wanted words with + or - between them (king - man + woman). "
                f"Before {word!r} there is no sign."
            )
        else:
            found.append(AnalogyTerm(word, sign))
            sign = None
    if sign is not None:
        raise DataError(f"got {text!r}; after the last sign a word was wanted.")
    return found


def nearest_neighbors(
    queries: Float32Array, unit_vectors: Float32Array, count: int, exclude: list[list[int]]
) -> tuple[NDArray[np.int64], Float32Array]:
    """For each wanted direction the nearest words, best first, and their cosines.

    `without` are rows that are not an answer, for each of the wanted.
    """
    rows = np.empty((len(queries), min(count, len(unit_vectors))), np.int64)
    cosines = np.empty(rows.shape, np.float32)
    for first in range(0, len(queries), NEIGHBOR_QUERY_CHUNK):
        some = slice(first, first + NEIGHBOR_QUERY_CHUNK)
        similar = normalize_rows(queries[some]) @ unit_vectors.T
        for row, left_out in zip(similar, exclude[some], strict=True):
            row[left_out] = -np.inf
        best = np.argpartition(-similar, rows.shape[1] - 1, axis=1)[:, : rows.shape[1]]
        values = np.take_along_axis(similar, best, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        rows[some] = np.take_along_axis(best, order, 1)
        cosines[some] = np.take_along_axis(values, order, 1)
    return rows, cosines
