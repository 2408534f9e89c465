r"""Counts in constant memory: distinct values, lengths, frequent values.

Distinct values are counted with a bottom-k sketch (Bar-Yossef et al. 2002, "Counting distinct
elements in a data stream"): of the hashes of all values the k smallest are kept. Up to k values the
count is exact. Beyond, if the largest kept hash is the share u of the range of hashes,

    n ≈ (k − 1) / u        with a relative standard error of about 1 / √k

The number of occurrences of each kept value is exact, so the kept values are a uniform sample of
the distinct values with their frequencies.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from saccade.data.hashing import HashArray, hash_bytes
from saccade.types.arrays import IntArray

SKETCH_SIZE = 1 << 16  # k: the count is exact up to so many values, then within 0.4 %
MAX_COUNTED_VALUES = 1 << 12  # distinct values whose occurrences are counted
MAX_COUNTED_LENGTH = 200  # characters of such a value
LENGTH_BITS = 10  # significant bits of a counted length: lengths below 1,024 are exact


def hash_values(values: Iterable[str]) -> HashArray:
    """Return a 64-bit hash of each value, the same in every process."""
    return hash_bytes(value.encode("utf-8", "surrogatepass") for value in values)


class DistinctCounter:
    """A bottom-k sketch: the number of distinct values, exact up to `size`."""

    def __init__(self, size: int = SKETCH_SIZE):
        self.size, self.total, self.is_exact = size, 0, True
        self._hashes, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._new: list[tuple[HashArray, IntArray]] = []
        self._pending = 0

    def add(self, hashes: HashArray, counts: IntArray | None = None) -> None:
        """Count values by their hashes; `counts` has the occurrences of each."""
        counts = np.ones(len(hashes), np.int64) if counts is None else counts
        self.total += int(counts.sum())
        if not self.is_exact:
            kept = hashes <= self._hashes[-1]
            hashes, counts = hashes[kept], counts[kept]
        self._new.append((hashes, counts))
        self._pending += len(hashes)
        if self._pending >= self.size:
            self._merge()

    def _merge(self) -> None:
        if not self._new:
            return
        hashes = np.concatenate([self._hashes, *(new for new, _ in self._new)])
        counts = np.concatenate([self._counts, *(count for _, count in self._new)])
        self._new, self._pending = [], 0
        kept, index = np.unique(hashes, return_inverse=True)
        summed = np.bincount(index, weights=counts, minlength=len(kept)).astype(np.int64)
        if len(kept) > self.size:
            self.is_exact = False
        self._hashes, self._counts = kept[: self.size], summed[: self.size]

    def estimate(self) -> int:
        """Return the number of distinct values: exact, or estimated if `is_exact` is False."""
        self._merge()
        if self.is_exact:
            return len(self._hashes)
        if (self._counts == 1).all():  # no value of the sample repeats
            return self.total
        share = (float(self._hashes[-1]) + 1.0) / 2.0**64
        return min(self.total, round((self.size - 1) / share))


class Quantiles(NamedTuple):
    """Summary of a distribution of counts."""

    minimum: int
    low: int  # 5 %
    median: int
    high: int  # 95 %
    maximum: int
    mean: float


NO_LENGTHS = Quantiles(0, 0, 0, 0, 0, 0.0)


class LengthCounter:
    """Counts of lengths; a long one is rounded down to its ten leading bits."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total, self.sum, self.maximum = 0, 0, 0

    def add(self, length: int, count: int = 1) -> None:
        """Count a length `count` times."""
        shift = max(0, length.bit_length() - LENGTH_BITS)
        self.counts[length >> shift << shift] += count
        self.total += count
        self.sum += length * count
        self.maximum = max(self.maximum, length)

    def quantiles(self) -> Quantiles:
        """Return the quantiles: the smallest length that so large a share does not exceed."""
        if not self.total:
            return NO_LENGTHS
        lengths = sorted(self.counts)
        ends = np.cumsum([self.counts[length] for length in lengths])
        low, median, high = (
            lengths[int(np.searchsorted(ends, share * self.total))] for share in (0.05, 0.5, 0.95)
        )
        mean = self.sum / self.total
        return Quantiles(lengths[0], low, median, high, self.maximum, mean)


class ValueCounter:
    """Occurrences of values as long as they are few and short."""

    def __init__(self, limit: int = MAX_COUNTED_VALUES):
        self.limit = limit
        self.counts: Counter[str] | None = Counter()

    def add(self, counts: Counter[str]) -> None:
        """Add occurrences; beyond the limits no value is kept."""
        if self.counts is not None:
            self.counts.update(counts)
            if len(self.counts) > self.limit or max(map(len, counts)) > MAX_COUNTED_LENGTH:
                self.counts = None
