"""Compiled steps of learning from episodes with tables; without numba they run as Python.

Every random choice takes one uniform draw from [0, 1), which the caller passes in, so that results
do not depend on whether a function is compiled.
"""

from typing import NamedTuple

import numpy as np

from saccade.compiled.jit import jit_exact
from saccade.types.arrays import BoolArray, FloatArray, IntArray

# columns of the draws of one step
ACTION_DRAW, OUTCOME_DRAW, TABLE_DRAW = 0, 1, 2
NUM_DRAWS = 3


class Rule(NamedTuple):
    """Settings of temporal-difference learning, as the compiled functions take them."""

    gamma: float
    behaviour_epsilon: float  # of the ε-greedy policy that acts
    target_epsilon: float  # of the ε-greedy policy whose values are learned
    is_sampled: bool  # the target takes the next action of the behaviour, not the expectation
    is_double: bool
    learning_rate: float  # α of the first visit
    learning_rate_power: float  # α_n = α / n^power at the n-th visit


class CompiledWorld(NamedTuple):
    """A transition table with cumulative probabilities."""

    cumulative: FloatArray  # (S, A, M)
    next_states: IntArray
    rewards: FloatArray
    terminated: BoolArray
    start: FloatArray  # (S,) cumulative


class Path(NamedTuple):
    """Memory for one episode of at most T steps."""

    states: IntArray  # (T + 1,)
    actions: IntArray  # (T,)
    rewards: FloatArray  # (T,)
    visits: IntArray  # (S, A), scratch


@jit_exact
def pick(cumulative: FloatArray, draw: float) -> int:
    """Return the first index whose cumulative probability exceeds the draw."""
    for index in range(len(cumulative) - 1):
        if draw < cumulative[index]:
            return index
    return len(cumulative) - 1


@jit_exact
def choose_action(values: FloatArray, epsilon: float, draw: float) -> int:
    """Return an ε-greedy action; one of several best ones is drawn uniformly."""
    if draw < epsilon:
        return min(int(draw / epsilon * len(values)), len(values) - 1)
    best = values.max()
    ties = 0
    for value in values:
        ties += value == best
    rank = min(int((draw - epsilon) / (1 - epsilon) * ties), ties - 1)
    for action in range(len(values)):
        if values[action] == best:
            if rank == 0:
                return action
            rank -= 1
    return 0


@jit_exact
def expected_value(values: FloatArray, weights: FloatArray, epsilon: float) -> float:
    r"""Return Σ_a π(a) q(a) of the policy π that is ε-greedy with respect to `weights`."""
    total = 0.0
    best = 0
    for action in range(len(values)):
        total += values[action]
        if weights[action] > weights[best]:
            best = action
    return epsilon * total / len(values) + (1 - epsilon) * values[best]


@jit_exact
def step_size(visits: int, rule: Rule) -> float:
    r"""Return α / n^power at the n-th visit."""
    if rule.learning_rate_power == 0:
        return rule.learning_rate
    return rule.learning_rate / visits**rule.learning_rate_power


@jit_exact
def learn_transition(
    tables: FloatArray,
    counts: IntArray,
    at: tuple[int, int],
    outcome: tuple[float, int, bool],
    next_action: int,
    coin: float,
    rule: Rule,
) -> None:
    r"""Move q(s, a) towards its target after one transition.

    `tables` is (1, S, A), or (2, S, A) for double learning, where the coin decides which of the two
    is updated: its best action is valued by the other (van Hasselt 2010). The target is
    r + γ q(s', a') with the next action of the behaviour (SARSA), or r + γ Σ_a π(a | s') q(s', a)
    for the target policy π (Q-learning: π is greedy; expected SARSA: π is the behaviour).
    """
    state, action = at
    reward, following, is_end = outcome
    updated = 1 if rule.is_double and coin < 0.5 else 0
    other = len(tables) - 1 - updated if rule.is_double else 0
    target = reward
    if not is_end:
        if rule.is_sampled:
            value = tables[other, following, next_action]
        else:
            value = expected_value(
                tables[other, following], tables[updated, following], rule.target_epsilon
            )
        target += rule.gamma * value
    counts[updated, state, action] += 1
    rate = step_size(counts[updated, state, action], rule)
    tables[updated, state, action] += rate * (target - tables[updated, state, action])


@jit_exact
def behaviour_values(tables: FloatArray, state: int) -> FloatArray:
    """Return the action values by which the behaviour acts: the table, or the sum of both."""
    if len(tables) == 1:
        return tables[0, state]
    return tables[0, state] + tables[1, state]


@jit_exact
def td_episode(
    world: CompiledWorld,
    tables: FloatArray,
    counts: IntArray,
    rule: Rule,
    draws: FloatArray,
    path: Path,
) -> tuple[int, bool]:
    """Learn from one simulated episode; return its steps, and whether it terminated."""
    state = pick(world.start, draws[0, OUTCOME_DRAW])
    action = choose_action(
        behaviour_values(tables, state), rule.behaviour_epsilon, draws[0, ACTION_DRAW]
    )
    limit = len(path.rewards)
    for step in range(limit):
        draw = draws[step + 1]
        outcome = pick(world.cumulative[state, action], draw[OUTCOME_DRAW])
        following = world.next_states[state, action, outcome]
        reward = world.rewards[state, action, outcome]
        is_end = world.terminated[state, action, outcome]
        path.states[step], path.actions[step], path.rewards[step] = state, action, reward
        next_action = 0
        if rule.is_sampled:  # the target has the action that is taken next
            next_action = choose_action(
                behaviour_values(tables, following), rule.behaviour_epsilon, draw[ACTION_DRAW]
            )
        learn_transition(
            tables,
            counts,
            (state, action),
            (reward, following, is_end),
            next_action,
            draw[TABLE_DRAW],
            rule,
        )
        if is_end:
            path.states[step + 1] = following
            return step + 1, True
        if not rule.is_sampled:
            next_action = choose_action(
                behaviour_values(tables, following), rule.behaviour_epsilon, draw[ACTION_DRAW]
            )
        state, action = following, next_action
    path.states[limit] = state
    return limit, False


@jit_exact
def sample_episode(
    world: CompiledWorld, policy: FloatArray, draws: FloatArray, path: Path
) -> tuple[int, bool]:
    """Follow a policy, given as cumulative probabilities (S, A); return steps and termination."""
    state = pick(world.start, draws[0, OUTCOME_DRAW])
    limit = len(path.rewards)
    for step in range(limit):
        action = pick(policy[state], draws[step, ACTION_DRAW])
        outcome = pick(world.cumulative[state, action], draws[step + 1, OUTCOME_DRAW])
        path.states[step], path.actions[step] = state, action
        path.rewards[step] = world.rewards[state, action, outcome]
        is_end = world.terminated[state, action, outcome]
        state = world.next_states[state, action, outcome]
        path.states[step + 1] = state
        if is_end:
            return step + 1, True
    return limit, False


@jit_exact
def learn_returns(
    values: FloatArray, counts: IntArray, path: Path, steps: int, first_visit: bool, rule: Rule
) -> None:
    r"""Move q(s_t, a_t) towards the return G_t = r_t + γ G_{t+1} of an episode, backwards.

    With `first_visit`, only the first occurrence of a pair in the episode counts.
    """
    for step in range(steps - 1, -1, -1):
        path.visits[path.states[step], path.actions[step]] = step
    result = 0.0
    for step in range(steps - 1, -1, -1):
        state, action = path.states[step], path.actions[step]
        result = path.rewards[step] + rule.gamma * result
        if first_visit and path.visits[state, action] != step:
            continue
        counts[state, action] += 1
        rate = step_size(counts[state, action], rule)
        values[state, action] += rate * (result - values[state, action])


@jit_exact
def learn_state_values(
    values: FloatArray, counts: IntArray, path: Path, steps: int, is_end: bool, rule: Rule
) -> None:
    r"""Move v(s_t) towards r_t + γ v(s_{t+1}), transition by transition: TD(0) (Sutton 1988)."""
    for step in range(steps):
        state = path.states[step]
        target = path.rewards[step]
        if step < steps - 1 or not is_end:
            target += rule.gamma * values[path.states[step + 1]]
        counts[state] += 1
        values[state] += step_size(counts[state], rule) * (target - values[state])


def path_for(states: int, actions: int, max_steps: int) -> Path:
    """Return memory for an episode of at most so many steps."""
    return Path(
        np.zeros(max_steps + 1, np.int64),
        np.zeros(max_steps, np.int64),
        np.zeros(max_steps),
        np.zeros((states, actions), np.int64),
    )
