"""Ratios of co-occurrence probabilities, against counts by loops."""

import numpy as np
import pytest

from saccade.data.text.word_corpus import read_word_corpus
from saccade.estimators.word_vectors.cooccurrence_ratios import cooccurrence_ratios

LINES = [
    "solid ice water is cold ice",
    "gas steam water is hot",
    "ice solid and steam gas",
    "water ice ice fashion",
]


def test_ratios_are_those_of_weighted_counts() -> None:
    corpus = read_word_corpus([("\n".join(LINES) + "\n").encode()], min_count=1)
    probes = ["solid", "gas", "water", "hot"]
    found = cooccurrence_ratios(corpus, ("ice", "steam"), probes, window=3)
    counts: dict[str, dict[str, float]] = {"ice": {}, "steam": {}}
    for line in LINES:
        words = line.split()
        for at, word in enumerate(words):
            for other in range(max(0, at - 3), min(len(words), at + 4)):
                if other != at and word in counts:
                    row = counts[word]
                    row[words[other]] = row.get(words[other], 0.0) + 1 / abs(other - at)
    for index, probe in enumerate(probes):
        shares = [
            counts[word].get(probe, 0.0) / sum(counts[word].values()) for word in ("ice", "steam")
        ]
        np.testing.assert_allclose(found.probabilities[:, index], shares, rtol=1e-6)
    assert found.ratios[0] > 1 > found.ratios[1]
    assert found.ratios[3] == 0
    with pytest.raises(ValueError, match="got 'stean', which is not among .* 'steam'"):
        cooccurrence_ratios(corpus, ("ice", "stean"), probes, 3)
