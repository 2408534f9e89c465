"""Tabular learning against textbook loops and exact values; stepped, resumed, uncompiled."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from saccade.estimators.reinforcement.config import (
    DoubleQConfig,
    EpisodicConfig,
    ExpectedSarsaConfig,
    MonteCarloConfig,
    QLearningConfig,
    SarsaConfig,
)
from saccade.estimators.reinforcement.episodes import (
    PREDICTION_METHODS,
    EpisodeBatch,
    block_draws,
    episodes_per_block,
    estimate_values,
    sample_episodes,
)
from saccade.estimators.reinforcement.mdp import (
    TransitionTable,
    transition_table,
    uniform_policy,
)
from saccade.estimators.reinforcement.planning import policy_iteration
from saccade.estimators.reinforcement.policies import EpsilonGreedy
from saccade.estimators.reinforcement.tabular import TabularLearner
from tests.estimators.worlds import random_table

CONFIGS: list[type[EpisodicConfig]] = [
    QLearningConfig,
    SarsaConfig,
    ExpectedSarsaConfig,
    DoubleQConfig,
    MonteCarloConfig,
]


class SteppedWorld:
    """A table that is stepped through, with the draws of the simulation."""

    def __init__(self, table: TransitionTable, seed: int, max_steps: int):
        self.table, self.seed, self.max_steps, self.episode = table, seed, max_steps, -1
        self.num_states, self.num_actions = table.num_states, table.num_actions

    def reset(self, seed: int) -> int:
        self.episode += 1
        self.draws = episode_draws(self.seed, self.episode, self.max_steps)[:, 1]
        self.time = 0
        self.state = self._pick(self.table.start)
        return self.state

    def step(self, action: int) -> tuple[int, float, bool, bool]:
        at = (self.state, action)
        self.time += 1
        m = self._pick(self.table.probabilities[at])
        self.state = int(self.table.next_states[at][m])
        return self.state, self.table.rewards[at][m], bool(self.table.terminated[at][m]), False

    def _pick(self, probabilities: Any) -> int:
        return int(np.searchsorted(probabilities.cumsum()[:-1], self.draws[self.time], "right"))


def choose(values: Any, epsilon: float, draw: float) -> int:
    """Return the ε-greedy action of one draw, by lists."""
    if draw < epsilon:
        return int(draw / epsilon * len(values))
    best = [action for action, value in enumerate(values) if value == max(values)]
    return best[int((draw - epsilon) / (1 - epsilon) * len(best))]


def episode_draws(seed: int, episode: int, max_steps: int) -> Any:
    """Return the draws of one episode (T, 3)."""
    block, row = divmod(episode, episodes_per_block(max_steps))
    return block_draws(seed, block, max_steps)[row]


def learn_by_loops(method: str, world: SteppedWorld, config: EpisodicConfig) -> Any:
    """Return the tables of textbook code (Sutton and Barto 2018, sections 5.4, 6.4 to 6.7)."""
    S, A = world.num_states, world.num_actions
    alpha, gamma, epsilon = config.learning_rate, config.discount, config.epsilon_start
    q = np.zeros((2 if method == "double_q" else 1, S, A))
    total = [[0] * A for _ in range(S)]
    for episode in range(config.episodes):
        draws = episode_draws(world.seed, episode, world.max_steps)
        s = world.reset(0)
        a = choose(list(q[:, s].sum(0)), epsilon, draws[0, 0])
        history, t, done = [], 0, False
        while not done and t < world.max_steps:
            s2, r, done, _ = world.step(a)
            history.append((s, a, r))
            t += 1
            a2 = choose(list(q[:, s2].sum(0)), epsilon, draws[t, 0])
            after = 0.0 if done else gamma
            if method == "q_learning":
                q[0, s, a] += alpha * (r + after * max(q[0, s2]) - q[0, s, a])
            elif method == "sarsa":
                q[0, s, a] += alpha * (r + after * q[0, s2, a2] - q[0, s, a])
            elif method == "expected_sarsa":
                pi = [epsilon / A] * A
                pi[int(q[0, s2].argmax())] += 1 - epsilon
                mean = sum(p * v for p, v in zip(pi, q[0, s2], strict=True))
                q[0, s, a] += alpha * (r + after * mean - q[0, s, a])
            elif method == "double_q":
                one = 1 if draws[t, 2] < 0.5 else 0
                best = int(q[one, s2].argmax())
                q[one, s, a] += alpha * (r + after * q[1 - one, s2, best] - q[one, s, a])
            if method != "sarsa":  # acts by the values after the update
                a2 = choose(list(q[:, s2].sum(0)), epsilon, draws[t, 0])
            s, a = s2, a2
        if method == "monte_carlo":
            for t, (s, a, _) in enumerate(history):
                if (s, a) not in [(x, y) for x, y, _ in history[:t]]:
                    value = sum(gamma**k * r for k, (_, _, r) in enumerate(history[t:]))
                    total[s][a] += 1
                    q[0, s, a] += (value - q[0, s, a]) / total[s][a]
    return q


@pytest.mark.parametrize("config_class", CONFIGS)
def test_learning_equals_textbook_loops(config_class: type[EpisodicConfig]) -> None:
    table = random_table(5, states=4, actions=3, end=0.1)
    config = config_class(episodes=60, discount=0.9, epsilon_start=0.3)
    learner = TabularLearner(config, 4, 3, seed=7)
    learner.learn(table, max_steps=30)
    expected = learn_by_loops(learner.method, SteppedWorld(table, 7, 30), config)
    np.testing.assert_allclose(learner.tables, expected, atol=1e-12)
    assert learner.lengths.min() >= 1 and learner.lengths.max() <= 30


@pytest.mark.parametrize("config_class", CONFIGS)
def test_stepped_and_simulated_episodes_give_the_same_bits(
    config_class: type[EpisodicConfig],
) -> None:
    table = random_table(2, states=4, actions=3, end=0.1)
    config = config_class(episodes=40, discount=0.9, epsilon_start=0.5, epsilon_end=0.0)
    one, other = TabularLearner(config, 4, 3, seed=3), TabularLearner(config, 4, 3, seed=3)
    one.learn(table, max_steps=12)  # some are cut
    other.learn(SteppedWorld(table, 3, 12), max_steps=12)
    for name, value in one.state_dict().items():
        assert (value == other.state_dict()[name]).all(), name
    assert one.was_cut.any() and not one.was_cut.all()


@pytest.mark.parametrize("config_class", CONFIGS)
def test_resuming_between_episodes_gives_the_same_bits(config_class: type[EpisodicConfig]) -> None:
    table = transition_table(gymnasium.make("FrozenLake-v1"))
    config = config_class(episodes=30, discount=0.9, epsilon_end=0.5, initial_value=1.0)
    whole = TabularLearner(config, 16, 4)
    whole.learn(table, max_steps=100)
    parts = TabularLearner(config, 16, 4)
    parts.learn(table, max_steps=100, until=11)
    resumed = TabularLearner(config, 16, 4)
    resumed.load_state_dict(parts.state_dict())
    resumed.learn(table, max_steps=100)
    for name, value in whole.state_dict().items():
        assert (value == resumed.state_dict()[name]).all(), name
    with pytest.raises(RuntimeError, match="got tables of shape"):
        TabularLearner(config, 15, 4).load_state_dict(parts.state_dict())


UNCOMPILED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import gymnasium
from saccade.compiled.jit import HAS_NUMBA
from tests.estimators.test_tabular_learning import cliff_values
assert not HAS_NUMBA
print(cliff_values())
"""


def cliff_values() -> str:
    """Return the bits that every method learns on the cliff."""
    table = transition_table(gymnasium.make("CliffWalking-v1"))
    found = []
    for config_class in CONFIGS:
        learner = TabularLearner(config_class(episodes=20), 48, 4)
        learner.learn(table, max_steps=200)
        found.append(learner.tables.tobytes().hex()[-64:] + str(float(learner.tables.sum()).hex()))
    return " ".join(found)


def test_results_are_the_same_bits_without_numba() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNCOMPILED], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == cliff_values(), done.stderr


# --- learned values -----------------------------------------------------------------------------


def lake_from_everywhere() -> TransitionTable:
    """Return FrozenLake with episodes that start in any state, so that all are often visited."""
    table = transition_table(gymnasium.make("FrozenLake-v1"))
    return replace(table, start=~table.terminal / (~table.terminal).sum())


@pytest.mark.parametrize("config_class", CONFIGS)
def test_off_policy_methods_learn_the_optimal_values_from_random_actions(
    config_class: type[EpisodicConfig],
) -> None:
    table = lake_from_everywhere()
    config = config_class(
        episodes=60_000, discount=0.9, epsilon_start=1.0, learning_rate=1.0, learning_rate_power=0.8
    )
    learner = TabularLearner(config, 16, 4)
    learner.learn(table, max_steps=100)
    optimal = policy_iteration(table, 0.9).action_values
    random = table.action_values(table.policy_values(uniform_policy(table), 0.9), 0.9)
    policies = learner.policies(0)
    assert policies.is_on_policy == (learner.method not in ("q_learning", "double_q"))
    expected = random if policies.is_on_policy else optimal
    inside = ~table.terminal
    assert np.abs(learner.action_values - expected)[inside].max() < 0.05
    assert np.abs(random - optimal)[inside].max() > 0.2


def greedy_path(learner: TabularLearner) -> list[int]:
    """Return the states of CliffWalking that the greedy policy visits from the start."""
    path, moves = [36], (-12, 1, 12, -1)
    while path[-1] != 47 and len(path) < 100:
        best = int(learner.action_values[path[-1]].argmax())
        column = path[-1] % 12
        blocked = (column == 0 and best == 3) or (column == 11 and best == 1)
        following = path[-1] if blocked else path[-1] + moves[best]
        path.append(following if 0 <= following < 48 else path[-1])
    return path


def test_sarsa_takes_the_safe_path_and_q_learning_the_short_one() -> None:
    table = transition_table(gymnasium.make("CliffWalking-v1"))
    short, edge, returns = [], {}, {}
    for config_class in (QLearningConfig, SarsaConfig, ExpectedSarsaConfig):
        learners = [TabularLearner(config_class(), 48, 4, seed) for seed in range(20)]
        for learner in learners:
            learner.learn(table, max_steps=1000)
        name = learners[0].method
        paths = [greedy_path(learner) for learner in learners]
        # cells next to the cliff: the row above it, without its ends
        edge[name] = np.mean([len(set(path) & set(range(25, 35))) for path in paths])
        returns[name] = np.mean([learner.returns[-100:].mean() for learner in learners])
        short.append(sum(len(path) == 14 for path in paths))
    assert short[0] == 20 and edge["q_learning"] == 10
    assert edge["sarsa"] < 2 and short[1] == 0
    assert returns["sarsa"] > returns["q_learning"] + 10
    assert returns["expected_sarsa"] > returns["q_learning"] + 10


# --- prediction -----------------------------------------------------------------------------------


def test_prediction_converges_to_the_exact_values() -> None:
    table = random_table(11, states=5, actions=2, end=0.2)
    policy = np.random.default_rng(0).dirichlet(np.ones(2), size=5)
    batch = sample_episodes(table, policy, 10_000, max_steps=100, seed=1)
    assert batch.has_ended.all()
    exact = table.policy_values(policy, 0.9)
    for method in PREDICTION_METHODS:
        power = 0.8 if method == "td" else 1.0
        found = estimate_values(batch, 5, 0.9, method=method, learning_rate_power=power)
        np.testing.assert_allclose(found, exact, atol=0.06)
    with pytest.raises(ValueError, match="got the method 'sarsa'"):
        estimate_values(batch, 5, 0.9, method="sarsa")


def test_prediction_of_one_episode_by_hand() -> None:
    batch = EpisodeBatch(
        states=np.array([[0, 1, 0, 2]]),
        actions=np.zeros((1, 3), np.int64),
        rewards=np.array([[1.0, 2.0, 4.0]]),
        lengths=np.array([3]),
        has_ended=np.array([True]),
    )
    # returns with γ = ½: 1 + ½ (2 + ½ 4) = 3 from the first visit of 0, 4 from 1 and the second
    first = estimate_values(batch, 3, 0.5, method="first_visit")
    every = estimate_values(batch, 3, 0.5, method="every_visit")
    assert first.tolist() == [3, 4, 0] and every.tolist() == [3.5, 4, 0]
    # TD(0) with α = 1: v(0) = 1 + ½ v(1) = 1, v(1) = 2 + ½ v(0) = 2.5, v(0) = 4
    td = estimate_values(batch, 3, 0.5, method="td", learning_rate_power=0.0)
    assert td.tolist() == [4, 2.5, 0]
    cut = estimate_values(
        EpisodeBatch(batch.states, batch.actions, batch.rewards, batch.lengths, np.array([False])),
        3,
        0.5,
        learning_rate_power=0.0,
    )
    assert cut.tolist() == [4, 2.5, 0]  # v(2) is 0, but is taken into account


def test_greedy_policies_share_ties() -> None:
    values = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    found = EpsilonGreedy(0.3).probabilities(values)
    np.testing.assert_allclose(found, [[0.45, 0.45, 0.1], [0.1, 0.8, 0.1]])
    assert str(EpsilonGreedy(0.0)) == "greedy" and "0.3" in str(EpsilonGreedy(0.3))


def test_simulated_transitions_have_gymnasiums_frequencies() -> None:
    environment = gymnasium.make("FrozenLake-v1")
    table = transition_table(environment)
    batch = sample_episodes(table, uniform_policy(table), 4000, max_steps=100, seed=2)
    goal = batch.rewards.sum() / 4000
    steps = batch.lengths.mean()
    random = np.random.default_rng(3)
    goals, lengths = [], []
    for episode in range(1500):
        environment.reset(seed=episode)
        for step in range(1, 101):
            _, reward, terminated, truncated, _ = environment.step(int(random.integers(4)))
            if terminated or truncated:
                goals.append(float(reward))
                lengths.append(step)
                break
    margin = 4 * np.std(lengths) / np.sqrt(1500)
    assert abs(steps - np.mean(lengths)) < margin
    assert abs(goal - np.mean(goals)) < 4 * np.std(goals) / np.sqrt(1500)
