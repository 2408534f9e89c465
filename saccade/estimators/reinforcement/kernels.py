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
    target_epsilon: float  # of the ε-greedy policy whose values are learned; -1: the same
    is_sampled: bool  # the target takes the next action of the behaviour, not the expectation
    is_double: bool
    is_monte_carlo: bool  # the target is the return of the episode
    first_visit: bool  # of it, from the first visit of a state and action only
    learning_rate: float  # α of the first visit
    learning_rate_power: float  # α_n = α / n^power at the n-th visit


@jit_exact
def with_epsilons(rule: Rule, behaviour: float, target: float) -> Rule:
    """Return the settings with the ε of both policies."""
    return Rule(
        rule.gamma,
        behaviour,
        target,
        rule.is_sampled,
        rule.is_double,
        rule.is_monte_carlo,
        rule.first_visit,
        rule.learning_rate,
        rule.learning_rate_power,
    )


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
def learn_returns(values: FloatArray, counts: IntArray, path: Path, steps: int, rule: Rule) -> None:
    r"""Move q(s_t, a_t) towards the return G_t = r_t + γ G_{t+1} of an episode, backwards.

    With `rule.first_visit`, only the first occurrence of a pair in the episode counts.
    """
    for step in range(steps - 1, -1, -1):
        path.visits[path.states[step], path.actions[step]] = step
    result = 0.0
    for step in range(steps - 1, -1, -1):
        state, action = path.states[step], path.actions[step]
        result = path.rewards[step] + rule.gamma * result
        if rule.first_visit and path.visits[state, action] != step:
            continue
        counts[state, action] += 1
        rate = step_size(counts[state, action], rule)
        values[state, action] += rate * (result - values[state, action])


@jit_exact
def learn_episode(
    world: CompiledWorld,
    tables: FloatArray,
    counts: IntArray,
    rule: Rule,
    draws: FloatArray,
    path: Path,
) -> tuple[float, int, bool]:
    """Learn from one simulated episode; return its return, steps, and whether it terminated."""
    state = pick(world.start, draws[0, OUTCOME_DRAW])
    epsilon = rule.behaviour_epsilon
    action = choose_action(behaviour_values(tables, state), epsilon, draws[0, ACTION_DRAW])
    limit = len(path.rewards)
    steps, total, is_end = 0, 0.0, False
    while steps < limit and not is_end:
        draw = draws[steps + 1]
        outcome = pick(world.cumulative[state, action], draw[OUTCOME_DRAW])
        following = world.next_states[state, action, outcome]
        reward = world.rewards[state, action, outcome]
        is_end = world.terminated[state, action, outcome]
        path.states[steps], path.actions[steps], path.rewards[steps] = state, action, reward
        path.states[steps + 1] = following
        steps += 1
        total += reward
        next_action = 0
        if rule.is_sampled:  # the target has the action that is taken next
            next_action = choose_action(
                behaviour_values(tables, following), epsilon, draw[ACTION_DRAW]
            )
        if not rule.is_monte_carlo:
            at, result = (state, action), (reward, following, is_end)
            learn_transition(tables, counts, at, result, next_action, draw[TABLE_DRAW], rule)
        if not rule.is_sampled:
            next_action = choose_action(
                behaviour_values(tables, following), epsilon, draw[ACTION_DRAW]
            )
        state, action = following, next_action
    if rule.is_monte_carlo:
        learn_returns(tables[0], counts[0], path, steps, rule)
    return total, steps, is_end


@jit_exact
def learn_episodes(
    world: CompiledWorld,
    tables: FloatArray,
    counts: IntArray,
    rule: Rule,
    epsilons: FloatArray,
    draws: FloatArray,
    path: Path,
    results: FloatArray,
) -> None:
    """Learn from one episode for each ε; `results` receives return, length and termination (E, 3).

    The target policy has the ε of the behaviour, unless `rule.target_epsilon` is 0 or more.
    """
    for episode in range(len(epsilons)):
        epsilon = epsilons[episode]
        target = epsilon if rule.target_epsilon < 0 else rule.target_epsilon
        total, steps, is_end = learn_episode(
            world, tables, counts, with_epsilons(rule, epsilon, target), draws[episode], path
        )
        results[episode, 0] = total
        results[episode, 1] = steps
        results[episode, 2] = is_end


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
