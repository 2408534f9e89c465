r"""Word vectors judged: do they say what people say, and do they solve analogies?

- **Similarity**: Spearman's ρ, the correlation of ranks (ties share their mean rank), between
  people's judgments of pairs of words and the cosines of their vectors. A pair with a word that
  has no vector is left out, and the share of pairs that are not is given.
- **Analogies**: a : b as c : ? is right if the nearest word to b − a + c, those three left out, is
  the one asked for. Questions with a word outside the vocabulary are left out, as word2vec's own
  program does; how many there were is given. By category, and over all."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import DataError


class SimilarityPair(NamedTuple):
    """Two words, and how alike people find them."""

    one: str
    other: str
    score: float


class AnalogyQuestion(NamedTuple):
    """a is to b as c is to what?"""

    category: str
    words: tuple[str, str, str, str]


class WordVectorBenchmark(NamedTuple):
    """Judgments of pairs, or questions."""

    name: str
    similarity_pairs: list[SimilarityPair]
    analogies: list[AnalogyQuestion]


def read_word_benchmark(path: Path, lines: Sequence[str]) -> WordVectorBenchmark:
    """The lines of a file of either kind: a colon begins it, or four words, or pairs."""
    first = next((line for line in lines if line.strip() and line[0] != "#"), "")
    words = first.split()
    four = len(words) == 4 and "," not in first and not any(map(_is_number, words))
    if first.startswith(":") or four:
        return WordVectorBenchmark(path.stem, [], read_analogies(path, lines))
    return WordVectorBenchmark(path.stem, read_similarity_pairs(path, lines), [])


def spearman(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """The correlation of ranks; of fewer than two, or of all the same, NaN."""
    one, other = average_ranks(a), average_ranks(b)
    one, other = one - one.mean(), other - other.mean()
    scale = np.sqrt((one**2).sum() * (other**2).sum())
    return float((one * other).sum() / scale) if scale > 0 else float("nan")


def average_ranks(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """From 1 on; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return shared


def read_similarity_pairs(path: Path, lines: Iterable[str]) -> list[SimilarityPair]:
    """Pairs with a score: word, word, number, apart by tabs, commas or spaces.

    Lines that begin with # and a heading are left out; of further columns the first number counts
    (SimLex-999 has the part of speech before it).
    """
    pairs: list[SimilarityPair] = []
    for number, line in enumerate(lines, 1):
        mark = next((mark for mark in "\t," if mark in line), None)  # else spaces
        fields = [field.strip() for field in line.split(mark)] if line.strip() else []
        if not fields or line.startswith("#"):
            continue
        scores = [value for field in fields[2:] if (value := _number(field)) is not None]
        if not scores:
            if not pairs:  # a heading
                continue
            raise DataError(
                f"{path}, line {number}: got {line.strip()!r}; two words and a number were wanted."
            )
        pairs.append(SimilarityPair(fields[0], fields[1], scores[0]))
    if not pairs:
        raise DataError(f"{path} has no pairs: word, word and number were wanted in each line.")
    return pairs


def _is_number(field: str) -> bool:
    return _number(field) is not None


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def read_analogies(path: Path, lines: Iterable[str]) -> list[AnalogyQuestion]:
    """Analogies as word2vec has them: four words in each line, ": category" before some."""
    category, analogies = "", []
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or line.startswith("#"):
            continue
        if fields[0] == ":" or line.startswith(":"):
            category = line.lstrip(":").strip()
        elif len(fields) == 4:
            analogies.append(
                AnalogyQuestion(category, (fields[0], fields[1], fields[2], fields[3]))
            )
        else:
            raise DataError(
                f"{path}, line {number}: got {len(fields)} words ({line.strip()!r}); four were "
                "wanted (Athens Greece Berlin Germany), or a colon and the name of a category."
            )
    return analogies
