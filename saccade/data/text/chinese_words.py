"""Starts of Chinese words among tokens, for masking of whole words.

BERT's tokens of Chinese are characters. Runs of them are split into words by jieba, or by a list of
words: from left to right, the longest word of the list that matches (forward maximum matching), as
in the Chinese BERT with whole-word masking (Cui et al. 2019).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.word_splitting import SPAN_SPLITTERS
from saccade.errors import DataError
from saccade.io.text_files import read_lines
from saccade.types.arrays import BoolArray

JIEBA = "jieba"
FIRST_HAN, LAST_HAN = "㐀", "鿿"  # the common blocks of ideographs

SpanSplitter = Callable[[str], list[tuple[int, int]]]


def chinese_splitter(words: str) -> SpanSplitter:
    """Return a function from a run of characters to the spans of its words.

    Args:
        words: "jieba", or the path of a file with a word on each line.
    """
    if words == JIEBA:
        return SPAN_SPLITTERS[JIEBA]
    listed = frozenset(line.strip() for line in read_lines(words)) - {""}
    if not listed:
        raise DataError(f"{words}: got no words; expected one on each line.")
    longest = max(map(len, listed))
    return lambda text: longest_matches(text, listed, longest)


def longest_matches(text: str, words: frozenset[str], longest: int) -> list[tuple[int, int]]:
    """Return the spans of the longest words from left to right; others are single characters."""
    spans, at = [], 0
    while at < len(text):
        sizes = range(min(longest, len(text) - at), 1, -1)
        size = next((size for size in sizes if text[at : at + size] in words), 1)
        spans.append((at, at + size))
        at += size
    return spans


def join_chinese_words(
    ids: NDArray[Any], starts_word: BoolArray, tokens: Sequence[str], split: SpanSplitter
) -> BoolArray:
    """Return which tokens start a word, with the characters of a Chinese word joined.

    Args:
        ids: the tokens of a text.
        starts_word: which of them start a word, where each Chinese character does.
        tokens: by id.
        split: a run of Chinese characters → the spans of its words.
    """
    of_id = np.array([len(token) == 1 and FIRST_HAN <= token <= LAST_HAN for token in tokens])
    is_inside = np.concatenate([[False], of_id[ids], [False]])
    edges = np.flatnonzero(is_inside[1:] != is_inside[:-1]).reshape(-1, 2)
    found = starts_word.copy()
    for first, last in edges.tolist():
        run = "".join(tokens[id] for id in ids[first:last].tolist())
        found[first:last] = False
        found[[first + start for start, _ in split(run)]] = True
    return found
