"""Correlations agree with scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from saccade.metrics.correlation import pearson, spearman

ratings = st.lists(st.integers(0, 4), min_size=2, max_size=20)


@given(ratings, st.integers(0, 1000))
def test_correlations_agree_with_scipy_with_ties(values: list[int], seed: int) -> None:
    one = np.array(values, np.float64)
    other = np.random.default_rng(seed).integers(0, 4, len(one)).astype(np.float64)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert np.isnan(spearman(one, other)) and np.isnan(pearson(one, other))
    else:
        assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic, abs=1e-12)
        assert pearson(one, other) == pytest.approx(pearsonr(one, other).statistic, abs=1e-12)


@pytest.mark.parametrize("count", [0, 1])
def test_spearman_of_fewer_than_two_values_is_nan(count: int) -> None:
    assert np.isnan(spearman(np.zeros(count), np.zeros(count)))
    assert np.isnan(pearson(np.zeros(count), np.zeros(count)))


def test_correlation_of_large_values_does_not_overflow() -> None:
    values = np.array([1e300, -1e300, 5e299])
    assert pearson(values, values) == pytest.approx(1)
