r"""Batches of segments of a token sequence for language models, random or sequential.

The targets are the inputs shifted by one. Random segments come in random order, and each starts
from a zero state. With sequential segments, row i of a batch continues row i of the batch before,
so that state carries over. Every token except the first is a target exactly once per epoch: no tail
is dropped.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.special_tokens import PAD
from saccade.registry import lookup
from saccade.seeding import generator
from saccade.types.arrays import IntArray
from saccade.types.shapes import Lengths, TokenIds

MAX_STORED_PERMUTATION = 1 << 20  # segments; a longer permutation is computed index by index
FEISTEL_ROUNDS, FEISTEL_MULTIPLIER = 6, np.uint64(0x9E3779B97F4A7C15)


# --- segments -----------------------------------------------------------------------------------


class SegmentBatch(NamedTuple):
    """A batch of segments of one text. Short rows are padded at the end."""

    inputs: TokenIds
    targets: TokenIds  # inputs[:, 1:], and the token that follows
    lengths: Lengths | None  # None: no row is padded
    reset_state: bool  # False: row i continues row i of the batch before

    @property
    def real(self) -> Int[Tensor, " N"] | None:
        """The flat indices (into B·T) of the targets that are not padding; None: all."""
        if self.lengths is None:
            return None
        positions = torch.arange(self.targets.shape[1])
        return (positions < self.lengths[:, None]).flatten().nonzero()[:, 0]


def slice_segments(segments: SegmentBatch, first: int, last: int) -> SegmentBatch:
    """Return the rows of a batch from `first` up to, but not including, `last`."""
    rows = slice(first, last)
    lengths = None if segments.lengths is None else segments.lengths[rows]
    return SegmentBatch(
        segments.inputs[rows], segments.targets[rows], lengths, segments.reset_state
    )


def random_segments(
    ids: NDArray[Any], batch: int, segment_length: int, seed: int, epoch: int, start: int = 0
) -> Iterator[SegmentBatch]:
    """Yield one epoch of disjoint segments in random order, from the `start`-th batch on.

    The segment boundaries differ from epoch to epoch. The last batch may have fewer rows.
    """
    total = _targets(ids, batch, segment_length)
    choose = generator(seed, "segments", epoch)
    cuts = _cuts(total, segment_length, choose)
    order = _shuffled(cuts.pieces, choose)
    for at in range(start * batch, cuts.pieces, batch):
        rows = order(np.arange(at, min(at + batch, cuts.pieces)))
        yield _segments(ids, cuts.before(rows), cuts.before(rows + 1), reset_state=True)


def sequential_segments(
    ids: NDArray[Any], batch: int, segment_length: int, seed: int, epoch: int, start: int = 0
) -> Iterator[SegmentBatch]:
    """Yield one epoch of `batch` rows read in parallel, from the `start`-th batch on.

    The text is split into `batch` contiguous parts, whose lengths differ by one token at most, the
    longer ones first. The segment boundaries differ from epoch to epoch. The last batch may have
    fewer rows: then only the first rows continue, and only their state is needed.
    """
    total = _targets(ids, batch, segment_length)
    edges = _edges(total, batch)
    cuts = _cuts(int(edges[1]), segment_length, generator(seed, "segments", epoch))
    for index in range(start, cuts.pieces):
        first = edges[:-1] + cuts.before(np.array(index))
        last = np.minimum(edges[:-1] + cuts.before(np.array(index + 1)), edges[1:])
        nonempty = first < last
        yield _segments(ids, first[nonempty], last[nonempty], reset_state=index == 0)


SEGMENT_ORDERS = {"random": random_segments, "sequential": sequential_segments}


def segment_batches_per_epoch(
    ids: NDArray[Any], segment_order: str, batch: int, segment_length: int
) -> int:
    """Return the number of batches of an epoch, which is the same for all epochs."""
    lookup(SEGMENT_ORDERS, segment_order, "segment order")
    total = _targets(ids, batch, segment_length)
    if segment_order == "random":
        return -(-_pieces(total, segment_length).number // batch)
    return _pieces(int(_edges(total, batch)[1]), segment_length).number


def training_segments(
    ids: NDArray[Any], segment_order: str, batch: int, segment_length: int, seed: int, start: int
) -> Iterator[SegmentBatch]:
    """Yield batches without end, from the `start`-th on, without those before it."""
    read = lookup(SEGMENT_ORDERS, segment_order, "segment order")
    epoch, skip = divmod(
        start, segment_batches_per_epoch(ids, segment_order, batch, segment_length)
    )
    while True:
        yield from read(ids, batch, segment_length, seed, epoch, skip)
        epoch, skip = epoch + 1, 0


def _targets(ids: NDArray[Any], batch: int, segment_length: int) -> int:
    """Return the number of targets."""
    if batch < 1 or segment_length < 1:
        raise ValueError(
            f"got batch={batch} and segment_length={segment_length}; expected 1 or more of both."
        )
    if len(ids) < 2:
        raise ValueError(
            f"got a text of {len(ids)} tokens; expected 2 or more: an input and a target."
        )
    return len(ids) - 1


def _edges(total: int, batch: int) -> IntArray:
    """Return the start of each row's part of the text, and the end of the last."""
    rows = min(batch, total)
    lengths = total // rows + (np.arange(rows) < total % rows)
    return np.concatenate([[0], np.cumsum(lengths)])


class _Pieces(NamedTuple):
    """Number of segments of a part, and the range of the first one's length."""

    number: int
    min_first: int
    max_first: int


def _pieces(total: int, segment_length: int) -> _Pieces:
    """Return a number of segments (short, full ones, short) that is the same in every epoch.

    With a remainder of r tokens after the full segments, a first one of r or more needs one segment
    more, a shorter one two more: of the two numbers, the one with the larger range for the first.
    """
    whole, over = divmod(total, segment_length)
    if whole == 0 or segment_length == 1:
        return _Pieces(max(whole, 1), min(total, segment_length), min(total, segment_length))
    if over > segment_length // 2 + 1:
        return _Pieces(whole + 2, 1, over - 1)
    return _Pieces(whole + 1, max(over, 1), segment_length if over else segment_length - 1)


class _Cuts(NamedTuple):
    """Segments of `total` tokens: one of `first`, then of `segment_length`, a short one last."""

    pieces: int
    first: int
    segment_length: int
    total: int

    def before(self, piece: IntArray) -> IntArray:
        """Return the start of a segment, which is the end of the one before it."""
        inner = np.minimum(self.first + self.segment_length * (piece - 1), self.total)
        return np.where(piece == 0, 0, inner)


def _cuts(total: int, segment_length: int, choose: np.random.Generator) -> _Cuts:
    """Choose a random length of the first segment."""
    pieces = _pieces(total, segment_length)
    first = int(choose.integers(pieces.min_first, pieces.max_first, endpoint=True))
    return _Cuts(pieces.number, first, segment_length, total)


def _shuffled(count: int, choose: np.random.Generator) -> Callable[[IntArray], IntArray]:
    """Return a random permutation of 0 … count - 1, as a function of the index.

    A long one is not stored, or memory would grow with the text: it is computed where it is needed
    by a Feistel network (1973), a bijection of the numbers of 2·half bits. A result that is too
    large is mapped again until it is in the range (cycle walking).
    """
    if count <= MAX_STORED_PERMUTATION:
        listed = choose.permutation(count)
        return lambda indices: listed[indices]
    half = np.uint64(((count - 1).bit_length() + 1) // 2)
    lowest = np.uint64((1 << int(half)) - 1)
    keys = choose.integers(1 << 63, size=FEISTEL_ROUNDS, dtype=np.uint64)

    def feistel(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = numbers >> half, numbers & lowest
        for key in keys:
            mixed = (right + key) * FEISTEL_MULTIPLIER  # its upper bits depend on all bits
            left, right = right, left ^ (mixed >> np.uint64(32) & lowest)
        return left << half | right

    def order(indices: IntArray) -> IntArray:
        found = feistel(indices.astype(np.uint64))
        while (out_of_range := found >= count).any():
            found[out_of_range] = feistel(found[out_of_range])
        return found.astype(np.int64)

    return order


def _segments(
    ids: NDArray[Any], first: IntArray, last: IntArray, reset_state: bool
) -> SegmentBatch:
    lengths = last - first
    offsets = np.arange(lengths.max())
    real = offsets < lengths[:, None]
    at = np.where(real, first[:, None] + offsets, 0)
    inputs, targets = (
        torch.from_numpy(np.where(real, ids[at + shift], PAD).astype(np.int64)) for shift in (0, 1)
    )
    return SegmentBatch(
        inputs, targets, None if real.all() else torch.from_numpy(lengths), reset_state
    )
