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

from saccade.data.pairs import Pairs
from saccade.data.tokenizers import Tokenizer
from saccade.data.vocabulary import BEGIN, END, PAD
from saccade.seeding import generator
from saccade.types import Batch

Numbers = NDArray[np.int64]
AT_ONCE = 20_000  # texts that are encoded in one call


@dataclass(frozen=True, eq=False)
class Ragged:
    """Many sequences of ids as one array: row i is ids[offsets[i] : offsets[i + 1]]."""

    ids: NDArray[Any]
    offsets: Numbers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Numbers:
        """How many ids each row has."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: Numbers) -> Numbers:
        """The lengths of a few rows, without looking at the others."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def take(self, rows: Numbers) -> "Ragged":
        """The chosen rows, in the chosen order."""
        lengths = self.lengths_of(rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Ragged(self.ids[places], offsets)

    def padded(
        self, rows: Numbers, before: Sequence[int] = (), after: Sequence[int] = ()
    ) -> Numbers:
        """The rows as one table, each between two sets of marks, padded at the end."""
        lengths = self.lengths_of(rows)
        table = np.full((len(rows), int(lengths.max()) + len(before) + len(after)), PAD)
        table[:, : len(before)] = before
        places = np.arange(lengths.max())
        real = places < lengths[:, None]
        inside = table[:, len(before) : len(before) + len(places)]
        inside[real] = self.ids[(self.offsets[rows][:, None] + places)[real]]
        for at, mark in enumerate(after):
            table[np.arange(len(rows)), len(before) + lengths + at] = mark
        return table


def ragged(tokenizer: Tokenizer, texts: Iterator[str], tell: Callable[[int], None]) -> Ragged:
    """Encode texts into the smallest whole numbers that hold the ids (2 bytes up to 65,536)."""
    kind = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    parts: list[NDArray[Any]] = []
    lengths: list[NDArray[Any]] = []
    while some := list(islice(texts, AT_ONCE)):
        encoded = tokenizer.encode_many(some)
        lengths.append(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        total = int(lengths[-1].sum())
        parts.append(np.fromiter(chain.from_iterable(encoded), kind, total))
        tell(len(some))
    offsets = np.zeros(sum(map(len, lengths)) + 1, np.int64)
    if lengths:
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
    return Ragged(np.concatenate([*parts, np.empty(0, kind)]), offsets)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Pairs as ids: 2 bytes a token, 16 a pair for where it stands, 4 for its line."""

    name: str
    source: Ragged
    target: Ragged
    lines: NDArray[Any]

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: Numbers) -> "Encoded":
        """The chosen pairs, in the chosen order."""
        sides = self.source.take(rows), self.target.take(rows)
        return Encoded(self.name, *sides, self.lines[rows])

    def batch(self, rows: Numbers) -> Batch:
        """The rows as tensors. The source is closed by the end mark, so it is never empty."""
        source = self.source.padded(rows, after=(END,))
        target = self.target.padded(rows, before=(BEGIN,), after=(END,))
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
            real=None if full else torch.from_numpy(real),
            weights=None,
            lines=tuple(self.lines[rows].tolist()),
        )


def rows_of(batch: Batch, start: int, stop: int) -> Batch:
    """Some of the rows of a batch, with no more padding than they need among themselves."""
    T = batch.target_in.shape[1]
    first, last, steps, real = start * T, stop * T, T, None
    if batch.real is not None:
        first, last = torch.searchsorted(batch.real, torch.tensor([first, last])).tolist()
        row, place = batch.real[first:last] // T - start, batch.real[first:last] % T
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
        real=real,
        weights=None if batch.weights is None else batch.weights[first:last],
        lines=batch.lines[start:stop],
    )


def encode_pairs(
    pairs: Pairs, source: Tokenizer, target: Tokenizer, tell: Callable[[int], None]
) -> Encoded:
    """Both sides of every pair as ids; `tell` is told how many texts more are done."""
    return Encoded(
        pairs.name,
        ragged(source, pairs.sources(), tell),
        ragged(target, pairs.targets(), tell),
        pairs.lines,
    )


class Plan:
    """Which rows make up which batch.

    A batch costs its rows times its longest side, end marks included, and costs at most
    `budget`, unless one row alone is longer. Rows are ordered by target length and, within one,
    by source length, up and down in turn: so both sides of neighbours are of about one length.
    """

    def __init__(self, encoded: Encoded, budget: int):
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

    def rows(self, index: int) -> Numbers:
        """The rows of one batch, in the order in which they were cut."""
        return self.order[self.cuts[index] : self.cuts[index + 1]]

    def epoch(self, seed: int, epoch: int) -> Iterator[Numbers]:
        """Every row once: equals exchanged for equals, batches in random order."""
        choose = generator(seed, "batches", epoch)
        mixed = self.order[np.lexsort((choose.random(len(self.order)), self.kind))]
        for index in choose.permutation(len(self)):
            yield mixed[self.cuts[index] : self.cuts[index + 1]]


def _cut(longest: Numbers, budget: int) -> list[int]:
    cuts, most = [0], 0
    for row, length in enumerate(longest.tolist()):
        most = max(most, length)
        if most * (row + 1 - cuts[-1]) > budget and row > cuts[-1]:
            cuts.append(row)
            most = length
    return [*cuts, len(longest)]


def training_batches(encoded: Encoded, plan: Plan, seed: int, start: int) -> Iterator[Batch]:
    """Batches without end, from the `start`-th on, as if all before had been given."""
    epoch, skip = divmod(start, len(plan))
    while True:
        for index, rows in enumerate(plan.epoch(seed, epoch)):
            if index >= skip:
                yield encoded.batch(rows)
        epoch, skip = epoch + 1, 0
