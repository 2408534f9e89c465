"""Word map and checks of word vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from saccade.data.text.word_corpus import WordVocabulary
from saccade.data.word_splitting import is_unspaced
from saccade.errors import ConfigError
from saccade.estimators.word_vectors.config import FastTextConfig
from saccade.estimators.word_vectors.neighbors import nearest_neighbors
from saccade.inspection.attribution import Attribution
from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import Figure, WordMap, WordNeighbor
from saccade.tasks.base import Inspector
from saccade.tasks.word_vectors.config import VectorsRecipe
from saccade.tasks.word_vectors.data import WordSplit
from saccade.tasks.word_vectors.lookup import WordVectorModel

MAP_WORDS = 40  # frequent words of the map in the report
FIRST_MAP_RANK = 100  # the most frequent words are function words
MAP_NEIGHBORS = 3  # of each word that is asked for


class WordVectorInspector(Inspector[WordSplit]):
    """Shows words and their nearest neighbours on a map."""

    def __init__(self, recipe: VectorsRecipe, model: WordVectorModel, vocabulary: WordVocabulary):
        self.model, self.vocabulary = model, vocabulary
        if isinstance(recipe.model, FastTextConfig):
            self.attribution_methods = ("contributions",)

    def example_input(self, split: WordSplit) -> str:
        """Return a word of medium frequency."""
        words = self.vocabulary.words
        candidates = [word for word in words[FIRST_MAP_RANK:2000] if word.isalpha()]
        script = is_unspaced("".join(words))  # a word is a character then
        usual = [word for word in candidates if is_unspaced(word) or (len(word) > 3 and not script)]
        return (usual or candidates or [word for word in words if word.isalpha()] or words)[0]

    def views(self) -> dict[str, str]:
        """Return the map of words."""
        views = {"WORD …": "cosines, and a map with nearest neighbours"}
        if self.attribution_methods:
            views["WORD --method contributions"] = "the n-grams that made the nearest neighbour"
            views["WORD --answer OTHER"] = "the n-grams that made the cosine with another word"
        return views

    def attributions(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> Attribution:
        r"""Return the contribution of each n-gram of a word to the cosine with its neighbour.

        The vector of a word is the mean of the rows z_g of its n-grams and its own, so that
        cos(u, v) = Σ_g z_g · v / (G |u| |v|), exactly.
        """
        word = str(raw)
        vector, row = self.model.find(word, word, 1)
        if output is None:
            own = [[] if row is None else [row]]
            rows, _ = nearest_neighbors(vector[None], self.model.unit_vectors, 1, own)
            output = self.vocabulary.words[int(rows[0, 0])]
        other, _ = self.model.find(output, output, 2)
        found = self.model.vectors.word_parts(word, row)
        if found is None:
            raise ConfigError(f"got {word!r}, none of whose n-grams has a vector; try another.")
        names, vectors = found
        mean = vectors.astype(np.float64).mean(0)
        scores = vectors @ other.astype(np.float64) / (len(names) * np.linalg.norm(mean))
        return Attribution(
            parts=names,
            scores=scores,
            output=f"{word} ~ {output}",
            method="contributions",
            value=float(vector @ other),
            unit="cosine",
            baseline="no n-gram",
        )

    def word_map(self, words: Sequence[str], count: int = MAP_NEIGHBORS) -> WordMap:
        """Return words with their nearest neighbours in the vocabulary, `count` of each."""
        words = list(dict.fromkeys(words))
        vectors = self.model.unit_vectors_of(words)
        own = [[row] if (row := self.model.row(word)) is not None else [] for word in words]
        rows, cosines = nearest_neighbors(vectors, self.model.unit_vectors, count, own)
        neighbors = [
            WordNeighbor(self.vocabulary.words[row], word, float(cosine))
            for word, near, values in zip(words, rows.tolist(), cosines.tolist(), strict=True)
            for row, cosine in zip(near, values, strict=True)
        ]
        found = WordMap(words, vectors, neighbors)
        others = [self.model.ids[word] for word in found.all_words[len(words) :]]
        return replace(found, vectors=np.vstack([vectors, self.model.unit_vectors[others]]))

    def figures(self, splits: Mapping[str, WordSplit]) -> dict[str, Figure]:
        """Return a map of frequent words, each joined to the nearest of the others."""
        frequent = self.vocabulary.words[FIRST_MAP_RANK : 4 * FIRST_MAP_RANK]
        words = [word for word in frequent if word.isalpha()][:MAP_WORDS]
        if len(words) <= 2:
            return {}
        vectors = self.model.unit_vectors_of(words)
        rows, cosines = nearest_neighbors(vectors, vectors, 1, [[row] for row in range(len(words))])
        neighbors = [
            WordNeighbor(words[row], word, float(cosine))
            for word, (row,), (cosine,) in zip(words, rows, cosines, strict=True)
        ]
        return {"words.png": WordMap(words, vectors, neighbors)}

    def compare_reloaded(self, other: WordVectorModel, split: WordSplit, count: int) -> CheckResult:
        """Check that the reloaded vectors are the same."""
        difference = float(np.abs(self.model.unit_vectors - other.unit_vectors).max())
        return CheckResult("reload consistency", len(self.vocabulary.words), difference, 0.0)
