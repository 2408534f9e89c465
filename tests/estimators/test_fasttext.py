"""fastText's n-grams, spelt out; and vectors for words that were never seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.estimators.word_vectors.config import FastTextConfig
from saccade.estimators.word_vectors.fasttext import bag_means, subword_bags


def hashed(gram: str) -> int:
    """FNV-1a over bytes, each as a signed number, as fastText's dictionary has it."""
    fnv = 2166136261
    for byte in gram.encode():
        signed = byte - 256 if byte > 127 else byte
        fnv = ((fnv ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return fnv


def grams_of(word: str, min_n: int, max_n: int) -> list[str]:
    """n-grams of letters of "<word>"; a mark by itself is none."""
    marked = f"<{word}>"
    found = []
    for first in range(len(marked)):
        for length in range(min_n, max_n + 1):
            gram = marked[first : first + length]
            at_an_end = first == 0 or first + length == len(marked)
            if len(gram) == length and not (length == 1 and at_an_end):
                found.append(gram)
    return found


def test_fasttext_equals_paper_example() -> None:
    assert grams_of("where", 3, 3) == ["<wh", "whe", "her", "ere", "re>"]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=8),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_a_bag_is_the_word_and_its_grams(words: list[str], min_n: int, more: int) -> None:
    (starts, rows), grams = subword_bags(words, min_n, min_n + more, 1000)
    for number, word in enumerate(words):
        bag = rows[starts[number] : starts[number + 1]].tolist()
        expected_value = [hashed(gram) % 1000 for gram in grams_of(word, min_n, min_n + more)]
        assert bag[0] == number
        assert [int(grams.used[row - len(words)]) for row in bag[1:]] == expected_value
        assert grams.rows(word, len(words)).tolist() == bag[1:]


def test_fasttext_unknown_word_is_mean_of_known_ngrams() -> None:
    words = ["where", "there", "sun"]
    _, grams = subword_bags(words, 3, 3, 2_000_000)
    used = [int(bucket) for bucket in grams.used]
    expected_value = [
        3 + used.index(bucket)
        for gram in grams_of("wherever", 3, 3)
        if (bucket := hashed(gram) % 2_000_000) in used
    ]
    assert grams.rows("wherever", 3).tolist() == expected_value
    assert len(expected_value) == 4  # <wh whe her ere
    assert grams.rows("ox", 3).tolist() == []


def test_a_words_vector_is_the_mean_of_its_bag() -> None:
    bag, grams = subword_bags(["ab", "abc"], 2, 3, 50)
    rows = np.random.default_rng(1).random((2 + len(grams.used), 4)).astype(np.float32)
    for word, found in enumerate(bag_means(rows, bag)):
        own = bag[1][bag[0][word] : bag[0][word + 1]]
        assert np.allclose(found, rows[own].mean(0), atol=1e-6)


def test_fasttext_refuses_min_n_above_max_n() -> None:
    with pytest.raises(ValueError, match="expected min_n ≤ max_n"):
        FastTextConfig(min_n=4, max_n=3)
