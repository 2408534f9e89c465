"""Word vectors of a file as the start of a tagger."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.errors import ConfigError
from saccade.interop.word_vectors import read_text_vectors
from saccade.types.arrays import Float32Array


class StaticVectors(NamedTuple):
    """Lower-cased words and the vector of each."""

    words: list[str]
    rows: Float32Array


def read_static_vectors(path: str) -> StaticVectors:
    """Read the vectors of a text file; of words that differ in case, the first (most frequent)."""
    table = read_text_vectors(Path(path))
    first: dict[str, int] = {}
    for row, word in enumerate(table.words):
        first.setdefault(word.lower(), row)
    return StaticVectors(list(first), table.rows[np.fromiter(first.values(), np.int64)])


def add_vector_words(words: list[str], vectors: StaticVectors, path: str) -> list[str]:
    """Return the words of the training data and then those that only have a vector."""
    known = set(words)
    if known.isdisjoint(vectors.words):
        raise ConfigError(
            f"{path}: got vectors of {len(vectors.words):,} words, none of which is in the "
            "training data; expected vectors of its language; try another model.vectors."
        )
    return words + [word for word in vectors.words if word not in known]
