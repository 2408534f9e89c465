import math
from collections import Counter
from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.estimators.word_vectors.sampling import (
    alias_table,
    huffman_paths,
    keep_probabilities,
    next_bits,
    random_below,
    random_uniform,
    rng_state,
    sample_alias,
)

MASK = (1 << 64) - 1


def slow_draw(state: int) -> tuple[int, int]:
    """xorshift64*, from Vigna's paper, in whole numbers of any size: (next state, bits)."""
    state ^= state >> 12
    state = (state ^ (state << 25)) & MASK
    state ^= state >> 27
    return state, (state * 2685821657736338717) & MASK


@given(st.integers(1, MASK))
def test_rng_stream_equals_xorshift64star(start: int) -> None:
    state = np.array([start], np.uint64)
    slow = start
    for _ in range(5):
        slow, bits = slow_draw(slow)
        assert int(next_bits(state)) == bits


def test_streams_of_different_purposes_differ_and_repeat() -> None:
    assert len({int(rng_state(1, block)[0]) for block in range(1000)}) == 1000
    assert rng_state(3, 4) == rng_state(3, 4)


def test_numbers_below_and_chances_are_even() -> None:
    state = rng_state(1)
    numbers = Counter(random_below(state, 7) for _ in range(70_000))
    assert sorted(numbers) == list(range(7))
    squared = sum((count - 10_000) ** 2 / 10_000 for count in numbers.values())
    assert squared < 22.5  # chi-squared, 6 degrees: one in a thousand is above
    chances = np.array([random_uniform(state) for _ in range(10_000)])
    assert 0 <= chances.min() and chances.max() < 1
    assert chances.mean() == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / 10_000))


# --- words by their frequency ---------------------------------------------------------------------


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_the_alias_table_holds_the_weights_exactly(counts: list[int]) -> None:
    weights = np.array(counts, np.float64) ** 0.75
    table = alias_table(weights)
    share = table[:, 0].astype(np.float64) / 2**32
    mass = share.copy()
    np.add.at(mass, table[:, 1], 1 - share)
    assert mass / len(counts) == pytest.approx(weights / weights.sum(), rel=1e-6, abs=1e-8)


def test_words_are_drawn_by_their_weights() -> None:
    weights = np.array([5.0, 1.0, 0.1, 3.0])
    table, state = alias_table(weights), rng_state(2)
    seen = Counter(sample_alias(state, table) for _ in range(50_000))
    expected = 50_000 * weights / weights.sum()
    squared = sum((seen[word] - expected[word]) ** 2 / expected[word] for word in range(4))
    assert squared < 16.3  # 3 degrees, one in a thousand


def test_frequent_words_are_left_out_as_word2vec_does() -> None:
    counts = np.array([900_000, 99_000, 1_000])
    # word2vec.c: (sqrt(count / (t · total)) + 1) · (t · total) / count
    total, t = counts.sum(), 1e-3
    expected = [min(1.0, (math.sqrt(n / (t * total)) + 1) * (t * total) / n) for n in counts]
    assert keep_probabilities(counts, t) == pytest.approx(expected)
    assert (keep_probabilities(counts, 0) == 1).all()


# --- Huffman's code -------------------------------------------------------------------------------


def cost(counts: list[int]) -> int:
    """Σ count · length of the best code: the sums of the two smallest, over and over."""
    heap, total = list(counts), 0
    heapify(heap)
    while len(heap) > 1:
        both = heappop(heap) + heappop(heap)
        total += both
        heappush(heap, both)
    return total


@given(st.lists(st.integers(1, 100), min_size=2, max_size=40))
def test_the_tree_is_the_shortest_and_every_word_is_found(counts: list[int]) -> None:
    paths = huffman_paths(np.array(counts))
    lengths = np.diff(paths.starts)
    assert int((lengths * counts).sum()) == cost(counts)
    codes = set()
    for word in range(len(counts)):
        part = slice(paths.starts[word], paths.starts[word + 1])
        nodes, code_bits = paths.nodes[part].tolist(), paths.code_bits[part].tolist()
        assert nodes[0] == len(counts) - 2, "every path starts at the root"
        assert all(0 <= node < len(counts) - 1 for node in nodes)
        codes.add(tuple(code_bits))
    assert len(codes) == len(counts)
    assert not any(a != b and b[: len(a)] == a for a in codes for b in codes), (
        "no code is a prefix of another"
    )


def test_a_single_word_needs_no_path() -> None:
    assert huffman_paths(np.array([3])).starts.tolist() == [0, 0]
