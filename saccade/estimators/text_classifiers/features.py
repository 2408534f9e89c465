r"""Bags of n-grams as sparse rows, weighted by frequency and by class.

Feature f of a text is 1 if the n-gram occurs in it, times a weight,

    s_f = idf_f · √r_f,    idf_f = log((1 + N) / (1 + N_f)) + 1,
    r_f = max_k |log p(f | k) / p(f | not k)|

with N_f of N texts that have the n-gram, and p its smoothed share among the n-grams of the texts
with label k, or of all others: the log-count ratio of Wang and Manning 2012, by which n-grams that
occur in all classes alike count less. Then each text is scaled to the Euclidean norm 1, half of its
square from words and half from characters where there are both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saccade.data.hashing import HashArray
from saccade.data.text.ngram_hashes import MIN_CHARS, HashedNGrams, HashedText, join_texts
from saccade.estimators.text_classifiers.sparse import SparseRows
from saccade.types.arrays import Float32Array, Int32Array, IntArray
from saccade.types.bags import Bags

TEXTS_PER_CHUNK = 2048  # texts hashed at a time
MAX_UNMERGED_KEYS = 1 << 22  # keys that are counted before they are merged
SMOOTHING = 1.0  # added to each count of an n-gram with a label


def chunk_texts(texts: Sequence[str], size: int = TEXTS_PER_CHUNK) -> Iterator[Sequence[str]]:
    """Yield the texts in chunks."""
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """Sorted hashes; their order is the number of a feature.

    Hashes are uniform, so that a table by their first bits finds one in a step or two, where a
    binary search would take twenty.
    """

    keys: HashArray

    @property
    def bits(self) -> int:
        """First bits of a hash that the table has an entry for."""
        return max(1, len(self.keys).bit_length())

    @cached_property
    def table(self) -> Int32Array:
        """The number of keys before those with each first bits."""
        first_bits = (self.keys >> np.uint64(64 - self.bits)).astype(np.int64)
        counts = np.bincount(first_bits, minlength=1 << self.bits)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)

    def find(self, keys: HashArray) -> Int32Array:
        """Return the number of each key, −1 if there is none."""
        found = np.full(len(keys), -1, np.int32)
        first_bits = (keys >> np.uint64(64 - self.bits)).astype(np.int64)
        positions, ends = self.table[first_bits], self.table[first_bits + 1]
        left = np.flatnonzero(positions < ends)
        while len(left):
            candidates = positions[left]
            is_found = self.keys[candidates] == keys[left]
            found[left[is_found]] = candidates[is_found]
            left = left[~is_found]
            positions[left] += 1
            left = left[positions[left] < ends[left]]
        return found


@dataclass(frozen=True, eq=False)
class NGramVocabulary:
    """The n-grams that have a feature: those of words first, then those of characters."""

    words: KeyIndex
    chars: KeyIndex
    word_ngrams: int
    char_ngrams: int
    split: str = "words"

    def __len__(self) -> int:
        return len(self.words.keys) + len(self.chars.keys)

    def occurrences(self, joined: str) -> Iterator[tuple[HashedNGrams, Int32Array]]:
        """Yield the n-grams of a joined text and the feature of each, −1 if it has none."""
        hashed = HashedText(joined)
        for n in range(1, self.word_ngrams + 1):
            found = hashed.word_ngrams(n)
            yield found, self.words.find(found.keys)
        offset = np.int32(len(self.words.keys))
        for n in range(MIN_CHARS, self.char_ngrams + 1):
            found = hashed.char_ngrams(n)
            features = self.chars.find(found.keys)
            yield found, np.where(features >= 0, features + offset, features)

    def rows(self, texts: Sequence[str]) -> SparseRows:
        """Return which features each text has, as ones."""
        parts = [self._rows(chunk) for chunk in chunk_texts(texts)]
        lengths = np.concatenate([np.zeros(1, np.int64), *(part[0] for part in parts)])
        columns = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in parts)])
        ones = np.ones(len(columns), np.float32)
        return SparseRows(np.cumsum(lengths), columns, ones, len(self))

    def _rows(self, texts: Sequence[str]) -> tuple[IntArray, Int32Array]:
        """Return the number of features of each text, and their columns."""
        size = max(len(self), 1)
        pairs = [np.empty(0, np.int64)]
        for ngrams, features in self.occurrences(join_texts(texts, self.split)):
            is_known = features >= 0
            pairs.append(ngrams.owners[is_known] * size + features[is_known])
        merged = unique_sorted(np.sort(np.concatenate(pairs)))
        owners = merged // size
        return np.bincount(owners, minlength=len(texts)), (merged - owners * size).astype(np.int32)


def unique_sorted(values: IntArray) -> IntArray:
    """Return the different values of a sorted array."""
    return values[np.flatnonzero(np.diff(values, prepend=-1))]


def build_vocabulary(
    texts: Sequence[str],
    *,
    word_ngrams: int,
    char_ngrams: int = 0,
    min_count: int = 2,
    max_features: int = 1_000_000,
    split: str = "words",
) -> NGramVocabulary:
    """Return the n-grams that occur at least `min_count` times, and all single words."""
    words, chars = _KeyCounter(), _KeyCounter()
    for chunk in chunk_texts(texts):
        hashed = HashedText(join_texts(chunk, split))
        for n in range(1, word_ngrams + 1):
            words.add(hashed.word_ngrams(n).keys, factor=min_count if n == 1 else 1)
        for n in range(MIN_CHARS, char_ngrams + 1):
            chars.add(hashed.char_ngrams(n).keys)
    half = max_features // 2 if char_ngrams else max_features
    return NGramVocabulary(
        KeyIndex(words.frequent(min_count, half)),
        KeyIndex(chars.frequent(min_count, half)),
        word_ngrams,
        char_ngrams,
        split,
    )


class _KeyCounter:
    """Counts of hashes; memory grows with the number of different ones."""

    def __init__(self) -> None:
        self.parts: list[tuple[HashArray, IntArray]] = []
        self.size = 0

    def add(self, keys: HashArray, factor: int = 1) -> None:
        """Count some keys, each `factor` times."""
        ordered = np.sort(keys)
        firsts = _first_of_equal(ordered)
        counts = np.diff(firsts, append=len(ordered)) * factor
        self.parts.append((ordered[firsts], counts))
        self.size += len(firsts)
        if self.size > MAX_UNMERGED_KEYS:
            self._merge()

    def _merge(self) -> None:
        if len(self.parts) > 1:
            keys, counts = (np.concatenate(side) for side in zip(*self.parts, strict=True))
            order = np.argsort(keys, kind="stable")
            keys, counts = keys[order], counts[order]
            firsts = _first_of_equal(keys)
            summed = np.add.reduceat(counts, firsts) if len(keys) else counts
            self.parts = [(keys[firsts], summed)]
        self.size = 0

    def frequent(self, min_count: int, limit: int) -> HashArray:
        """Return the sorted keys with enough counts, of those the `limit` most frequent."""
        self._merge()
        if not self.parts:
            return np.empty(0, np.uint64)
        [(keys, counts)] = self.parts
        is_frequent = counts >= min_count
        keys, counts = keys[is_frequent], counts[is_frequent]
        if len(keys) > limit:
            chosen = np.sort(np.argsort(-counts, kind="stable")[:limit])
            keys = keys[chosen]
        return keys


def _first_of_equal(ordered: HashArray) -> IntArray:
    """Return the index of the first of each run of equal keys."""
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(is_first)


def term_weights(rows: SparseRows, labels: Bags, num_labels: int) -> Float32Array:
    """Return the weight s_f of each feature, from the training texts and their labels."""
    texts_with = np.bincount(rows.columns, minlength=rows.num_columns).astype(np.float64)
    idf = np.log((1 + rows.num_rows) / (1 + texts_with)) + 1
    by_label = np.argsort(labels.rows, kind="stable")
    owners = labels.owners[by_label]
    starts = np.searchsorted(labels.rows[by_label], np.arange(num_labels + 1))
    ratio = np.zeros(rows.num_columns)
    for label in range(num_labels):
        own = rows.take(owners[starts[label] : starts[label + 1]]).columns
        counts = np.bincount(own, minlength=rows.num_columns)
        inside, outside = counts + SMOOTHING, texts_with - counts + SMOOTHING
        log_ratio = np.log(inside / inside.sum()) - np.log(outside / outside.sum())
        np.maximum(ratio, np.abs(log_ratio), out=ratio)
    return (idf * np.sqrt(ratio)).astype(np.float32)


def weigh(rows: SparseRows, weights: Float32Array, num_words: int) -> SparseRows:
    """Return weighted rows of norm 1, the words and the characters of a text with equal norms.

    The columns from `num_words` on are n-grams of characters.
    """
    is_char = rows.columns >= num_words
    blocks = 1 if num_words == rows.num_columns else 2
    values = rows.values * weights[rows.columns]
    owners = np.repeat(np.arange(rows.num_rows), np.diff(rows.starts)) * 2 + is_char
    squares = np.bincount(owners, weights=np.square(values), minlength=2 * rows.num_rows)
    norms = np.sqrt(blocks * np.where(squares > 0, squares, 1.0)).astype(np.float32)
    return SparseRows(rows.starts, rows.columns, values / norms[owners], rows.num_columns)
