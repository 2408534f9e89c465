"""Bags of ids: ragged rows in two flat arrays. Does not import torch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from saccade.types.arrays import Int32Array, IntArray


class Bags(NamedTuple):
    """Rows of ids: those of row t are rows[starts[t] : starts[t + 1]]."""

    starts: IntArray
    rows: Int32Array

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    @property
    def owners(self) -> IntArray:
        """The index of the row of each id."""
        return np.repeat(np.arange(self.size), np.diff(self.starts))

    def take(self, chosen: IntArray) -> "Bags":
        """Return the rows at the indices, in that order."""
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        positions = np.repeat(self.starts[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
        return Bags(starts, self.rows[positions])


def make_bags(rows: list[list[int]]) -> Bags:
    """Return lists of ids as bags."""
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Bags(starts, np.array([number for row in rows for number in row], np.int32))


def join_bags(parts: Sequence[Bags]) -> Bags:
    """Return the rows of all parts, one after another."""
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.starts) for part in parts)])
    rows = np.concatenate([np.zeros(0, np.int32), *(part.rows for part in parts)])
    return Bags(np.cumsum(lengths), rows)
