"""n-gram hashes: every substring against its definition, scikit-learn's n-grams, any script."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from saccade.data.text import ngram_hashes
from saccade.data.text.ngram_hashes import MIN_CHARS, HashedText, join_texts
from saccade.data.word_splitting import split_words

TEXTS = [
    "The cat sat, the CAT ran!",
    "",
    "  a ",
    "这家店好吃",
    "ÉTÉ şişe don't 3.14",
    "😀👍🏽 x\ty\nz",
]
MASK = (1 << 64) - 1


def definition(text: str, salt: int) -> int:
    """Return the hash of one n-gram with Python's integers."""

    def mix(value: int) -> int:
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return value ^ (value >> 31)

    powers = [pow(ngram_hashes._BASE, position, 1 << 64) for position in range(len(text))]
    total = sum(mix(ord(letter)) * power for letter, power in zip(text, powers, strict=True))
    return mix((total & MASK) ^ salt)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4), st.integers(1, 4))
def test_hashes_are_those_of_the_definition(texts: list[str], n: int) -> None:
    joined = join_texts(texts)
    hashed = HashedText(joined)
    for found, salt in (
        (hashed.word_ngrams(n), ngram_hashes._WORD_SALT),
        (hashed.char_ngrams(n + 1), ngram_hashes._CHAR_SALT),
    ):
        for owner, key, start, end in zip(*found, strict=True):
            assert int(key) == definition(joined[start:end], int(salt))
            assert "\n" not in joined[start:end]
            assert joined[:start].count("\n") == owner


@pytest.mark.parametrize("n", [1, 2, 3])
def test_word_ngrams_are_those_of_scikit_learn(n: int) -> None:
    counter = CountVectorizer(
        tokenizer=split_words, token_pattern=None, lowercase=True, ngram_range=(n, n)
    )
    texts = TEXTS * 2
    table = counter.fit_transform(texts)
    names = counter.get_feature_names_out()
    joined = join_texts(texts)
    found = HashedText(joined).word_ngrams(n)
    ours: dict[tuple[int, str], int] = {}
    for owner, start, end in zip(found.owners.tolist(), found.starts, found.ends, strict=True):
        name = joined[start:end]
        ours[owner, name] = ours.get((owner, name), 0) + 1
    theirs = {
        (int(r), str(names[c])): int(table[r, c]) for r, c in zip(*table.nonzero(), strict=True)
    }
    assert ours == theirs
    assert len(set(found.keys.tolist())) == len({name for _, name in ours})


@pytest.mark.parametrize("n", [MIN_CHARS, 3, 4])
def test_char_ngrams_are_those_of_scikit_learn_in_long_words(n: int) -> None:
    texts = ["alpha beta gamma alpha", "delta", "omega sigma"]  # words longer than n
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(n, n))
    table = counter.fit_transform(texts)
    joined = join_texts(texts)
    found = HashedText(joined).char_ngrams(n)
    ours = sorted(joined[start:end] for start, end in zip(found.starts, found.ends, strict=True))
    counts = np.asarray(table.sum(0))[0]
    names = counter.get_feature_names_out()
    theirs = sorted(name for name, count in zip(names, counts, strict=True) for _ in range(count))
    assert ours == theirs


def test_words_and_characters_of_equal_spelling_differ() -> None:
    hashed = HashedText(join_texts(["ab cabd"]))
    words, chars = hashed.word_ngrams(1), hashed.char_ngrams(2)
    assert not set(words.keys.tolist()) & set(chars.keys.tolist())


def test_characters_of_scripts_without_spaces_are_words() -> None:
    joined = join_texts(["这家店好吃"])
    found = HashedText(joined).word_ngrams(2)
    spans = zip(found.starts, found.ends, strict=True)
    assert [joined[a:b].replace(" ", "") for a, b in spans] == ["这家", "家店", "店好", "好吃"]
