"""Counts in constant memory, against counts of everything."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.records.sketches import (
    DistinctCounter,
    LengthCounter,
    ValueCounter,
    hash_values,
)

chunks_of_values = st.lists(st.lists(st.integers(0, 60).map(str), max_size=40), max_size=8)


@given(chunks_of_values, st.integers(61, 80))
def test_few_distinct_values_are_counted_exactly(chunks: list[list[str]], size: int) -> None:
    counter = DistinctCounter(size)
    for chunk in chunks:
        counter.add(hash_values(chunk))
    assert counter.estimate() == len({value for chunk in chunks for value in chunk})
    assert counter.total == sum(map(len, chunks)) and counter.is_exact


@given(chunks_of_values, st.integers(4, 20))
def test_a_sketch_does_not_depend_on_the_order_of_the_chunks(
    chunks: list[list[str]], size: int
) -> None:
    one, other = DistinctCounter(size), DistinctCounter(size)
    for chunk in chunks:
        one.add(hash_values(chunk))
    for chunk in reversed(chunks):
        counts = Counter(chunk)
        other.add(hash_values(counts), np.array(list(counts.values()), np.int64))
    assert one.estimate() == other.estimate() and one.is_exact == other.is_exact


def test_many_distinct_values_are_estimated_within_the_stated_error() -> None:
    size, true = 1024, 50_000
    counter = DistinctCounter(size)
    for start in range(0, 2 * true, 8192):  # each value twice
        counter.add(hash_values(str(n % true) for n in range(start, min(start + 8192, 2 * true))))
    assert not counter.is_exact
    # four standard errors of 1 / √k
    assert abs(counter.estimate() - true) < 4 * true / size**0.5
    assert counter.estimate() != true


def test_values_that_never_repeat_are_as_many_as_rows() -> None:
    counter = DistinctCounter(64)
    counter.add(hash_values(map(str, range(5000))))
    assert not counter.is_exact and counter.estimate() == 5000


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=200))
def test_quantiles_of_lengths_are_within_a_thousandth(lengths: list[int]) -> None:
    counter = LengthCounter()
    for length in lengths:
        counter.add(length)
    found = counter.quantiles()
    for share, value in ((0.05, found.low), (0.5, found.median), (0.95, found.high)):
        true = int(np.quantile(lengths, share, method="inverted_cdf"))
        assert true * (1 - 2**-9) <= value <= true
    assert found.maximum == max(lengths)
    np.testing.assert_allclose(found.mean, np.mean(lengths))
    assert len(counter.counts) <= 1024 + 10 * 512


def test_values_are_counted_as_long_as_they_are_few_and_short() -> None:
    counter = ValueCounter(limit=3)
    counter.add(Counter("aab"))
    counter.add(Counter("bc"))
    assert counter.counts == {"a": 2, "b": 2, "c": 1}
    counter.add(Counter("d"))
    assert counter.counts is None
    long = ValueCounter()
    long.add(Counter(["x" * 1000]))
    assert long.counts is None
