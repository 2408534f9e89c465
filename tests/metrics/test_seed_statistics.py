"""Interquartile mean and stratified bootstrap, against scipy and against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from saccade.metrics import interquartile_mean, stratified_bootstrap
from saccade.seeding import generator

SCORES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40)


@given(SCORES)
def test_interquartile_mean_is_scipys_trimmed_mean(scores: list[float]) -> None:
    expected = stats.trim_mean(scores, 0.25)
    assert float(interquartile_mean(scores)) == pytest.approx(expected, abs=1e-9)


def test_interquartile_mean_ignores_a_quarter_at_each_end() -> None:
    assert float(interquartile_mean([0, 10, 20, 1e9])) == 15
    assert float(interquartile_mean([[3, 1], [1e9, 2], [-1e9, 4]])) == 2.5  # runs of all tasks
    assert float(interquartile_mean([7.0])) == 7


def test_bootstrap_equals_loops() -> None:
    tasks = [np.array([1.0, 2.0, 3.0, 10.0]), np.array([5.0, 5.5, 9.0])]
    random = generator(3, "stratified bootstrap")
    rows = [random.integers(len(task), size=(50, len(task))) for task in tasks]
    means = []
    for resample in range(50):
        drawn: list[float] = []
        for task, indices in zip(tasks, rows, strict=True):
            drawn += [float(task[index]) for index in indices[resample]]
        drawn.sort()
        kept = drawn[len(drawn) // 4 : len(drawn) - len(drawn) // 4]
        means.append(sum(kept) / len(kept))
    found = stratified_bootstrap(tasks, seed=3, n_resamples=50)
    assert (found.low, found.high) == pytest.approx(np.quantile(means, [0.025, 0.975]))
    assert found.iqm == pytest.approx(stats.trim_mean(np.concatenate(tasks), 0.25))
    assert found.runs == 7


def test_interval_agrees_with_scipys_bootstrap() -> None:
    scores = np.random.default_rng(1).normal(size=25)
    found = stratified_bootstrap([scores], n_resamples=4000)
    other = stats.bootstrap(
        (scores,),
        lambda x, axis: stats.trim_mean(x, 0.25, axis=axis),
        n_resamples=4000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=0.05)


def test_strata_are_resampled_separately() -> None:
    # every run of a task has the same score: no resample can differ
    found = stratified_bootstrap([[1.0] * 5, [100.0] * 5])
    assert found.low == found.iqm == found.high


def test_no_scores_and_wrong_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="none of them empty"):
        stratified_bootstrap([[1.0], []])
    with pytest.raises(ValueError, match="got no scores"):
        interquartile_mean([])
    with pytest.raises(ValueError, match="a level between 0 and 1"):
        stratified_bootstrap([[1.0]], confidence_level=1.0)
