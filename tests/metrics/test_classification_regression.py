"""Figures of classes and of numbers, against loops from their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.metrics import accuracy, confusion_matrix, f1_scores, macro_f1, mae, r_squared, rmse

classes = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(classes)
def test_classes_by_counting(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    table = confusion_matrix(truth, predicted, 5)
    for i in range(5):
        for j in range(5):
            assert table[i, j] == pairs.count((i, j))
    assert accuracy(truth, predicted) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    expected = {}
    for c in range(5):
        tp = sum(a == b == c for a, b in pairs)
        fp = sum(b == c != a for a, b in pairs)
        fn = sum(a == c != b for a, b in pairs)
        if tp + fp + fn:
            precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
            both = precision + recall
            expected[c] = 2 * precision * recall / both if both else 0.0
    found = f1_scores(truth, predicted, 5)
    assert {c: pytest.approx(f) for c, f in enumerate(found) if f == f} == expected
    assert macro_f1(truth, predicted, 5) == pytest.approx(np.mean([*expected.values()]))


@given(classes)
def test_classification_regression_agrees_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    scores = pytest.importorskip("sklearn.metrics")
    truth, predicted = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    truth = np.maximum(truth, 0)
    assert macro_f1(truth, predicted, 5) == pytest.approx(
        scores.f1_score(truth, predicted, average="macro", zero_division=0)
    )
    np.testing.assert_array_equal(
        confusion_matrix(truth, predicted, 5),
        scores.confusion_matrix(truth, predicted, labels=range(5)),
    )


numbers = st.lists(
    st.tuples(st.floats(-1e3, 1e3, width=32), st.floats(-1e3, 1e3, width=32)), min_size=2
)


@given(numbers)
def test_numbers_by_their_definitions(pairs: list[tuple[float, float]]) -> None:
    truth, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    errors = [b - a for a, b in pairs]
    count = len(pairs)
    assert mae(truth, predicted) == pytest.approx(sum(map(abs, errors)) / count)
    assert rmse(truth, predicted) == pytest.approx((sum(e * e for e in errors) / count) ** 0.5)
    mean = sum(a for a, _ in pairs) / count
    spread = sum((a - mean) ** 2 for a, _ in pairs)
    if spread > 1e-3:
        expected = 1 - sum(e * e for e in errors) / spread
        assert r_squared(truth, predicted) == pytest.approx(expected, rel=1e-5)


def test_r_squared_of_mean_is_zero_and_of_constant_targets_nan() -> None:
    truth = np.array([1.0, 2.0, 6.0])
    assert r_squared(truth, np.full(3, 3.0)) == 0.0
    assert r_squared(truth, truth) == 1.0
    assert np.isnan(r_squared(np.ones(3), truth))
