"""Bandits against textbook loops, enumerated gradients, and proven bounds on the regret."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from saccade.estimators.reinforcement.bandits import (
    BANDIT_METHODS,
    UCB1,
    Arms,
    EpsilonGreedyArms,
    GradientBandit,
    OptimisticArms,
    bernoulli_divergence,
    parse_arms,
    run_bandit,
)

ARMS = parse_arms([0.9, 0.8, 0.6, 0.5])
STEPS, RUNS = 2000, 100


@pytest.fixture(scope="module")
def results() -> Any:
    return {
        name: run_bandit(method, ARMS, steps=STEPS, runs=RUNS, seed=1)
        for name, method in BANDIT_METHODS.items()
    }


def test_methods_explore_as_their_theory_predicts(results: Any) -> None:
    mean = {name: found.regret.mean(axis=0) for name, found in results.items()}
    # ε-greedy: once the best arm is known, ε times the mean gap at each step
    slope = (mean["ε-greedy, ε = 0.1"][-1] - mean["ε-greedy, ε = 0.1"][-501]) / 500
    assert slope >= 0.1 * ARMS.gaps.mean() * 0.9
    # UCB1: Auer et al. 2002, theorem 1
    gaps = ARMS.gaps[ARMS.gaps > 0]
    bound = 8 * (math.log(STEPS) / gaps).sum() + (1 + math.pi**2 / 3) * gaps.sum()
    assert ARMS.lower_bound() * math.log(STEPS) < mean["UCB1"][-1] < bound
    # Thompson sampling attains the constant of the lower bound asymptotically
    late = (mean["Thompson sampling"][-1] - mean["Thompson sampling"][STEPS // 4]) / math.log(4)
    assert late < 2 * ARMS.lower_bound()
    assert mean["Thompson sampling"][-1] < mean["UCB1"][-1] / 2
    for name, found in results.items():
        assert found.best[-200:].mean() > 1.5 / 4, name
        assert (np.diff(found.regret, axis=1) >= 0).all()


def test_lower_bound_by_hand() -> None:
    assert Arms(np.array([0.5, 0.25])).lower_bound() == pytest.approx(
        0.25 / (0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    )
    for p, q in ((0.2, 0.7), (0.0, 0.5), (1.0, 0.3)):
        assert bernoulli_divergence(p, q) == pytest.approx(stats.entropy([p, 1 - p], [q, 1 - q]))
    assert Arms(np.array([1.0, 0.5])).lower_bound() == 0  # one loss decides
    assert Arms(np.array([0.5, 0.5])).lower_bound() == 0


def test_gradient_bandit_ascends_the_expected_reward() -> None:
    random = np.random.default_rng(2)
    start, baseline = random.normal(size=4), 0.3
    softmax = np.exp(start) / np.exp(start).sum()
    expected = np.zeros(4)
    for arm in range(4):
        for reward, p in ((1.0, ARMS.means[arm]), (0.0, 1 - ARMS.means[arm])):
            bandit = GradientBandit(1, 4)
            bandit.preferences[:], bandit.baseline[:] = start, baseline
            bandit.update(np.array([arm]), np.array([reward]))
            expected += softmax[arm] * p * (bandit.preferences[0] - start)
    # ∂/∂h_a Σ_b π_b μ_b = π_a (μ_a − Σ_b π_b μ_b), whatever the baseline
    gradient = softmax * (ARMS.means - softmax @ ARMS.means)
    np.testing.assert_allclose(expected, 0.1 * gradient, atol=1e-12)
    bandit = GradientBandit(20_000, 4)
    bandit.preferences[:] = start
    taken = np.bincount(bandit.select(1, random), minlength=4) / 20_000
    np.testing.assert_allclose(taken, softmax, atol=4 * 0.5 / math.sqrt(20_000))


def test_estimates_equal_loops() -> None:
    random = np.random.default_rng(0)
    plain, optimistic, ucb = EpsilonGreedyArms(3, 4), OptimisticArms(3, 4), UCB1(3, 4)
    seen: list[list[list[float]]] = [[[] for _ in range(4)] for _ in range(3)]
    moved = [[1.0] * 4 for _ in range(3)]
    for _ in range(40):
        taken, rewards = random.integers(4, size=3), random.integers(2, size=3).astype(float)
        for method in (plain, optimistic, ucb):
            method.update(taken, rewards)
        for run, (arm, reward) in enumerate(zip(taken.tolist(), rewards.tolist(), strict=True)):
            seen[run][arm].append(reward)
            moved[run][arm] += 0.1 * (reward - moved[run][arm])
    means = np.array([[sum(r) / len(r) for r in run] for run in seen])
    np.testing.assert_allclose(plain.means, means)
    np.testing.assert_allclose(optimistic.means, moved)
    widths = np.array([[math.sqrt(2 * math.log(41) / len(r)) for r in run] for run in seen])
    np.testing.assert_allclose(ucb.scores(41, random), means + widths)


def test_ucb_tries_each_arm_first_and_ties_are_broken_at_random() -> None:
    method, random = UCB1(500, 4), np.random.default_rng(5)
    first = method.select(1, random)
    assert np.bincount(first, minlength=4).min() > 90
    for step in range(1, 5):
        method.update(method.select(step, random), np.ones(500))
    assert (method.counts == 1).all()


def test_wrong_arms_are_refused() -> None:
    for values in ([0.5], [0.5, 1.5], [0.5, math.nan]):
        with pytest.raises(ValueError, match="expected two probabilities or more, from 0 to 1"):
            parse_arms(values)
