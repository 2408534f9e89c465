r"""Subwords (Bojanowski et al. 2017): a word is also the n-grams of its letters, "<" and ">"
around it.

"where" with n = 3: <wh whe her ere re>. Each n-gram has a row, found by its hash (FNV-1a, 32 bits,
as fastText computes it, bytes taken as signed numbers) in one of so many buckets. So a word that
was never seen has a vector, too: the mean of its n-grams' rows.

Difference from fastText: it keeps a row for each of its two million buckets. Here only the buckets
that some word of the vocabulary falls into have one (a twentieth of the memory on an ordinary
text); an n-gram of a new word that falls into another says nothing, where fastText adds noise that
was drawn in the beginning and never learned."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from saccade.compiled.jit import jit_nogil
from saccade.estimators.word_vectors.sampling import Float32Array, Int32Array, IntArray
from saccade.estimators.word_vectors.word2vec import WindowsConfig

ByteArray = NDArray[np.uint8]
EOS_WORD = "</s>"  # fastText has it among the words, and takes no n-grams of it


class FastTextConfig(WindowsConfig):
    """Skip-gram, or CBOW, over words and the n-grams of their letters."""

    name: Literal["fasttext"] = "fasttext"
    cbow: bool = False
    min_n: int = Field(3, ge=1)  # letters of an n-gram
    max_n: int = Field(6, ge=1)
    buckets: int = Field(2_000_000, ge=1)

    @property
    def is_cbow(self) -> bool:
        """Whether it is CBOW."""
        return self.cbow

    @model_validator(mode="after")
    def _in_order(self) -> "FastTextConfig":
        if self.max_n < self.min_n:
            raise ValueError(
                f"n-grams of {self.min_n} to {self.max_n} letters were asked for; the second "
                "number must not be the smaller one."
            )
        return self


class CharNgrams(NamedTuple):
    """Which letters make an n-gram, and which buckets have a row (in order)."""

    min_n: int
    max_n: int
    buckets: int
    used: IntArray

    def rows(self, word: str, words: int) -> Int32Array:
        """The rows of a word's n-grams, after those of so many words."""
        found = _hashed(pack_words([word]), self.min_n, self.max_n, self.buckets)[1]
        places = np.searchsorted(self.used, found)
        there = places < len(self.used)
        there[there] = self.used[places[there]] == found[there]
        return (words + places[there]).astype(np.int32)


def bag_means(rows: Float32Array, bags: tuple[IntArray, Int32Array]) -> Float32Array:
    """The vector of each word: the mean of the rows of its bag."""
    starts, places = bags
    sums = np.add.reduceat(rows[places], starts[:-1], axis=0)
    found: Float32Array = (sums / np.diff(starts)[:, None]).astype(np.float32)
    return found


class PackedWords(NamedTuple):
    """The letters of some words, one after the other: letters[ends[w] : ends[w + 1]]."""

    letters: ByteArray
    ends: IntArray


def pack_words(words: list[str]) -> PackedWords:
    """Words with their marks of beginning and end."""
    marked = [b"" if word == EOS_WORD else f"<{word}>".encode() for word in words]
    ends = np.cumsum([0, *map(len, marked)], dtype=np.int64)
    return PackedWords(np.frombuffer(b"".join(marked), np.uint8), ends)


def subword_bags(
    words: list[str], min_n: int, max_n: int, buckets: int
) -> tuple[tuple[IntArray, Int32Array], CharNgrams]:
    """Each word's rows, its own first and then those of its n-grams; and the n-grams' part."""
    starts, hashed = _hashed(pack_words(words), min_n, max_n, buckets)
    used, places = np.unique(hashed, return_inverse=True)
    own = np.arange(len(words), dtype=np.int32)
    rows = np.insert((len(words) + places).astype(np.int32), starts[:-1], own)
    return (starts + np.arange(len(words) + 1), rows), CharNgrams(min_n, max_n, buckets, used)


@jit_nogil
def _hashed(words: PackedWords, min_n: int, max_n: int, buckets: int) -> tuple[IntArray, IntArray]:
    """The buckets of every word's n-grams: of word w found[starts[w] : starts[w + 1]]."""
    starts = np.zeros(len(words.ends), np.int64)
    found = np.empty(0, np.int64)
    for fill in range(2):  # first they are counted
        count = 0
        for word in range(len(words.ends) - 1):
            first, last = words.ends[word], words.ends[word + 1]
            for begin in range(first, last):
                if words.letters[begin] & 0xC0 == 0x80:  # inside a letter of several bytes
                    continue
                mark, end, length = np.uint64(2166136261), begin, 0
                while end < last and length < max_n:
                    while True:  # one letter, however many bytes it has
                        letter = np.uint64(words.letters[end])
                        if letter > 127:  # a signed byte, as a number of 32 bits
                            letter |= np.uint64(0xFFFFFF00)
                        mark = ((mark ^ letter) * np.uint64(16777619)) & np.uint64(0xFFFFFFFF)
                        end += 1
                        if end >= last or words.letters[end] & 0xC0 != 0x80:
                            break
                    length += 1
                    at_an_end = begin == first or end == last
                    if length >= min_n and not (length == 1 and at_an_end):
                        if fill:
                            found[count] = np.int64(mark) % buckets
                        count += 1
            starts[word + 1] = count
        if not fill:
            found = np.empty(count, np.int64)
    return starts, found
