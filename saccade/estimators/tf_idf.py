r"""Similarity of texts without learning: cosine of TF-IDF vectors of the characters of their words.

    weight of an n-gram w in a text = (1 + log tf) · (log (N + 1) / (n_w + 1) + 1)

The n-grams are those of each word with a space on both sides, lower-cased; tf is the count in the
text, n_w the number of the N texts with w. It equals scikit-learn's
`TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), sublinear_tf=True)`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from saccade.types.arrays import FloatArray, IntArray

NGRAM_CHARS = 3

NGramWeights = dict[str, float]


class CharacterTfIdf:
    """NGramWeights of n-grams of characters by their frequency in some texts."""

    def __init__(self, texts: Iterable[str]):
        counts: Counter[str] = Counter()
        total = 0
        for total, text in enumerate(texts, 1):  # noqa: B007
            counts.update({*_ngrams(text)})
        self.idf = {w: math.log((total + 1) / (count + 1)) + 1 for w, count in counts.items()}

    def weights(self, text: str) -> NGramWeights:
        """Return the weights of the n-grams of a text that are known, of length 1."""
        found = {
            w: (1 + math.log(count)) * self.idf[w]
            for w, count in Counter(_ngrams(text)).items()
            if w in self.idf
        }
        norm = math.sqrt(sum(value * value for value in found.values()))
        return {w: value / norm for w, value in found.items()} if norm else {}

    def similarities(self, one: Sequence[str], other: Sequence[str]) -> FloatArray:
        """Return the cosine of each pair."""
        pairs = zip(map(self.weights, one), map(self.weights, other), strict=True)
        return np.array([sum(v * b.get(w, 0.0) for w, v in a.items()) for a, b in pairs])

    def nearest(self, queries: Sequence[str], rows: Sequence[str]) -> tuple[IntArray, FloatArray]:
        """Return the row of largest cosine to each query, and the cosines with all rows' best."""
        postings: dict[str, list[tuple[int, float]]] = {}
        for number, row in enumerate(rows):
            for w, value in self.weights(row).items():
                postings.setdefault(w, []).append((number, value))
        arrays = {
            w: tuple(map(np.array, zip(*found, strict=True))) for w, found in postings.items()
        }
        best, cosines = np.zeros(len(queries), np.int64), np.zeros(len(queries))
        for at, query in enumerate(queries):
            scores = np.zeros(len(rows))
            for w, value in self.weights(query).items():
                if w in arrays:
                    numbers, values = arrays[w]
                    scores[numbers] += value * values
            best[at] = scores.argmax()
            cosines[at] = scores[best[at]]
        return best, cosines


def _ngrams(text: str) -> list[str]:
    """Return the n-grams of each word with spaces around it."""
    found = []
    for word in text.lower().split():
        padded = f" {word} "
        last = max(1, len(padded) - NGRAM_CHARS + 1)
        found += [padded[at : at + NGRAM_CHARS] for at in range(last)]
    return found
