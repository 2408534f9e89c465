"""Planning against linear equations, the enumeration of all policies, and Gymnasium's tables."""

from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.estimators.reinforcement.mdp import (
    TransitionTable,
    deterministic_policy,
    transition_table,
    uniform_policy,
)
from saccade.estimators.reinforcement.planning import (
    evaluate_policy,
    policy_iteration,
    value_iteration,
)
from tests.estimators.worlds import random_table

WORLDS = ("FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v4")
PLANNERS = (policy_iteration, value_iteration)


def solve_by_loops(transitions: Any, actions: Any, gamma: float, ends: set[int]) -> Any:
    """Return the values of one action in each state, from Gymnasium's `P` itself."""
    states = len(transitions)
    equations, rewards = np.eye(states), np.zeros(states)
    for s in set(range(states)) - ends:
        for p, following, reward, terminated in transitions[s][int(actions[s])]:
            rewards[s] += p * reward
            if not terminated:
                equations[s, following] -= gamma * p
    return np.linalg.solve(equations, rewards)


@pytest.mark.parametrize("plan", PLANNERS)
@pytest.mark.parametrize("name", WORLDS)
def test_plans_solve_the_equations_of_every_toy_text_world(name: str, plan: Any) -> None:
    environment = gymnasium.make(name)
    world: Any = environment.unwrapped
    table = transition_table(environment)
    found = plan(table, 0.99)
    ends = set(np.flatnonzero(table.terminal).tolist())
    exact = solve_by_loops(world.P, found.actions, 0.99, ends)
    np.testing.assert_allclose(found.values, exact, atol=1e-7)
    # optimality: no action of any state is better
    for s in set(range(table.num_states)) - ends:
        backups = [
            sum(p * (r + (0 if end else 0.99 * exact[n])) for p, n, r, end in world.P[s][a])
            for a in range(table.num_actions)
        ]
        assert max(backups) == pytest.approx(exact[s], abs=1e-7)
    assert found.residuals[-1] <= 1e-10 and found.sweeps == len(found.residuals)
    own = table.policy_values(deterministic_policy(found.actions, table.num_actions), 0.99)
    np.testing.assert_allclose(own, exact, atol=1e-9)


def test_known_values_of_the_cliff_and_the_lake() -> None:
    cliff = transition_table(gymnasium.make("CliffWalking-v1"))
    assert policy_iteration(cliff, 1.0).values[36] == pytest.approx(-13)  # the shortest path
    assert cliff.grid == (4, 12) and cliff.arrows == ["↑", "→", "↓", "←"]
    assert np.flatnonzero(cliff.terminal).tolist() == [47]
    assert cliff.reachable.sum() == 37  # all but the cliff and the end
    lake = transition_table(gymnasium.make("FrozenLake-v1"))
    # published: a share of 14/17 of the episodes reaches the goal without a time limit
    assert value_iteration(lake, 1.0).values[0] == pytest.approx(14 / 17, abs=1e-6)
    assert lake.arrows == ["←", "↓", "→", "↑"]
    assert np.flatnonzero(lake.terminal).tolist() == [5, 7, 11, 12, 15]


@given(seed=st.integers(0, 1000), gamma=st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_plans_are_the_best_of_all_policies(seed: int, gamma: float) -> None:
    table = random_table(seed)
    every = [
        table.policy_values(deterministic_policy(np.array(actions), 2), gamma)
        for actions in product(range(2), repeat=3)
    ]
    best = np.max(every, axis=0)
    for plan in PLANNERS:
        found = plan(table, gamma)
        np.testing.assert_allclose(found.values, best, atol=1e-8)
        np.testing.assert_allclose(
            table.policy_values(deterministic_policy(found.actions, 2), gamma), best, atol=1e-8
        )


@given(seed=st.integers(0, 1000))
def test_sweeps_converge_to_the_exact_values_at_the_rate_gamma(seed: int) -> None:
    table = random_table(seed, end=0.05)
    policy = np.random.default_rng(seed).dirichlet(np.ones(2), size=3)
    values, residuals = evaluate_policy(table, policy, 0.9)
    np.testing.assert_allclose(values, table.policy_values(policy, 0.9), atol=1e-8)
    assert all(
        later <= 0.9 * earlier + 1e-12
        for earlier, later in zip(residuals, residuals[1:], strict=False)
    )


def test_a_policy_that_never_ends_has_no_value_without_a_discount() -> None:
    cliff = transition_table(gymnasium.make("CliffWalking-v1"))
    upwards = deterministic_policy(np.zeros(48, np.int64), 4)
    with pytest.raises(ValueError, match="never ends an episode from state 0.*gamma below 1"):
        cliff.policy_values(upwards, 1.0)
    with pytest.raises(ValueError, match=r"residual of 1 after 50 sweeps.*gamma below 1"):
        evaluate_policy(cliff, upwards, 1.0, max_sweeps=50)
    lake = transition_table(gymnasium.make("FrozenLake-v1"))  # endless, but without rewards
    left = deterministic_policy(np.zeros(16, np.int64), 4)
    assert lake.policy_values(left, 1.0)[0] == 0


def test_worlds_without_a_table_and_wrong_tables_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Blackjack-v1, which publishes no transition table"):
        transition_table(gymnasium.make("Blackjack-v1"))
    table = random_table(1)
    parts = (table.probabilities, table.next_states, table.rewards, table.terminated, table.start)
    wrong = [part.copy() for part in parts]
    wrong[0][1, 1] *= 0.5
    with pytest.raises(ValueError, match=r"the sum 0.5 in state 1, action 1"):
        TransitionTable(*wrong)
    with pytest.raises(ValueError, match="a next state outside 0 to 2"):
        TransitionTable(parts[0], parts[1] + 1, *parts[2:])
    with pytest.raises(ValueError, match="start distribution"):
        TransitionTable(*parts[:4], parts[4] * 2)
    with pytest.raises(ValueError, match="not finite"):
        TransitionTable(*parts[:2], parts[2] * np.nan, *parts[3:])
    with pytest.raises(ValueError, match=r"expected one shape \(states, actions, outcomes\)"):
        TransitionTable(parts[0][:, :, :2], *parts[1:])
    with pytest.raises(ValueError, match="rows that are distributions"):
        evaluate_policy(table, uniform_policy(table) * 2, 0.9)
    with pytest.raises(ValueError, match="got gamma 1.5"):
        policy_iteration(table, 1.5)
