r"""Benchmarks of word vectors: word similarity (Spearman's ρ) and analogies.

- **Similarity**: Spearman's rank correlation (ties share their mean rank) between human similarity
  ratings of word pairs and the cosines of their vectors. Pairs with a word outside the vocabulary
  are left out, and the coverage is reported.
- **Analogies**: a : b as c : ? is correct if the nearest word to b − a + c, other than these three,
  is the expected one. Questions with a word outside the vocabulary are left out, as word2vec's
  `compute-accuracy` does, and the coverage is reported. By category, and over all."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.errors import DataError


class SimilarityPair(NamedTuple):
    """Two words, and a human rating of their similarity."""

    one: str
    other: str
    score: float


class AnalogyQuestion(NamedTuple):
    """Four words: a is to b as c is to d; d is the expected answer."""

    category: str
    words: tuple[str, str, str, str]


class WordVectorBenchmark(NamedTuple):
    """A named benchmark of similarity pairs or of analogies."""

    name: str
    similarity_pairs: list[SimilarityPair]
    analogies: list[AnalogyQuestion]


def read_word_benchmark(path: Path, lines: Sequence[str]) -> WordVectorBenchmark:
    """Parse a benchmark: analogies if the first line has a colon or four words, else pairs."""
    first = next((line for line in lines if line.strip() and line[0] != "#"), "")
    words = first.split()
    is_analogy = len(words) == 4 and "," not in first and not any(map(_is_number, words))
    if first.startswith(":") or is_analogy:
        return WordVectorBenchmark(path.stem, [], read_analogies(path, lines))
    return WordVectorBenchmark(path.stem, read_similarity_pairs(path, lines), [])


def read_similarity_pairs(path: Path, lines: Iterable[str]) -> list[SimilarityPair]:
    """Parse pairs with a score: word, word, number, separated by tabs, commas or spaces.

    Comments (#) and a header are skipped. The score is the first number after the two words
    (SimLex-999 has the part of speech before it).
    """
    pairs: list[SimilarityPair] = []
    for number, line in enumerate(lines, 1):
        separator = next((s for s in "\t," if s in line), None)  # None: white space
        fields = [field.strip() for field in line.split(separator)] if line.strip() else []
        if not fields or line.startswith("#"):
            continue
        scores = [value for field in fields[2:] if (value := _number(field)) is not None]
        if not scores:
            if not pairs:  # a header
                continue
            raise DataError(
                f"{path}, line {number}: got {line.strip()!r}; expected two words and a number."
            )
        pairs.append(SimilarityPair(fields[0], fields[1], scores[0]))
    if not pairs:
        raise DataError(f"{path}: got no pairs; expected word, word and number in each line.")
    return pairs


def _is_number(field: str) -> bool:
    return _number(field) is not None


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def read_analogies(path: Path, lines: Iterable[str]) -> list[AnalogyQuestion]:
    """Parse analogies in word2vec's format: four words per line, ": category" before a group."""
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
                f"{path}, line {number}: got {len(fields)} words ({line.strip()!r}); expected four "
                "(Athens Greece Berlin Germany), or a colon and the name of a category."
            )
    return analogies
