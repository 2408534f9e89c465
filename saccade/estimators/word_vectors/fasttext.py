r"""fastText subwords (Bojanowski et al. 2017): a word vector is the mean of its row and the rows
of its character n-grams, taken from the word with "<" and ">" around it.

"where" with n = 3: <wh whe her ere re>. The row of an n-gram is found by hashing it into one of
`buckets` buckets (32-bit FNV-1a, computed as fastText does, with bytes as signed numbers). A word
outside the vocabulary gets the mean of its n-grams' rows.

Difference from fastText: it stores a row for each of its two million buckets. Here only buckets
that are used by a word of the vocabulary have a row (about a twentieth of the memory on ordinary
text). An n-gram of a new word that falls into an unused bucket is ignored, where fastText adds a
randomly initialised, untrained row."""

from typing import NamedTuple

import numpy as np

from saccade.compiled.jit import jit_nogil
from saccade.types.arrays import ByteArray, Float32Array, Int32Array, IntArray

EOS_WORD = "</s>"  # a word of fastText's vocabulary that has no n-grams


class CharNgrams(NamedTuple):
    """Lengths of the character n-grams, and the sorted numbers of the buckets that have a row."""

    min_n: int
    max_n: int
    buckets: int
    used: IntArray

    def rows(self, word: str, words: int) -> Int32Array:
        """Return the rows of a word's n-grams; the first `words` rows are those of the words."""
        found = self.all_rows(word, words)
        return found[found >= 0]

    def all_rows(self, word: str, words: int) -> Int32Array:
        """Return the row of each of `character_ngrams`; -1 for those in an unused bucket."""
        hashed = _ngram_buckets(pack_words([word]), self.min_n, self.max_n, self.buckets)[1]
        positions = np.searchsorted(self.used, hashed)
        is_used = positions < len(self.used)
        is_used[is_used] = self.used[positions[is_used]] == hashed[is_used]
        return np.where(is_used, words + positions, -1).astype(np.int32)


def character_ngrams(word: str, min_n: int, max_n: int) -> list[str]:
    """Return the n-grams of a word in the order of `CharNgrams.rows` without unused buckets."""
    delimited = "" if word == EOS_WORD else f"<{word}>"
    return [
        gram
        for start in range(len(delimited))
        for end in range(start + 1, min(start + max_n, len(delimited)) + 1)
        if end - start >= min_n and not (end - start == 1 and (start == 0 or end == len(delimited)))
        for gram in [delimited[start:end]]
    ]


def bag_means(rows: Float32Array, bags: tuple[IntArray, Int32Array]) -> Float32Array:
    """Return the vector of each word: the mean of the rows of its bag."""
    starts, indices = bags
    sums = np.add.reduceat(rows[indices], starts[:-1], axis=0)
    means: Float32Array = (sums / np.diff(starts)[:, None]).astype(np.float32)
    return means


class PackedWords(NamedTuple):
    """UTF-8 bytes of a list of words, concatenated: word w is letters[ends[w] : ends[w + 1]]."""

    letters: ByteArray
    ends: IntArray


def pack_words(words: list[str]) -> PackedWords:
    """Concatenate words in UTF-8, each with its boundary symbols < and >."""
    delimited = [b"" if word == EOS_WORD else f"<{word}>".encode() for word in words]
    ends = np.cumsum([0, *map(len, delimited)], dtype=np.int64)
    return PackedWords(np.frombuffer(b"".join(delimited), np.uint8), ends)


def subword_bags(
    words: list[str], min_n: int, max_n: int, buckets: int
) -> tuple[tuple[IntArray, Int32Array], CharNgrams]:
    """Return each word's bag (starts, rows), its own row first, and the table of n-grams."""
    starts, hashed = _ngram_buckets(pack_words(words), min_n, max_n, buckets)
    used, positions = np.unique(hashed, return_inverse=True)
    own = np.arange(len(words), dtype=np.int32)
    rows = np.insert((len(words) + positions).astype(np.int32), starts[:-1], own)
    return (starts + np.arange(len(words) + 1), rows), CharNgrams(min_n, max_n, buckets, used)


@jit_nogil
def _ngram_buckets(
    words: PackedWords, min_n: int, max_n: int, buckets: int
) -> tuple[IntArray, IntArray]:
    """Return starts and bucket numbers: word w has found[starts[w] : starts[w + 1]]."""
    starts = np.zeros(len(words.ends), np.int64)
    found = np.empty(0, np.int64)
    for fill in range(2):  # the first pass only counts
        count = 0
        for word in range(len(words.ends) - 1):
            first, last = words.ends[word], words.ends[word + 1]
            for start in range(first, last):
                if words.letters[start] & 0xC0 == 0x80:  # UTF-8 continuation byte
                    continue
                fnv, end, length = np.uint64(2166136261), start, 0
                while end < last and length < max_n:
                    while True:  # one character, of one or more bytes
                        byte = np.uint64(words.letters[end])
                        if byte > 127:  # sign-extend to 32 bits
                            byte |= np.uint64(0xFFFFFF00)
                        fnv = ((fnv ^ byte) * np.uint64(16777619)) & np.uint64(0xFFFFFFFF)
                        end += 1
                        if end >= last or words.letters[end] & 0xC0 != 0x80:
                            break
                    length += 1
                    at_boundary = start == first or end == last
                    if length >= min_n and not (length == 1 and at_boundary):
                        if fill:
                            found[count] = np.int64(fnv) % buckets
                        count += 1
            starts[word + 1] = count
        if not fill:
            found = np.empty(count, np.int64)
    return starts, found
