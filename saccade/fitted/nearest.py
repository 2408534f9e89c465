r"""Words near each other: cosine similarity, and analogies by vector arithmetic.

"king - man + woman" (Mikolov et al. 2013): of all words but those named, the one whose direction is
nearest to \(\hat v_{king} - \hat v_{man} + \hat v_{woman}\), each \(\hat v\) of length 1 (3CosAdd).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import DataError

Floats = NDArray[np.float32]

AT_ONCE = 256  # questions; their similarities to all words are a table


class Term(NamedTuple):
    """A word, and whether it is added (1) or taken away (−1)."""

    word: str
    sign: int


def directions(vectors: Floats) -> Floats:
    """Each row with length 1; one without a length stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return found


def terms(text: str) -> list[Term]:
    """ "king - man + woman" → +king −man +woman; signs stand between spaces.

    A word may have a hyphen, and may be + or - itself if it is the only one.
    """
    words = text.split()
    if not words:
        raise DataError("got nothing; a word was wanted, or an analogy (king - man + woman).")
    found: list[Term] = []
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
            found.append(Term(word, sign))
            sign = None
    if sign is not None:
        raise DataError(f"got {text!r}; after the last sign a word was wanted.")
    return found


def nearest(
    wanted: Floats, directed: Floats, count: int, without: list[list[int]]
) -> tuple[NDArray[np.int64], Floats]:
    """For each wanted direction the nearest words, best first, and their cosines.

    `without` are rows that are not an answer, for each of the wanted.
    """
    rows = np.empty((len(wanted), min(count, len(directed))), np.int64)
    cosines = np.empty(rows.shape, np.float32)
    for first in range(0, len(wanted), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        similar = directions(wanted[some]) @ directed.T
        for row, left_out in zip(similar, without[some], strict=True):
            row[left_out] = -np.inf
        best = np.argpartition(-similar, rows.shape[1] - 1, axis=1)[:, : rows.shape[1]]
        values = np.take_along_axis(similar, best, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        rows[some] = np.take_along_axis(best, order, 1)
        cosines[some] = np.take_along_axis(values, order, 1)
    return rows, cosines
