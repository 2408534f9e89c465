"""The order in which the rows of a table are learned from."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from saccade.seeding import generator


def shuffled_batches(
    count: int, size: int, seed: int, start: int = 0
) -> Iterator[NDArray[np.int64]]:
    """Batches of rows without end, from the `start`-th on.

    Each round through all rows has its own order, a function of the seed and the round, so that
    any batch is found without those before it. All rows in one batch stay as they are.
    """
    each = -(-count // size)  # batches in a round
    turn, place = divmod(start, each)
    while True:
        order = np.arange(count)
        if each > 1:
            order = generator(seed, "order of the rows", turn).permutation(count)
        for at in range(place, each):
            yield order[at * size : (at + 1) * size]
        turn, place = turn + 1, 0
