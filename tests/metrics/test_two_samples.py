"""Tests of two samples, held against scipy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from saccade.metrics.two_samples import (
    auc,
    auc_permutation_test,
    categorical_two_sample_test,
    chi_squared_sf,
    chi_squared_test,
    holm_correction,
    kolmogorov_smirnov_test,
    ks_asymptotic_p_value,
)

SAMPLES = st.lists(st.integers(-5, 5) | st.floats(-5, 5), min_size=1, max_size=25)


@given(SAMPLES, SAMPLES)
def test_small_samples_are_counted_out_as_scipy_does(first, second):
    found = kolmogorov_smirnov_test(first, second)
    try:
        theirs = stats.ks_2samp(first, second, method="exact")
    except RuntimeWarning:  # rounding has brought its p above 1, and it gives up
        assert found.p == pytest.approx(1)
        return
    assert found.statistic == pytest.approx(theirs.statistic, abs=1e-12)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-9)


@pytest.mark.parametrize(("m", "n", "move"), [(300, 300, 0.05), (150, 900, 0.2), (2000, 700, 0.1)])
def test_large_samples_come_near_the_exact_chance(m, n, move):
    random = np.random.default_rng(m)
    first, second = random.normal(size=m), random.normal(move, size=n)
    found = kolmogorov_smirnov_test(first, second)
    theirs = stats.ks_2samp(first, second, method="exact")
    assert found.statistic == pytest.approx(theirs.statistic)
    assert found.p == pytest.approx(theirs.pvalue, rel=0.1)


def test_the_limit_is_kolmogorovs():
    for reach in (0.05, 0.2, 0.3, 0.7, 1.0, 1.36, 2.5, 5.0):
        assert ks_asymptotic_p_value(reach) == pytest.approx(
            special.kolmogorov(reach), rel=1e-9, abs=1e-15
        )


@given(st.integers(1, 40), st.floats(0, 200))
def test_chi_squared_has_its_tail(degrees_of_freedom, statistic):
    expected_value = stats.chi2.sf(statistic, degrees_of_freedom)
    assert chi_squared_sf(statistic, degrees_of_freedom) == pytest.approx(expected_value, rel=1e-9)


@given(st.integers(2, 3), st.integers(2, 5), st.integers(0, 999))
def test_a_table_is_tested_as_scipy_does(rows, columns, seed):
    table = np.random.default_rng(seed).integers(1, 30, size=(rows, columns))
    theirs = stats.chi2_contingency(table, correction=False)
    found = chi_squared_test(table)
    assert found.statistic == pytest.approx(theirs.statistic)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-9)


def test_categories_are_counted_and_rare_ones_joined():
    first = np.array(["a"] * 30 + ["b"] * 20 + ["c"] * 2 + ["d"])
    second = np.array(["a"] * 50 + ["b"] * 10 + ["e"] * 3)
    theirs = stats.chi2_contingency([[30, 20, 3], [50, 10, 3]], correction=False)
    found = categorical_two_sample_test(first, second, min_expected=2.0)
    assert found.p == pytest.approx(theirs.pvalue)
    every = stats.chi2_contingency([[30, 20, 2, 1, 0], [50, 10, 0, 0, 3]], correction=False)
    assert categorical_two_sample_test(first, second, min_expected=0.0).p == pytest.approx(
        every.pvalue
    )
    assert categorical_two_sample_test(first, first).p == 1
    assert (
        categorical_two_sample_test(np.array([1, 1]), np.array([1])).p == 1
    )  # one value carries no information


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_its_own_definition(p_values):
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    expected_value, above = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        above = max(above, min(1.0, (len(p_values) - rank) * p_values[i]))
        expected_value[i] = above
    np.testing.assert_allclose(holm_correction(p_values), expected_value)


@given(SAMPLES, SAMPLES)
def test_the_auc_is_the_share_of_pairs_in_order(first, second):
    pairs = [(b > a) + (b == a) / 2 for a in first for b in second]
    assert auc(first, second) == pytest.approx(np.mean(pairs))
    expected_value = stats.mannwhitneyu(second, first).statistic / (len(first) * len(second))
    assert auc(first, second) == pytest.approx(expected_value)


@settings(max_examples=8)
@given(st.integers(0, 99))
def test_auc_permutation_range_under_null(seed):
    random = np.random.default_rng(seed)
    first, second = random.normal(size=80), random.normal(0.2, size=60)
    found = auc_permutation_test(first, second, seed, n_resamples=1999)
    theirs = stats.mannwhitneyu(second, first, alternative="greater")
    assert found.auc == pytest.approx(auc(first, second))
    assert found.p == pytest.approx(theirs.pvalue, abs=0.04)
    # without ties the AUC of chance has the variance (N + M + 1) / 12NM
    wide = 1.96 * np.sqrt(141 / (12 * 80 * 60))
    assert (found.low, found.high) == pytest.approx((0.5 - wide, 0.5 + wide), abs=0.02)
    assert auc_permutation_test(first, second, seed) == auc_permutation_test(first, second, seed)


def test_two_samples_refuses_invalid_input():
    with pytest.raises(ValueError, match=r"sample of shape \(0,\)"):
        kolmogorov_smirnov_test([], [1.0])
    with pytest.raises(ValueError, match="one-dimensional array of numbers"):
        auc([np.nan], [1.0])
    with pytest.raises(ValueError, match="table of numbers, 0 or more"):
        chi_squared_test([[1, -1], [2, 2]])
    with pytest.raises(ValueError, match="samples of 0 and 1"):
        categorical_two_sample_test(np.array([], str), np.array(["a"]))
