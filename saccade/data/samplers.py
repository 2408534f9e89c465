"""Samplers of row indices: shuffled batches and evenly spaced rows."""

from collections.abc import Iterator

import numpy as np

from saccade.seeding import generator
from saccade.types.arrays import IntArray

POOL_BATCHES = 32  # batches whose rows are sorted by length together


def shuffled_batches(count: int, size: int, seed: int, start: int = 0) -> Iterator[IntArray]:
    """Yield batches of row indices without end, from the `start`-th on.

    The order of each epoch is a function of the seed and the epoch, so that any batch is found
    without those before it. If one batch holds all rows, they are not shuffled.
    """
    per_epoch = -(-count // size)  # batches
    epoch, first = divmod(start, per_epoch)
    while True:
        order = np.arange(count)
        if per_epoch > 1:
            order = generator(seed, "order of the rows", epoch).permutation(count)
        for index in range(first, per_epoch):
            yield order[index * size : (index + 1) * size]
        epoch, first = epoch + 1, 0


def bucketed_batches(lengths: IntArray, size: int, seed: int, start: int = 0) -> Iterator[IntArray]:
    """Yield batches of rows of similar length without end, from the `start`-th on.

    Each epoch shuffles the rows, sorts them by length within pools of some batches, so that a batch
    has little padding, and shuffles the batches. As for `shuffled_batches`, the order is a function
    of the seed and the epoch.
    """
    count = len(lengths)
    per_epoch = -(-count // size)
    epoch, first = divmod(start, per_epoch)
    while True:
        choose = generator(seed, "order of the rows", epoch)
        order = choose.permutation(count)
        pool = np.arange(count) // (size * POOL_BATCHES)
        order = order[np.lexsort((lengths[order], pool))]
        for index in choose.permutation(per_epoch)[first:]:
            yield order[index * size : (index + 1) * size]
        epoch, first = epoch + 1, 0


def evenly_spaced_rows(total: int, count: int) -> IntArray:
    """Return up to `count` distinct rows of `total`, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, total - 1, min(count, total)).astype(np.int64))
