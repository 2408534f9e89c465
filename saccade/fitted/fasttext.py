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

from saccade.compiled import compiled
from saccade.fitted.drawing import Floats, Ids, Whole
from saccade.fitted.word2vec import WindowsConfig

Bytes = NDArray[np.uint8]
END_OF_LINE = "</s>"  # fastText has it among the words, and takes no n-grams of it


class FastTextConfig(WindowsConfig):
    """Skip-gram, or CBOW, over words and the n-grams of their letters."""

    name: Literal["fasttext"] = "fasttext"
    cbow: bool = False
    shortest: int = Field(3, ge=1)  # letters of an n-gram
    longest: int = Field(6, ge=1)
    buckets: int = Field(2_000_000, ge=1)

    @property
    def around(self) -> bool:
        """Whether it is CBOW."""
        return self.cbow

    @model_validator(mode="after")
    def _in_order(self) -> "FastTextConfig":
        if self.longest < self.shortest:
            raise ValueError(
                f"n-grams of {self.shortest} to {self.longest} letters were asked for; the second "
                "number must not be the smaller one."
            )
        return self


class Grams(NamedTuple):
    """Which letters make an n-gram, and which buckets have a row (in order)."""

    shortest: int
    longest: int
    buckets: int
    used: Whole

    def rows(self, word: str, words: int) -> Ids:
        """The rows of a word's n-grams, after those of so many words."""
        found = _hashed(spelt([word]), self.shortest, self.longest, self.buckets)[1]
        places = np.searchsorted(self.used, found)
        there = places < len(self.used)
        there[there] = self.used[places[there]] == found[there]
        return (words + places[there]).astype(np.int32)


def means(rows: Floats, bags: tuple[Whole, Ids]) -> Floats:
    """The vector of each word: the mean of the rows of its bag."""
    starts, places = bags
    sums = np.add.reduceat(rows[places], starts[:-1], axis=0)
    found: Floats = (sums / np.diff(starts)[:, None]).astype(np.float32)
    return found


class Spelt(NamedTuple):
    """The letters of some words, one after the other: letters[ends[w] : ends[w + 1]]."""

    letters: Bytes
    ends: Whole


def spelt(words: list[str]) -> Spelt:
    """Words with their marks of beginning and end."""
    marked = [b"" if word == END_OF_LINE else f"<{word}>".encode() for word in words]
    ends = np.cumsum([0, *map(len, marked)], dtype=np.int64)
    return Spelt(np.frombuffer(b"".join(marked), np.uint8), ends)


def bags(
    words: list[str], shortest: int, longest: int, buckets: int
) -> tuple[tuple[Whole, Ids], Grams]:
    """Each word's rows, its own first and then those of its n-grams; and the n-grams' part."""
    starts, hashed = _hashed(spelt(words), shortest, longest, buckets)
    used, places = np.unique(hashed, return_inverse=True)
    own = np.arange(len(words), dtype=np.int32)
    rows = np.insert((len(words) + places).astype(np.int32), starts[:-1], own)
    return (starts + np.arange(len(words) + 1), rows), Grams(shortest, longest, buckets, used)


@compiled
def _hashed(words: Spelt, shortest: int, longest: int, buckets: int) -> tuple[Whole, Whole]:
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
                while end < last and length < longest:
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
                    if length >= shortest and not (length == 1 and at_an_end):
                        if fill:
                            found[count] = np.int64(mark) % buckets
                        count += 1
            starts[word + 1] = count
        if not fill:
            found = np.empty(count, np.int64)
    return starts, found
