"""Baselines, held against a dense decomposition."""

import numpy as np

from saccade.estimators.word_vectors.baselines import (
    one_hot_vectors,
    symmetric_sparse_matmul,
    truncated_svd,
)
from saccade.estimators.word_vectors.glove import Cooccurrences


def some_pairs(words: int, count: int) -> tuple[Cooccurrences, np.ndarray]:
    """Pairs at random, and the matrix they stand for."""
    random = np.random.default_rng(1)
    cells = {(int(a), int(b)) for a, b in random.integers(0, words, (count, 2)) if b <= a}
    first, second = (np.array(part, np.int32) for part in zip(*sorted(cells), strict=True))
    weight = random.random(len(first), np.float32) * 9
    matrix = np.zeros((words, words))
    matrix[first, second] = np.log1p(weight)
    matrix[second, first] = np.log1p(weight)
    return Cooccurrences(first, second, weight), matrix


def test_a_product_is_the_matrixs() -> None:
    pairs, matrix = some_pairs(20, 150)
    by = np.random.default_rng(2).standard_normal((20, 3)).astype(np.float32)
    found = symmetric_sparse_matmul(pairs.first, pairs.second, np.log1p(pairs.weight), by)
    assert np.allclose(found, matrix @ by, atol=1e-4)


def test_the_low_rank_is_that_of_a_dense_decomposition() -> None:
    pairs, matrix = some_pairs(14, 90)
    rows = truncated_svd(pairs, 14, 6, seed=1)
    sizes, turned = np.linalg.eigh(matrix)
    largest = np.argsort(-np.abs(sizes))[:6]
    expected_value = turned[:, largest] * np.sqrt(np.abs(sizes[largest]))
    # an axis may point either way
    assert np.allclose(np.abs(rows), np.abs(expected_value), atol=1e-3)


def test_more_columns_than_words_are_empty() -> None:
    pairs, _ = some_pairs(5, 30)
    rows = truncated_svd(pairs, 5, 9, seed=1)
    assert rows.shape == (5, 9) and not rows[:, 5:].any()


def test_one_hot_words_are_at_right_angles() -> None:
    assert np.array_equal(one_hot_vectors(4) @ one_hot_vectors(4).T, np.eye(4))
