"""Encoded pairs in flat arrays, and batches of them that hold little padding.

How the pairs are cut into batches follows from their lengths alone, so the number of batches in
an epoch and the shape of each never change; what changes with the epoch is which of the pairs of
equal lengths go into which batch, and the order of the batches. So the batch of any step can be
found at once, without replaying the steps before it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.data.parallel.pairs import SentencePairs
from saccade.data.tokenizers import Tokenizer
from saccade.data.vocabulary import BOS, EOS, PAD
from saccade.seeding import generator
from saccade.types.shapes import Batch

IntArray = NDArray[np.int64]
ENCODE_CHUNK = 20_000  # texts that are encoded in one call


@dataclass(frozen=True, eq=False)
class Ragged:
    """Many sequences of ids as one array: row i is ids[offsets[i] : offsets[i + 1]]."""

    ids: NDArray[Any]
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """How many ids each row has."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: IntArray) -> IntArray:
        """The lengths of a few rows, without looking at the others."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def take(self, rows: IntArray) -> "Ragged":
        """The chosen rows, in the chosen order."""
        lengths = self.lengths_of(rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Ragged(self.ids[places], offsets)

    def padded(
        self, rows: IntArray, prefix: Sequence[int] = (), suffix: Sequence[int] = ()
    ) -> IntArray:
        """The rows as one table, each between two sets of marks, padded at the end."""
        lengths = self.lengths_of(rows)
        table = np.full((len(rows), int(lengths.max()) + len(prefix) + len(suffix)), PAD)
        table[:, : len(prefix)] = prefix
        places = np.arange(lengths.max())
        real = places < lengths[:, None]
        inside = table[:, len(prefix) : len(prefix) + len(places)]
        inside[real] = self.ids[(self.offsets[rows][:, None] + places)[real]]
        for at, mark in enumerate(suffix):
            table[np.arange(len(rows)), len(prefix) + lengths + at] = mark
        return table


def encode_ragged(
    tokenizer: Tokenizer, texts: Iterator[str], on_progress: Callable[[int], None]
) -> Ragged:
    """Encode texts into the smallest whole numbers that hold the ids (2 bytes up to 65,536)."""
    kind = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    parts: list[NDArray[Any]] = []
    lengths: list[NDArray[Any]] = []
    while some := list(islice(texts, ENCODE_CHUNK)):
        encoded = tokenizer.encode_many(some)
        lengths.append(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        total = int(lengths[-1].sum())
        parts.append(np.fromiter(chain.from_iterable(encoded), kind, total))
        on_progress(len(some))
    offsets = np.zeros(sum(map(len, lengths)) + 1, np.int64)
    if lengths:
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
    return Ragged(np.concatenate([*parts, np.empty(0, kind)]), offsets)


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Pairs as ids: 2 bytes a token, 16 a pair for where it stands, 4 for its line."""

    name: str
    source: Ragged
    target: Ragged
    lines: NDArray[Any]

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: IntArray) -> "EncodedPairs":
        """The chosen pairs, in the chosen order."""
        sides = self.source.take(rows), self.target.take(rows)
        return EncodedPairs(self.name, *sides, self.lines[rows])

    def batch(self, rows: IntArray) -> Batch:
        """The rows as tensors. The source is closed by the end mark, so it is never empty."""
        source = self.source.padded(rows, suffix=(EOS,))
        target = self.target.padded(rows, prefix=(BOS,), suffix=(EOS,))
        source_lengths = self.source.lengths_of(rows) + 1
        steps = self.target.lengths_of(rows) + 1
        longest = int(steps.max())
        real = np.flatnonzero(np.arange(longest) < steps[:, None])
        full = len(real) == len(rows) * longest
        target_out = np.ascontiguousarray(target[:, 1:]).reshape(-1)
        return Batch(
            source=torch.from_numpy(source),
            source_lengths=None
            if (source_lengths == source_lengths[0]).all()
            else torch.from_numpy(source_lengths),
            target_in=torch.from_numpy(np.ascontiguousarray(target[:, :-1])),
            target_out=torch.from_numpy(target_out if full else target_out[real]),
            target_positions=None if full else torch.from_numpy(real),
            weights=None,
            lines=tuple(self.lines[rows].tolist()),
        )


def slice_batch(batch: Batch, start: int, stop: int) -> Batch:
    """Some of the rows of a batch, with no more padding than they need among themselves."""
    T = batch.target_in.shape[1]
    first, last, steps, real = start * T, stop * T, T, None
    if batch.target_positions is not None:
        first, last = torch.searchsorted(
            batch.target_positions, torch.tensor([first, last])
        ).tolist()
        row, place = (
            batch.target_positions[first:last] // T - start,
            batch.target_positions[first:last] % T,
        )
        steps = int(place.max()) + 1
        real = row * steps + place if len(row) < (stop - start) * steps else None
    lengths = batch.source_lengths
    lengths = None if lengths is None else lengths[start:stop]
    S = batch.source.shape[1] if lengths is None else int(lengths.max())
    return Batch(
        source=batch.source[start:stop, :S],
        source_lengths=None if lengths is None or bool((lengths == S).all()) else lengths,
        target_in=batch.target_in[start:stop, :steps],
        target_out=batch.target_out[first:last],
        target_positions=real,
        weights=None if batch.weights is None else batch.weights[first:last],
        lines=batch.lines[start:stop],
    )


def encode_pairs(
    pairs: SentencePairs, source: Tokenizer, target: Tokenizer, on_progress: Callable[[int], None]
) -> EncodedPairs:
    """Both sides of every pair as ids; `tell` is told how many texts more are done."""
    return EncodedPairs(
        pairs.name,
        encode_ragged(source, pairs.sources(), on_progress),
        encode_ragged(target, pairs.targets(), on_progress),
        pairs.lines,
    )


class BatchPlan:
    """Which rows make up which batch.

    A batch costs its rows times its longest side, end marks included, and costs at most
    `budget`, unless one row alone is longer. Rows are ordered by target length and, within one,
    by source length, up and down in turn: so both sides of neighbours are of about one length.
    """

    def __init__(self, encoded: EncodedPairs, budget: int):
        source, target = encoded.source.lengths + 1, encoded.target.lengths + 1
        # by the rank and not the length itself, for where every length is even, say
        rank = np.unique(target, return_inverse=True)[1]
        swing = np.where(rank % 2 == 0, source, -source)
        self.order = np.lexsort((swing, target))
        source, target = source[self.order], target[self.order]
        new_kind = (np.diff(source) != 0) | (np.diff(target) != 0)
        self.kind = np.concatenate([[0], np.cumsum(new_kind)])  # equal for rows of equal lengths
        self.cuts = _cut(np.maximum(source, target), budget)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def rows(self, index: int) -> IntArray:
        """The rows of one batch, in the order in which they were cut."""
        return self.order[self.cuts[index] : self.cuts[index + 1]]

    def epoch(self, seed: int, epoch: int) -> Iterator[IntArray]:
        """Every row once: equals exchanged for equals, batches in random order."""
        choose = generator(seed, "batches", epoch)
        mixed = self.order[np.lexsort((choose.random(len(self.order)), self.kind))]
        for index in choose.permutation(len(self)):
            yield mixed[self.cuts[index] : self.cuts[index + 1]]


def _cut(longest: IntArray, budget: int) -> list[int]:
    cuts, most = [0], 0
    for row, length in enumerate(longest.tolist()):
        most = max(most, length)
        if most * (row + 1 - cuts[-1]) > budget and row > cuts[-1]:
            cuts.append(row)
            most = length
    return [*cuts, len(longest)]


def training_batches(
    encoded: EncodedPairs, plan: BatchPlan, seed: int, start: int
) -> Iterator[Batch]:
    """Batches without end, from the `start`-th on, as if all before had been given."""
    epoch, skip = divmod(start, len(plan))
    while True:
        for index, rows in enumerate(plan.epoch(seed, epoch)):
            if index >= skip:
                yield encoded.batch(rows)
        epoch, skip = epoch + 1, 0
