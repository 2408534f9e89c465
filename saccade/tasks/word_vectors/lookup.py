"""Unit vectors of words, known and unknown."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from saccade.data.text.word_corpus import WordVocabulary
from saccade.data.word_splitting import is_unspaced, split_words
from saccade.errors import DataError
from saccade.estimators.word_vectors.neighbors import normalize_rows
from saccade.registry import did_you_mean
from saccade.tasks.word_vectors.config import WORD_MODELS, VectorsRecipe
from saccade.tasks.word_vectors.models import WordModel
from saccade.types.arrays import Float32Array


class WordVectorModel:
    """A word vector model over a vocabulary, with unit vectors for look-up."""

    def __init__(self, recipe: VectorsRecipe, vocabulary: WordVocabulary):
        self.vocabulary, self.min_count = vocabulary, recipe.data.min_count
        self.ids = {word: number for number, word in enumerate(vocabulary.words)}
        config = recipe.model
        self.vectors: WordModel = WORD_MODELS[config.name](
            config, vocabulary.words, recipe.train.seed
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the arrays of the model."""
        return self.vectors.arrays()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the arrays of the model."""
        self.vectors.load(dict(state))
        self.__dict__.pop("unit_vectors", None)

    def word_vectors(self) -> Float32Array:
        """Return one row for each word."""
        return self.vectors.word_vectors()

    def vector(self, word: str) -> Float32Array:
        """Return the vector of a word, not scaled; raise if it has none."""
        self.find(word, word, 1)
        row = self.row(word)
        vector = self.vectors.oov_vector(word) if row is None else self.word_vectors()[row]
        assert vector is not None
        return vector

    @cached_property
    def unit_vectors(self) -> Float32Array:
        """Vectors of all words, scaled to length 1."""
        return normalize_rows(self.vectors.word_vectors())

    def row(self, word: str) -> int | None:
        """Return the id of a word, as it is spelt or in lower case."""
        return self.ids.get(word, self.ids.get(word.lower()))

    def unit_vector(self, word: str) -> Float32Array | None:
        """Return the unit vector of a word; of an unknown one if the model can build it."""
        row = self.row(word)
        if row is not None:
            return self.unit_vectors[row]
        vector = self.vectors.oov_vector(word)
        return None if vector is None else normalize_rows(vector[None])[0]

    def find(self, word: str, text: str, number: int) -> tuple[Float32Array, int | None]:
        """Return the unit vector and the id of a word of input `number`; raise if unknown."""
        vector = self.unit_vector(word)
        if vector is None:
            raise DataError(
                f"input {number}, {text!r}: got {word!r}, which has no vector; expected one of "
                f"the {len(self.ids):,} words that occur {self.min_count} times or more in the "
                f"text.{self._hint(word)}"
            )
        return vector, self.row(word)

    def _hint(self, word: str) -> str:
        """Return what to try for an unknown word: its known characters, or a similar word."""
        characters = split_words(word)
        if is_unspaced(word) and len(characters) > 1 and set(characters) <= self.ids.keys():
            return f" Each character is a token here; try {' + '.join(characters)!r}."
        return did_you_mean(word, self.ids)

    def unit_vectors_of(self, words: Sequence[str]) -> Float32Array:
        """Return the unit vectors of some words."""
        found = [self.find(word, word, number)[0] for number, word in enumerate(words, 1)]
        return np.array(found, np.float32)

    def similarities(self, words: Sequence[str]) -> Float32Array:
        """Return the cosine of each two of some words."""
        rows = self.unit_vectors_of(words)
        cosines: Float32Array = rows @ rows.T
        return cosines
