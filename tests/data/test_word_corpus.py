from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.text.word_corpus import (
    LINE_END,
    WordCorpus,
    WordIndex,
    pretokenize,
    read_word_corpus,
)
from saccade.errors import DataError


def slow(text: str, min_count: int) -> tuple[dict[str, int], list[list[str]]]:
    """Words by their counts, and the lines without rare ones, as Python has them."""
    lines = [line.split() for line in text.encode().decode().split("\n")]
    counts = Counter(word for line in lines for word in line)
    frequent = {word: count for word, count in counts.items() if count >= min_count}
    return frequent, [[word for word in line if word in frequent] for line in lines]


def lines_of(sentences: WordCorpus) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    for number in sentences.ids.tolist():
        if number == LINE_END:
            lines.append([])
        else:
            lines[-1].append(sentences.words[number])
    return lines


WORDS = st.text("abé语😀", min_size=1, max_size=3)
TEXTS = st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=8).map("\n".join)


@given(TEXTS, st.integers(1, 3), st.booleans())
def test_read_word_corpus_equals_python_counts(text: str, min_count: int, in_a_file: bool) -> None:
    counts, lines = slow(text, min_count)
    contents = [(line + "\n").encode() for line in text.split("\n")]
    if len(counts) < 2:
        with pytest.raises(DataError):
            read_word_corpus(contents, min_count=min_count, split="whitespace")
        return
    sentences = read_word_corpus(contents, min_count=min_count, split="whitespace")
    assert dict(zip(sentences.words, sentences.counts.tolist(), strict=True)) == counts
    assert sentences.counts.tolist() == sorted(counts.values(), reverse=True)
    assert lines_of(sentences) == [*lines, []]
    assert sentences.read == len(text.split())


@given(TEXTS, st.lists(WORDS, unique=True, max_size=6))
def test_word_index_finds_known_words_only(text: str, words: list[str]) -> None:
    contents = [(line + "\n").encode() for line in text.split("\n")]
    numbering = WordIndex(words)
    expected = [
        [*(words.index(word) for word in line.split() if word in words), LINE_END]
        for line in text.split("\n")
    ]
    for _ in range(2):  # a look-up changes no state
        assert numbering.ids(contents, "whitespace").tolist() == sum(expected, [])


def test_word_index_splits_like_the_corpus() -> None:
    content = "a\u00a0b a\x1cb\u2003c, a\n".encode()  # Unicode spaces are part of a word
    read = read_word_corpus([content], min_count=1, split="whitespace")
    assert np.array_equal(WordIndex(read.words).ids([content], "whitespace"), read.ids)
    assert np.array_equal(WordIndex(["a", "b"]).ids([b"B, a!\n\n"]), [1, 0, LINE_END, LINE_END])


def test_read_word_corpus_grows_its_tables(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(100_000)]
    content = (" ".join(words) + "\n").encode() + b"x" * 1_000_000 + b" w7 w7\n"
    sentences = read_word_corpus(
        [content], min_count=1, split="whitespace", ids_path=tmp_path / "text.ids"
    )
    assert len(sentences.words) == 100_001
    assert sentences.words[0] == "w7" and sentences.counts[0] == 3
    assert "x" * 1_000_000 in sentences.words
    assert lines_of(sentences)[0] == words
    assert [path.name for path in tmp_path.iterdir()] == ["text.ids"]
    assert isinstance(sentences.ids, np.memmap)


def test_read_word_corpus_splits_plain_text() -> None:
    assert (
        pretokenize("The CAT sat.\n\nÉcole, 3.14!\n".encode()).decode()
        == "the cat sat .\n\nécole , 3.14 !\n"
    )


def test_read_word_corpus_treats_white_space_alike() -> None:
    sentences = read_word_corpus(
        [b"a\tb\r\n  a   b \r\n\x0b\x0ca\n"], min_count=1, split="whitespace"
    )
    assert lines_of(sentences) == [["a", "b"], ["a", "b"], ["a"], []]


@pytest.mark.parametrize(
    ("text", "min_count", "message"),
    [
        ("", 1, "0 words, 0 different"),
        ("same same same\n", 1, "3 words, 1 different"),
        (
            "a b c a\n",
            5,
            "fewer than 2 occur 5 times or more .the most frequent 2 times",
        ),
    ],
)
def test_read_word_corpus_reports_a_small_vocabulary(
    text: str, min_count: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_word_corpus([text.encode()], min_count=min_count, split="whitespace")
