"""Encoded sentence pairs in flat arrays, and length-bucketed batches of them.

The partition into batches follows from the lengths alone, so the number of batches of an epoch and
the shape of each never change; an epoch shuffles pairs of equal lengths among the batches, and the
order of the batches. So the batch of any step is found without replaying the steps before it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.data.parallel.pairs import SentencePairs
from saccade.data.special_tokens import BOS, EOS, PAD
from saccade.data.tokenizers import Tokenizer
from saccade.seeding import generator
from saccade.types.arrays import IntArray
from saccade.types.shapes import Batch

ENCODE_CHUNK = 20_000  # texts encoded per call


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of ids in one array: row i is ids[offsets[i] : offsets[i + 1]]."""

    ids: NDArray[Any]
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """The length of each row."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: IntArray) -> IntArray:
        """Return the lengths of some rows."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def take(self, rows: IntArray) -> "Ragged":
        """Return the rows at the indices, in that order."""
        lengths = self.lengths_of(rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Ragged(self.ids[positions], offsets)

    def padded(
        self, rows: IntArray, prefix: Sequence[int] = (), suffix: Sequence[int] = ()
    ) -> IntArray:
        """Return the rows as one array, with a prefix and a suffix of ids, padded at the end."""
        lengths = self.lengths_of(rows)
        table = np.full((len(rows), int(lengths.max()) + len(prefix) + len(suffix)), PAD)
        table[:, : len(prefix)] = prefix
        columns = np.arange(lengths.max())
        real = columns < lengths[:, None]
        inside = table[:, len(prefix) : len(prefix) + len(columns)]
        inside[real] = self.ids[(self.offsets[rows][:, None] + columns)[real]]
        for offset, id in enumerate(suffix):
            table[np.arange(len(rows)), len(prefix) + lengths + offset] = id
        return table


def encode_ragged(
    tokenizer: Tokenizer, texts: Iterator[str], on_progress: Callable[[int], None]
) -> Ragged:
    """Encode texts into the smallest integers that fit the ids (2 bytes up to 65,536)."""
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    parts: list[NDArray[Any]] = []
    lengths: list[NDArray[Any]] = []
    while chunk := list(islice(texts, ENCODE_CHUNK)):
        encoded = tokenizer.encode_many(chunk)
        lengths.append(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        total = int(lengths[-1].sum())
        parts.append(np.fromiter(chain.from_iterable(encoded), dtype, total))
        on_progress(len(chunk))
    offsets = np.zeros(sum(map(len, lengths)) + 1, np.int64)
    if lengths:
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
    return Ragged(np.concatenate([*parts, np.empty(0, dtype)]), offsets)


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Pairs as ids: 2 bytes per token; per pair 16 for its offsets and 4 for its line."""

    name: str
    source: Ragged
    target: Ragged
    lines: NDArray[Any]

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: IntArray) -> "EncodedPairs":
        """Return the pairs at the indices, in that order."""
        sides = self.source.take(rows), self.target.take(rows)
        return EncodedPairs(self.name, *sides, self.lines[rows])

    def batch(self, rows: IntArray) -> Batch:
        """Return the rows as tensors. The source ends with EOS, so it is never empty."""
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
    """Return the rows start … stop - 1 of a batch, without padding that none of them needs."""
    T = batch.target_in.shape[1]
    first, last, steps, real = start * T, stop * T, T, None
    if batch.target_positions is not None:
        first, last = torch.searchsorted(
            batch.target_positions, torch.tensor([first, last])
        ).tolist()
        row, step = (
            batch.target_positions[first:last] // T - start,
            batch.target_positions[first:last] % T,
        )
        steps = int(step.max()) + 1
        real = row * steps + step if len(row) < (stop - start) * steps else None
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
    """Encode both sides of every pair; `on_progress` gets the number of texts of each chunk."""
    return EncodedPairs(
        pairs.name,
        encode_ragged(source, pairs.sources(), on_progress),
        encode_ragged(target, pairs.targets(), on_progress),
        pairs.lines,
    )


class BatchPlan:
    """Partition of the rows into batches.

    The size of a batch is its rows times its longest side, EOS included, and is at most `budget`,
    unless a single row is longer. Rows are ordered by target length and, within one, by source
    length, alternately up and down, so that both sides of neighbours have similar lengths.
    """

    def __init__(self, encoded: EncodedPairs, budget: int):
        source, target = encoded.source.lengths + 1, encoded.target.lengths + 1
        # by rank and not by length, since all lengths may be even
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
        """Return the rows of one batch."""
        return self.order[self.cuts[index] : self.cuts[index + 1]]

    def epoch(self, seed: int, epoch: int) -> Iterator[IntArray]:
        """Yield the batches of an epoch in random order, rows of equal lengths shuffled."""
        choose = generator(seed, "batches", epoch)
        mixed = self.order[np.lexsort((choose.random(len(self.order)), self.kind))]
        for index in choose.permutation(len(self)):
            yield mixed[self.cuts[index] : self.cuts[index + 1]]


def _cut(longest: IntArray, budget: int) -> list[int]:
    cuts, width = [0], 0
    for row, length in enumerate(longest.tolist()):
        width = max(width, length)
        if width * (row + 1 - cuts[-1]) > budget and row > cuts[-1]:
            cuts.append(row)
            width = length
    return [*cuts, len(longest)]


def training_batches(
    encoded: EncodedPairs, plan: BatchPlan, seed: int, start: int
) -> Iterator[Batch]:
    """Yield batches without end, from the `start`-th on, without those before it."""
    epoch, skip = divmod(start, len(plan))
    while True:
        for index, rows in enumerate(plan.epoch(seed, epoch)):
            if index >= skip:
                yield encoded.batch(rows)
        epoch, skip = epoch + 1, 0
