r"""Word and character n-grams of texts as 64-bit hashes, computed for all texts together.

The hash of a string of code points c_0 … c_{n-1} is a polynomial mod 2^64,

    H(c_0 … c_{n-1}) = Σ_j m(c_j) p^j

with m a mixing function and p an odd constant. Every substring's hash follows from the prefix sums
S_i = Σ_{j<i} m(c_j) p^j of the whole text (Karp and Rabin 1987),

    H(c_i … c_{k-1}) = (S_k - S_i) p^{-i}

since an odd number has an inverse mod 2^64. So no n-gram becomes a Python string. Among a million
different n-grams, two have the same hash with a probability of 3 · 10⁻⁸.

Texts are split into words as `saccade.data.word_splitting` does: in scripts without spaces every
character is a word, so that n-grams of words are n-grams of characters there.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from saccade.data.hashing import HashArray, mix_bits
from saccade.data.word_splitting import SPLITTERS
from saccade.types.arrays import BoolArray, IntArray

MIN_CHARS = 2  # characters of the shortest n-gram inside a word
_SPACE, _NEWLINE = 32, 10
_BASE = 0xD6E8FEB86659FD93  # p, odd
_INVERSE_BASE = pow(_BASE, -1, 1 << 64)
_WORD_SALT, _CHAR_SALT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class HashedNGrams(NamedTuple):
    """n-grams of some texts: the text of each, its hash, and its span of the joined text."""

    owners: IntArray  # index of the text
    keys: HashArray
    starts: IntArray
    ends: IntArray


def join_texts(texts: Iterable[str], split: str = "words") -> str:
    """Return lower-cased words with a space on both sides of each, one text per line."""
    splitter = SPLITTERS[split]
    return "\n".join([f" {' '.join(splitter(text))} " for text in texts]).lower()


class HashedText:
    """The lines of a joined text, and the hashes of their n-grams."""

    def __init__(self, joined: str):
        self.codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        self.is_newline = self.codes == _NEWLINE
        self.is_gap: BoolArray = self.is_newline | (self.codes == _SPACE)
        self.lines = np.cumsum(self.is_newline)

    @cached_property
    def words(self) -> tuple[IntArray, IntArray]:
        """Start and end of each word."""
        edges = np.flatnonzero(self.is_gap[1:] != self.is_gap[:-1]) + 1
        return edges[::2], edges[1::2]  # every line starts and ends with a space

    def word_ngrams(self, n: int) -> HashedNGrams:
        """Return the runs of n words of one line."""
        starts, ends = self.words
        owners = self.lines[starts] if len(starts) else starts
        last = max(len(starts) - n + 1, 0)
        is_inside = owners[n - 1 :] == owners[:last]
        starts, ends = starts[:last][is_inside], ends[n - 1 :][is_inside]
        return HashedNGrams(
            owners[:last][is_inside], self._hash(starts, ends, _WORD_SALT), starts, ends
        )

    def char_ngrams(self, n: int) -> HashedNGrams:
        """Return the runs of n characters of one word, with the space on either side of it."""
        starts = np.arange(max(len(self.codes) - n + 1, 0))
        gaps = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.is_gap)])
        inner_gaps = gaps[starts + n - 1] - gaps[np.minimum(starts + 1, starts + n - 1)]
        newlines = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.is_newline)])
        has_letter = gaps[starts + n] - gaps[starts] < n
        is_inside = newlines[starts + n] == newlines[starts]
        starts = starts[(inner_gaps == 0) & has_letter & is_inside]
        ends = starts + n
        owners = self.lines[starts] if len(starts) else starts
        return HashedNGrams(owners, self._hash(starts, ends, _CHAR_SALT), starts, ends)

    @cached_property
    def _sums(self) -> tuple[HashArray, HashArray]:
        """The prefix sums S, and p^{-i}."""
        powers = np.full(len(self.codes), _BASE, np.uint64)
        inverse_powers = np.full(len(self.codes), _INVERSE_BASE, np.uint64)
        powers[:1] = inverse_powers[:1] = 1
        np.multiply.accumulate(powers, out=powers)
        np.multiply.accumulate(inverse_powers, out=inverse_powers)
        sums = np.zeros(len(self.codes) + 1, np.uint64)
        np.cumsum(mix_bits(self.codes.astype(np.uint64)) * powers, out=sums[1:])
        return sums, inverse_powers

    def _hash(self, starts: IntArray, ends: IntArray, salt: np.uint64) -> HashArray:
        """Return the hash of each span; a word differs from the same letters inside another."""
        sums, inverse_powers = self._sums
        return mix_bits(((sums[ends] - sums[starts]) * inverse_powers[starts]) ^ salt)
