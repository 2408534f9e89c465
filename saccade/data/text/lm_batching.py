r"""Two ways to read the ids of a text (`data.tokens`) in pieces.

A model reads the row in segments; its targets are its inputs shifted by one. Random segments
come in random order, and each is read from nothing. In sequential ones a row of a batch goes on
in the same row of the next batch, so that state carries over. Every token but the first, before
which there is nothing, is a target exactly once an epoch: no tail is dropped.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.vocabulary import PAD
from saccade.registry import lookup
from saccade.seeding import generator
from saccade.types.shapes import Lengths, TokenIds

IntArray = NDArray[np.int64]
MAX_STORED_PERMUTATION = (
    1 << 20
)  # segments whose order is a list; that of more is computed place by place
FEISTEL_ROUNDS, FEISTEL_MULTIPLIER = 6, np.uint64(0x9E3779B97F4A7C15)


# --- segments -----------------------------------------------------------------------------------


class SegmentBatch(NamedTuple):
    """A batch of pieces of one text. Short rows are padded at the end, None says that none is."""

    inputs: TokenIds
    targets: TokenIds  # inputs[:, 1:], and the token that follows
    lengths: Lengths | None
    reset_state: (
        bool  # True: nothing was read before; False: row i goes on from row i of the last batch
    )

    @property
    def real(self) -> Int[Tensor, " N"] | None:
        """The flat indices (into B·T) of the targets that count; None: all of them."""
        if self.lengths is None:
            return None
        places = torch.arange(self.targets.shape[1])
        return (places < self.lengths[:, None]).flatten().nonzero()[:, 0]


def slice_segments(segments: SegmentBatch, first: int, last: int) -> SegmentBatch:
    """Some rows of a batch, from the first up to the last."""
    rows = slice(first, last)
    lengths = None if segments.lengths is None else segments.lengths[rows]
    return SegmentBatch(
        segments.inputs[rows], segments.targets[rows], lengths, segments.reset_state
    )


def random_segments(
    ids: NDArray[Any], batch: int, segment_length: int, seed: int, epoch: int, start: int = 0
) -> Iterator[SegmentBatch]:
    """One epoch of segments that do not overlap, in random order, from the `start`-th batch on.

    Where the text is cut differs from epoch to epoch. The last batch may have fewer rows.
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
    """One epoch of `batch` rows read side by side, from the `start`-th batch on.

    The text is parted into `batch` stretches, which differ by one token at most, the longer
    ones first. Where they are cut differs from epoch to epoch. The last batch may have fewer
    rows: then only the first rows go on, and their state alone is needed.
    """
    total = _targets(ids, batch, segment_length)
    edges = _edges(total, batch)
    cuts = _cuts(int(edges[1]), segment_length, generator(seed, "segments", epoch))
    for index in range(start, cuts.pieces):
        first = edges[:-1] + cuts.before(np.array(index))
        last = np.minimum(edges[:-1] + cuts.before(np.array(index + 1)), edges[1:])
        there = first < last
        yield _segments(ids, first[there], last[there], reset_state=index == 0)


SEGMENT_ORDERS = {"random": random_segments, "sequential": sequential_segments}


def segment_batches_per_epoch(
    ids: NDArray[Any], segment_order: str, batch: int, segment_length: int
) -> int:
    """How many batches an epoch has, the same in each."""
    lookup(SEGMENT_ORDERS, segment_order, "segment order")
    total = _targets(ids, batch, segment_length)
    if segment_order == "random":
        return -(-_pieces(total, segment_length).number // batch)
    return _pieces(int(_edges(total, batch)[1]), segment_length).number


def training_segments(
    ids: NDArray[Any], segment_order: str, batch: int, segment_length: int, seed: int, start: int
) -> Iterator[SegmentBatch]:
    """Batches without end, from the `start`-th on, as if all before had been given."""
    read = lookup(SEGMENT_ORDERS, segment_order, "segment order")
    epoch, skip = divmod(
        start, segment_batches_per_epoch(ids, segment_order, batch, segment_length)
    )
    while True:
        yield from read(ids, batch, segment_length, seed, epoch, skip)
        epoch, skip = epoch + 1, 0


def _targets(ids: NDArray[Any], batch: int, segment_length: int) -> int:
    """How many tokens are targets."""
    if batch < 1 or segment_length < 1:
        raise ValueError(
            f"got a batch of {batch} and {segment_length} steps; wanted 1 or more of both."
        )
    if len(ids) < 2:
        raise ValueError(f"got a text of {len(ids)} tokens; wanted 2 or more: one to tell by.")
    return len(ids) - 1


def _edges(total: int, batch: int) -> IntArray:
    """Where the stretches of a batch begin, and where the last ends."""
    rows = min(batch, total)
    lengths = total // rows + (np.arange(rows) < total % rows)
    return np.concatenate([[0], np.cumsum(lengths)])


class _Pieces(NamedTuple):
    """How many pieces a stretch is cut into, and the least and most the first may have."""

    number: int
    least: int
    most: int


def _pieces(total: int, segment_length: int) -> _Pieces:
    """A short piece first, whole ones, a short one last, in a number that never changes.

    With r tokens over after the whole pieces, a first piece of r or more takes one piece beside
    them and a shorter one two: of the two, the number that leaves the first more choice.
    """
    whole, over = divmod(total, segment_length)
    if whole == 0 or segment_length == 1:
        return _Pieces(max(whole, 1), min(total, segment_length), min(total, segment_length))
    if over > segment_length // 2 + 1:
        return _Pieces(whole + 2, 1, over - 1)
    return _Pieces(whole + 1, max(over, 1), segment_length if over else segment_length - 1)


class _Cuts(NamedTuple):
    """A stretch of `total` tokens in pieces: one of `first`, then of `steps`, a short one last."""

    pieces: int
    first: int
    segment_length: int
    total: int

    def before(self, piece: IntArray) -> IntArray:
        """Where a piece begins, and the one before it ends."""
        inner = np.minimum(self.first + self.segment_length * (piece - 1), self.total)
        return np.where(piece == 0, 0, inner)


def _cuts(total: int, segment_length: int, choose: np.random.Generator) -> _Cuts:
    """The first piece is of a random length."""
    pieces = _pieces(total, segment_length)
    first = int(choose.integers(pieces.least, pieces.most, endpoint=True))
    return _Cuts(pieces.number, first, segment_length, total)


def _shuffled(count: int, choose: np.random.Generator) -> Callable[[IntArray], IntArray]:
    """A random order of 0 … count - 1: which of them stands at each place.

    A long one is not listed, or memory would grow with the text: it is computed where it is asked
    for, by a network of Feistel's (1973), which turns every number of 2·half bits into another. A
    number that comes out too large is turned again until it is not.
    """
    if count <= MAX_STORED_PERMUTATION:
        listed = choose.permutation(count)
        return lambda places: listed[places]
    half = np.uint64(((count - 1).bit_length() + 1) // 2)
    lowest = np.uint64((1 << int(half)) - 1)
    keys = choose.integers(1 << 63, size=FEISTEL_ROUNDS, dtype=np.uint64)

    def turned(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = numbers >> half, numbers & lowest
        for key in keys:
            mixed = (right + key) * FEISTEL_MULTIPLIER  # whose upper bits depend on all
            left, right = right, left ^ (mixed >> np.uint64(32) & lowest)
        return left << half | right

    def order(places: IntArray) -> IntArray:
        found = turned(places.astype(np.uint64))
        while (beyond := found >= count).any():
            found[beyond] = turned(found[beyond])
        return found.astype(np.int64)

    return order


def _segments(
    ids: NDArray[Any], first: IntArray, last: IntArray, reset_state: bool
) -> SegmentBatch:
    lengths = last - first
    places = np.arange(lengths.max())
    real = places < lengths[:, None]
    at = np.where(real, first[:, None] + places, 0)
    inputs, targets = (
        torch.from_numpy(np.where(real, ids[at + shift], PAD).astype(np.int64)) for shift in (0, 1)
    )
    return SegmentBatch(
        inputs, targets, None if real.all() else torch.from_numpy(lengths), reset_state
    )
