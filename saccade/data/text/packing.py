r"""Sequences for masked language modelling: a text cut into windows, without padding.

The tokens of a text are one stream, with [SEP] after each document. A window of it becomes

    [CLS] a [SEP]           one segment of L - 2 tokens, which may span documents (Liu et al. 2019)
    [CLS] a [SEP] b [SEP]   a pair of segments of L - 3 tokens together (Devlin et al. 2019)

so that every sequence has the length L. A pair is a window that is cut in its middle half, at the
start of a line if there is one, else of a word. In half of the pairs, b is replaced by the tokens
after the cut of another window, from another document if there is one. `is_next` is True where b
continues the document of a: it is computed from the positions, so that it also holds for documents
shorter than a window.

Every random choice is a function of a key and of a position in the text.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.hashing import hashed_uniforms
from saccade.data.wordpiece import CLS, SEP
from saccade.seeding import generator, seed_for
from saccade.types.arrays import BoolArray, ByteArray, IntArray

WORD_START, LINE_START, DOCUMENT_START = 1, 2, 4  # bits of `TokenStream.starts`
SECOND_SEGMENTS = 3  # windows of which one in another document gives a false second segment
NOT_NEXT_SHARE = 0.5  # of the pairs


@dataclass(frozen=True)
class TokenStream:
    """The tokens of a text without line ends, and what starts at each; [SEP] ends a document."""

    ids: NDArray[Any]
    starts: ByteArray  # WORD_START, LINE_START and DOCUMENT_START, added
    document_starts: IntArray

    def __len__(self) -> int:
        return len(self.ids)

    def documents_at(self, positions: IntArray) -> IntArray:
        """Return the number of the document at each position."""
        return np.searchsorted(self.document_starts, positions, side="right") - 1


def token_stream(ids: NDArray[Any], starts_word: BoolArray) -> TokenStream:
    """Return the stream of a text whose line ends are [SEP], of which two end a document.

    Args:
        ids: [SEP], and then each line with [SEP] after it, as in `saccade.data.text.token_store`.
        starts_word: for each of these ids, True if it is the first of its word.
    """
    is_end = ids == SEP
    if is_end.all():
        return TokenStream(ids[:0], np.zeros(0, np.uint8), np.zeros(0, np.int64))
    after_end = np.concatenate([[False], is_end[:-1]])
    ends_document = is_end & after_end & ~np.concatenate([is_end[1:], [True]])
    ends_document[: int((~is_end).argmax())] = False
    kept = ~is_end | ends_document
    stream = np.append(ids[kept], np.array([SEP], ids.dtype))
    is_first = np.concatenate([[True], stream[:-1] == SEP])
    bits = starts_word * np.uint8(WORD_START) + (after_end & ~is_end) * np.uint8(LINE_START)
    starts = np.append(bits[kept], np.uint8(WORD_START))
    starts[is_first] |= WORD_START | LINE_START | DOCUMENT_START
    return TokenStream(stream, starts, np.flatnonzero(is_first))


class PackedRows(NamedTuple):
    """Sequences of equal length, and where each token comes from."""

    ids: IntArray  # (B, L)
    positions: IntArray  # (B, L) in the stream; -1: [CLS] or [SEP] of the sequence
    segments: IntArray  # (B, L), 0 or 1
    starts_word: BoolArray  # (B, L)
    is_next: BoolArray | None  # (B,); None: one segment each


@dataclass(frozen=True)
class Packing:
    """Windows of a stream as sequences of `length` tokens."""

    stream: TokenStream
    length: int
    pairs: bool

    @property
    def text_length(self) -> int:
        """Number of tokens of a window."""
        return min(self.length - (3 if self.pairs else 2), len(self.stream))

    @property
    def count(self) -> int:
        """Number of windows that contain every token of the text."""
        return -(-len(self.stream) // self.text_length) + 1

    def window_starts(self, windows: IntArray, seed: int, epoch: int) -> IntArray:
        """Return the positions where windows start, shifted from epoch to epoch.

        The first and the last window may overlap their neighbours.
        """
        width = self.text_length
        shift = int(generator(seed, "windows", epoch).integers(width))
        return np.clip(windows * width - shift, 0, len(self.stream) - width)

    def rows(self, first: IntArray, key: int) -> PackedRows:
        """Return the sequences of the windows that start at these positions."""
        width = self.text_length
        offsets = np.arange(width)
        if not self.pairs:
            return self._assemble(first[:, None] + offsets, None, None)
        cuts = self._cuts(first, seed_for(key, "cuts"))
        second = self._second_segments(first, cuts, key)
        is_next = second == first + cuts
        is_next &= (self.stream.starts[second] & DOCUMENT_START) == 0
        base = np.where(offsets < cuts[:, None], first[:, None], (second - cuts)[:, None])
        return self._assemble(base + offsets, cuts, is_next)

    def _cuts(self, first: IntArray, key: int) -> IntArray:
        """Return how many tokens of each window are the first segment."""
        width = self.text_length
        low, high = max(1, width // 4), max(2, width - width // 4)
        positions = first[:, None] + np.arange(low, min(high, width))
        if not positions.shape[1]:
            return np.zeros(len(first), np.int64)  # a window of one token
        starts = self.stream.starts[positions]
        inside = (starts & DOCUMENT_START) == 0  # then b may continue the document of a
        rank = inside * (1.0 + (starts & WORD_START) + 2.0 * ((starts & LINE_START) > 0))
        return low + (rank + hashed_uniforms(key, positions)).argmax(axis=1)

    def _second_segments(self, first: IntArray, cuts: IntArray, key: int) -> IntArray:
        """Return the positions where the second segments start."""
        stream, width = self.stream, self.text_length
        follows = first + cuts
        is_false = hashed_uniforms(seed_for(key, "pairs"), first) < NOT_NEXT_SHARE
        document = stream.documents_at(np.maximum(follows - 1, 0))
        second, is_found = follows.copy(), ~is_false
        for attempt in range(SECOND_SEGMENTS):
            chosen = hashed_uniforms(seed_for(key, "second segments", attempt), first)
            windows = (chosen * (len(stream) - width + 1)).astype(np.int64)
            found = windows + self._cuts(windows, seed_for(key, "cuts"))
            fits = found + width - cuts <= len(stream)
            fits &= found != follows
            is_other = fits & (stream.documents_at(found) != document)
            is_last_resort = fits & (second == follows)  # of a text with one document
            second = np.where(~is_found & (is_other | is_last_resort), found, second)
            is_found |= is_other
        return second

    def _assemble(
        self, positions: IntArray, cuts: IntArray | None, is_next: BoolArray | None
    ) -> PackedRows:
        """Put [CLS] before and [SEP] after the segments."""
        B, width = positions.shape
        columns = np.arange(width + (2 if cuts is None else 3))
        last = columns == len(columns) - 1
        middle = np.full((B, 1), len(columns)) if cuts is None else cuts[:, None] + 1
        special = (columns == 0) | last | (columns == middle)
        source = np.clip(columns - 1 - (columns > middle), 0, width - 1)
        at = np.where(special, -1, np.take_along_axis(positions, source, axis=1))
        ids = np.where(special, np.where(columns == 0, CLS, SEP), self.stream.ids[at])
        starts_word = special | ((self.stream.starts[at] & WORD_START) > 0)
        starts_word[:, 1] = True
        starts_word |= columns == middle + 1
        segments = (columns > middle).astype(np.int64)
        return PackedRows(ids.astype(np.int64), at, segments, starts_word, is_next)
