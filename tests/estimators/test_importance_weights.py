"""Weights for a world that has moved: they are the ratio they are meant to be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from saccade.estimators.shift.importance_weights import (
    covariate_weights,
    effective_sample_size,
    estimate_label_shift,
    fit_domain_classifier,
)


def gaussians(N, M, move, seed):
    random = np.random.default_rng(seed)
    return random.normal(size=(N, 2)), random.normal(size=(M, 2)) + np.array([move, 0.0])


@settings(max_examples=10)
@given(st.sampled_from([(3000, 3000), (3000, 1000), (1500, 4000)]), st.integers(0, 99))
def test_the_ratio_of_two_gaussians_is_found(sizes, seed):
    # log p(x) / q(x) = move · x - move² / 2, however many rows there are of each
    source, target = gaussians(*sizes, 0.8, seed)
    found = fit_domain_classifier(source, target).log_ratio(source)
    np.testing.assert_allclose(found, 0.8 * source[:, 0] - 0.32, atol=0.45)
    assert np.abs(found - (0.8 * source[:, 0] - 0.32)).mean() < 0.15


def test_weighted_means_are_those_of_the_target():
    source, target = gaussians(4000, 2000, 0.7, 0)
    weights = covariate_weights(source, target, max_weight=50.0).values
    mean = weights @ source / weights.sum()
    np.testing.assert_allclose(mean, target.mean(axis=0), atol=0.06)
    assert weights.mean() == pytest.approx(1, abs=0.1)
    assert np.abs(source.mean(axis=0) - target.mean(axis=0)).max() > 0.6


def test_with_as_many_of_each_it_is_the_algorithm_of_d2l():
    source, target = gaussians(200, 200, 1.0, 1)
    both = np.concatenate([source, target])
    rows = (both - both.mean(axis=0)) / both.std(axis=0)
    sign = np.repeat([-1.0, 1.0], 200)

    def loss(w):  # of two softmax rows ±w/2: a penalty of ½ Σ (w/2)², twice
        return np.log1p(np.exp(-sign * (rows @ w[:2] + w[2]))).sum() + (w[:2] ** 2).sum() / 4

    w = minimize(loss, np.zeros(3), options={"gtol": 1e-8}).x
    h = rows[:200] @ w[:2] + w[2]
    found = covariate_weights(source, target, max_weight=3.0)
    np.testing.assert_allclose(found.values, np.minimum(np.exp(h), 3.0), rtol=1e-3)
    assert found.clipped == (np.exp(h) > 3.0).sum() > 0


def test_the_effective_size_is_between_one_and_all():
    assert effective_sample_size(np.ones(7)) == pytest.approx(7)
    assert effective_sample_size(np.array([0, 3.0, 0])) == pytest.approx(1)
    source, target = gaussians(500, 500, 2.0, 2)
    free, held = (covariate_weights(source, target, max_weight) for max_weight in (1e9, 2.0))
    assert 1 < free.effective_rows < held.effective_rows < 500
    assert free.effective_rows == pytest.approx(free.values.sum() ** 2 / (free.values**2).sum())


def test_learning_with_weights_is_better_where_the_target_is():
    # a straight line for a curve: it can only be right in one place
    random = np.random.default_rng(3)
    source, target = random.normal(0, 1, (2000, 1)), random.normal(1.2, 0.5, (2000, 1))
    weights = covariate_weights(source, target, max_weight=50.0).values

    def error(weights):
        line = np.polyfit(source[:, 0], np.sin(2 * source[:, 0]), 1, w=np.sqrt(weights))
        return np.mean((np.polyval(line, target[:, 0]) - np.sin(2 * target[:, 0])) ** 2)

    assert error(weights) < 0.6 * error(np.ones(2000))


# --- labels ---------------------------------------------------------------------------------------


def answers(truth, confusion, random):
    """One answer each, drawn by the column of its class."""
    predicted = [random.choice(len(confusion), p=confusion[:, y]) for y in truth]
    return np.eye(len(confusion))[predicted]


CONFUSION = np.array([[0.8, 0.1, 0.1], [0.15, 0.7, 0.2], [0.05, 0.2, 0.7]])


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_how_often_classes_come_is_found_without_their_labels(seed):
    random = np.random.default_rng(seed)
    q, p = np.array([0.5, 0.3, 0.2]), random.dirichlet(np.ones(3) * 2)
    here, there = random.choice(3, 3000, p=q), random.choice(3, 3000, p=p)
    found = estimate_label_shift(
        here, answers(here, CONFUSION, random), answers(there, CONFUSION, random)
    )
    np.testing.assert_allclose(found.target, p, atol=0.08)
    np.testing.assert_allclose(found.source, np.bincount(here) / 3000)
    np.testing.assert_allclose(found.weights, found.target / found.source)
    assert found.condition == pytest.approx(np.linalg.cond(CONFUSION), rel=0.2)


def test_the_system_is_solved_as_it_is_written():
    truth = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    predicted = np.eye(2)[[0, 0, 0, 1, 1, 1, 1, 0]]
    target = np.eye(2)[[1, 1, 1, 0]]
    # C = [[¾, ¼], [¼, ¾]], μ = (¼, ¾): p = (0, 1)
    found = estimate_label_shift(truth, predicted, target)
    np.testing.assert_allclose(found.target, [0, 1], atol=1e-12)
    np.testing.assert_allclose(found.weights, [0, 2], atol=1e-12)
    beyond = estimate_label_shift(truth, predicted, np.eye(2)[[1, 1]])  # p = (-½, 1½)
    np.testing.assert_allclose(beyond.target, [0, 1], atol=1e-12)


def test_importance_weights_refuses_invalid_input():
    truth = np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match="hardly depend on the class.*merging the classes"):
        estimate_label_shift(truth, np.full((4, 2), 0.5), np.eye(2))
    with pytest.raises(ValueError, match=r"no held-out source row of class \[2\]"):
        estimate_label_shift(truth, np.eye(3)[truth], np.eye(3))
    with pytest.raises(ValueError, match="expected one label per prediction"):
        estimate_label_shift(truth, np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match="source rows of 2 numbers and target rows of 1"):
        covariate_weights(np.ones((3, 2)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="target rows.*finite numbers"):
        covariate_weights(np.ones((3, 2)), np.full((3, 2), np.nan))
