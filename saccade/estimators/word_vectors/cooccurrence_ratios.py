r"""Ratios of co-occurrence probabilities, from which GloVe is derived (Pennington et al. 2014).

P(k | i) = X_ik / Σ_j X_ij. For two words i and j and a probe k, the ratio P(k | i) / P(k | j) is
large if k belongs to i alone, small if it belongs to j alone, and near 1 if it belongs to both or
neither.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from saccade.data.text.word_corpus import WordCorpus
from saccade.estimators.word_vectors.glove import count_cooccurrences
from saccade.registry import did_you_mean
from saccade.types.arrays import FloatArray


class CooccurrenceRatios(NamedTuple):
    """P(k | i) of two words and several probes, and their ratio; NaN: neither was seen."""

    words: tuple[str, str]
    probes: list[str]
    probabilities: FloatArray  # (2, probes)
    ratios: FloatArray  # (probes,)


def cooccurrence_ratios(
    corpus: WordCorpus, words: tuple[str, str], probes: Sequence[str], window: int
) -> CooccurrenceRatios:
    """Count co-occurrences as GloVe does, a pair at distance d as 1/d, and return the ratios."""
    ids = {word: number for number, word in enumerate(corpus.words)}
    for word in (*words, *probes):
        if word not in ids:
            raise ValueError(
                f"got {word!r}, which is not among the {len(ids):,} words of the text."
                f"{did_you_mean(word, ids)}"
            )
    pairs = count_cooccurrences(corpus, window)
    rows = np.zeros((2, len(ids)))
    for row, word in enumerate(words):
        for one, other in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
            of = np.asarray(one) == ids[word]
            if one is pairs.second:  # the lower triangle: the diagonal is in both
                of &= np.asarray(pairs.first) != np.asarray(pairs.second)
            np.add.at(rows[row], np.asarray(other)[of], np.asarray(pairs.weight)[of])
    totals = rows.sum(axis=1, keepdims=True)
    found = (rows / np.where(totals > 0, totals, 1.0))[:, [ids[probe] for probe in probes]]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = found[0] / found[1]
    return CooccurrenceRatios(words, list(probes), found, ratios)
