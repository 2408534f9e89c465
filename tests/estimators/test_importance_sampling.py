"""Off-policy evaluation against exact values, and exact variances against an enumeration."""

from dataclasses import fields

import numpy as np
import pytest

from saccade.estimators.reinforcement.episodes import EpisodeBatch, sample_episodes
from saccade.estimators.reinforcement.importance_sampling import (
    OFF_POLICY_ESTIMATORS,
    estimate_off_policy,
    importance_ratios,
    off_policy_moments,
)
from saccade.estimators.reinforcement.mdp import TransitionTable
from saccade.types.arrays import FloatArray
from tests.estimators.worlds import random_table

GAMMA, HORIZON = 0.9, 40


def policies(seed: int, states: int) -> tuple[FloatArray, FloatArray]:
    random = np.random.default_rng(seed)
    target = random.dirichlet(np.ones(2), size=states)
    return target, 0.7 * target + 0.3 * target[:, ::-1]


def enumerate_episodes(
    table: TransitionTable, target: FloatArray, behaviour: FloatArray, horizon: int
) -> list[tuple[float, float, float]]:
    """Return probability under b, ρ G and the per-decision term of every episode."""
    found: list[tuple[float, float, float]] = []

    def follow(s: int, p: float, rho: float, G: float, decision: float, t: int) -> None:
        for a in range(table.num_actions):
            b, w = behaviour[s, a], rho * target[s, a] / behaviour[s, a]
            for m, chance in enumerate(table.probabilities[s, a]):
                r = GAMMA**t * table.rewards[s, a, m]
                step = (p * b * chance, w, G + r, decision + w * r)
                if table.terminated[s, a, m] or t + 1 == horizon:
                    found.append((step[0], step[1] * step[2], step[3]))
                else:
                    follow(int(table.next_states[s, a, m]), *step, t + 1)

    for state, p in enumerate(table.start):
        follow(state, p, 1.0, 0.0, 0.0, 0)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_moments_equal_those_of_all_episodes(seed: int) -> None:
    table = random_table(seed, states=2)
    target, behaviour = policies(seed, 2)
    p, ordinary, decision = np.array(enumerate_episodes(table, target, behaviour, 4)).T
    found = off_policy_moments(table, target, behaviour, GAMMA, horizon=4)
    assert p.sum() == pytest.approx(1)
    assert found.value == pytest.approx(p @ ordinary) == pytest.approx(p @ decision)
    assert found.ordinary_variance == pytest.approx(p @ (ordinary - found.value) ** 2)
    assert found.per_decision_variance == pytest.approx(p @ (decision - found.value) ** 2)


def test_estimators_are_unbiased_with_the_exact_variance() -> None:
    table = random_table(2)
    target, behaviour = policies(8, 3)
    exact = off_policy_moments(table, target, behaviour, GAMMA, HORIZON)
    values = table.policy_values(target, GAMMA)
    assert exact.value == pytest.approx(float(table.start @ values), abs=1e-6)
    batch = sample_episodes(table, behaviour, 10_000, max_steps=HORIZON, seed=4)
    found = {
        name: estimate_off_policy(batch, target, behaviour, GAMMA, name)
        for name in OFF_POLICY_ESTIMATORS
    }
    for name, estimate in found.items():
        low, high = estimate.interval
        assert low < exact.value < high, name
    for name, variance in (
        ("ordinary", exact.ordinary_variance),
        ("per_decision", exact.per_decision_variance),
    ):
        # 10⁴ terms with a heavy tail
        assert found[name].standard_error == pytest.approx(np.sqrt(variance / 1e4), rel=0.2)
    on_policy = batch.discounted_returns(GAMMA).mean()
    low, high = found["ordinary"].interval
    assert not low < on_policy < high  # without ratios: the value of the behaviour
    assert found["weighted"].standard_error < found["ordinary"].standard_error


def test_weighted_sampling_is_biased_for_one_episode_and_consistent() -> None:
    table = random_table(2)
    target, behaviour = policies(8, 3)
    exact = off_policy_moments(table, target, behaviour, GAMMA, HORIZON).value
    batch = sample_episodes(table, behaviour, 2000, max_steps=HORIZON, seed=1)
    single = []
    for row in range(len(batch.lengths)):
        one = EpisodeBatch(*(getattr(batch, f.name)[row : row + 1] for f in fields(batch)))
        # the ratio cancels: the value of the behaviour
        single.append(estimate_off_policy(one, target, behaviour, GAMMA, "weighted").value)
    margin = 4 * np.std(single) / np.sqrt(len(single))
    of_behaviour = table.start @ table.policy_values(behaviour, GAMMA)
    assert abs(np.mean(single) - of_behaviour) < margin < abs(exact - of_behaviour)


def test_ratios_by_loops() -> None:
    table = random_table(6)
    target, behaviour = policies(1, 3)
    batch = sample_episodes(table, behaviour, 20, max_steps=6, seed=0)
    found = importance_ratios(batch, target, behaviour)
    for row in range(20):
        product = 1.0
        for t in range(6):
            if t < batch.lengths[row]:
                at = batch.states[row, t], batch.actions[row, t]
                product *= target[at] / behaviour[at]
            assert found[row, t] == pytest.approx(product)


def test_missing_coverage_is_refused() -> None:
    table = random_table(1)
    target, behaviour = policies(1, 3)
    batch = sample_episodes(table, behaviour, 10, max_steps=6, seed=0)
    never = np.tile([1.0, 0.0], (3, 1))
    with pytest.raises(ValueError, match="never takes; expected coverage"):
        off_policy_moments(table, target, never, GAMMA, 5)
    with pytest.raises(ValueError, match="episodes of this behaviour policy"):
        estimate_off_policy(batch, target, never, GAMMA)
    with pytest.raises(ValueError, match="got 'plain'"):
        estimate_off_policy(batch, target, behaviour, GAMMA, "plain")
    with pytest.raises(ValueError, match="try more episodes"):
        one = sample_episodes(table, never, 1, max_steps=6, seed=0)
        estimate_off_policy(one, never[:, ::-1], never, GAMMA, "weighted")
