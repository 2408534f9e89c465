"""Figures of classes and of numbers, against loops from their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.metrics import accuracy, confusion_matrix, f1_scores, macro_f1, mae, r_squared, rmse

classes = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(classes)
def test_classes_by_counting(pairs: list[tuple[int, int]]) -> None:
    truth, said = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    table = confusion_matrix(truth, said, 5)
    for i in range(5):
        for j in range(5):
            assert table[i, j] == pairs.count((i, j))
    assert accuracy(truth, said) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    expected = {}
    for c in range(5):
        tp = sum(a == b == c for a, b in pairs)
        fp = sum(b == c != a for a, b in pairs)
        fn = sum(a == c != b for a, b in pairs)
        if tp + fp + fn:
            precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
            both = precision + recall
            expected[c] = 2 * precision * recall / both if both else 0.0
    found = f1_scores(truth, said, 5)
    assert {c: pytest.approx(f) for c, f in enumerate(found) if f == f} == expected
    assert macro_f1(truth, said, 5) == pytest.approx(np.mean([*expected.values()]))


@given(classes)
def test_they_are_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    scores = pytest.importorskip("sklearn.metrics")
    truth, said = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    truth = np.maximum(truth, 0)
    assert macro_f1(truth, said, 5) == pytest.approx(
        scores.f1_score(truth, said, average="macro", zero_division=0)
    )
    np.testing.assert_array_equal(
        confusion_matrix(truth, said, 5), scores.confusion_matrix(truth, said, labels=range(5))
    )


numbers = st.lists(
    st.tuples(st.floats(-1e3, 1e3, width=32), st.floats(-1e3, 1e3, width=32)), min_size=2
)


@given(numbers)
def test_numbers_by_their_definitions(pairs: list[tuple[float, float]]) -> None:
    truth, said = (np.array(side) for side in zip(*pairs, strict=True))
    errors = [b - a for a, b in pairs]
    count = len(pairs)
    assert mae(truth, said) == pytest.approx(sum(map(abs, errors)) / count)
    assert rmse(truth, said) == pytest.approx((sum(e * e for e in errors) / count) ** 0.5)
    mean = sum(a for a, _ in pairs) / count
    spread = sum((a - mean) ** 2 for a, _ in pairs)
    if spread > 1e-3:
        expected = 1 - sum(e * e for e in errors) / spread
        assert r_squared(truth, said) == pytest.approx(expected, rel=1e-5)


def test_the_mean_explains_nothing_and_one_value_has_no_variance() -> None:
    truth = np.array([1.0, 2.0, 6.0])
    assert r_squared(truth, np.full(3, 3.0)) == 0.0
    assert r_squared(truth, truth) == 1.0
    assert np.isnan(r_squared(np.ones(3), truth))
