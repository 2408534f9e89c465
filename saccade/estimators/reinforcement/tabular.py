r"""Tabular learning of action values from episodes: Q-learning, SARSA and their relatives.

All temporal-difference methods are one update q(s, a) ← q(s, a) + α (target − q(s, a)), with two
policies: the behaviour acts, the target policy π gives the values that are learned,

\[ \text{target} = r + \gamma \sum_{a'} \pi(a' | s') \, q(s', a'). \]

| method | behaviour | target policy | next action |
|---|---|---|---|
| Q-learning, double Q | ε-greedy | greedy: off-policy | expectation |
| expected SARSA | ε-greedy | the behaviour: on-policy | expectation |
| SARSA | ε-greedy | the behaviour: on-policy | the one taken |

Monte-Carlo control replaces the target by the return of the episode (on-policy).
Sutton and Barto 2018, chapters 5 and 6.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from saccade.estimators.reinforcement.config import EpisodicConfig, MonteCarloConfig
from saccade.estimators.reinforcement.episodes import (
    compile_world,
    cumulative_policy,
    episode_draws,
)
from saccade.estimators.reinforcement.kernels import (
    ACTION_DRAW,
    TABLE_DRAW,
    CompiledWorld,
    Path,
    Rule,
    behaviour_values,
    choose_action,
    learn_returns,
    learn_transition,
    path_for,
    pick,
    sample_episode,
    td_episode,
)
from saccade.estimators.reinforcement.mdp import TransitionTable
from saccade.estimators.reinforcement.policies import EpsilonGreedy, PolicyPair
from saccade.seeding import seed_for
from saccade.types.arrays import FloatArray


class FiniteWorld(Protocol):
    """A world with numbered states and actions."""

    num_states: int
    num_actions: int

    def reset(self, seed: int) -> int:
        """Start an episode; return its first state."""
        ...

    def step(self, action: int) -> tuple[int, float, bool, bool]:
        """Take an action; return next state, reward, and whether it terminated or was cut."""
        ...


class TabularLearner:
    """Action values learned from episodes; resumable between any two of them."""

    def __init__(self, config: EpisodicConfig, num_states: int, num_actions: int, seed: int = 1):
        """Initialise the tables; `config.name` selects the method."""
        self.config, self.seed = config, seed
        self.method = config.name
        self.is_double = self.method == "double_q"
        shape = (2 if self.is_double else 1, num_states, num_actions)
        self.tables = np.full(shape, config.initial_value)
        self.counts = np.zeros(shape, np.int64)
        self.episode = 0
        self.returns = np.zeros(config.episodes)  # of each episode, not discounted
        self.lengths = np.zeros(config.episodes, np.int64)
        self.was_cut = np.zeros(config.episodes, bool)

    @property
    def action_values(self) -> FloatArray:
        """The learned values (S, A): the table, or the mean of both."""
        return self.tables.mean(axis=0) if self.is_double else self.tables[0]

    def epsilon(self, episode: int) -> float:
        """Return ε of the behaviour in an episode."""
        first, last = self.config.epsilon_start, self.config.epsilon_end
        if last is None or self.config.episodes == 1:
            return first
        return first + (last - first) * episode / (self.config.episodes - 1)

    def policies(self, episode: int) -> PolicyPair:
        """Return behaviour and target policy of an episode."""
        behaviour = EpsilonGreedy(self.epsilon(episode))
        is_greedy = self.method in ("q_learning", "double_q")
        return PolicyPair(behaviour, EpsilonGreedy(0.0) if is_greedy else behaviour)

    def rule(self, episode: int) -> Rule:
        """Return the settings of an episode, as the compiled functions take them."""
        behaviour, target = self.policies(episode)
        return Rule(
            gamma=self.config.discount,
            behaviour_epsilon=behaviour.epsilon,
            target_epsilon=target.epsilon,
            is_sampled=self.method == "sarsa",
            is_double=self.is_double,
            learning_rate=self.config.learning_rate,
            learning_rate_power=self.config.learning_rate_power,
        )

    def learn(
        self,
        world: TransitionTable | FiniteWorld,
        *,
        max_steps: int,
        until: int | None = None,
        pause: Callable[[], bool] = lambda: False,
        on_episode: Callable[[int], None] = lambda episode: None,
    ) -> None:
        """Learn from the episodes up to `until` (None: all), or until `pause()`.

        Episodes of a transition table are simulated by compiled code; those of any other world are
        stepped through. An episode is cut after `max_steps`.
        """
        path = path_for(self.tables.shape[1], self.tables.shape[2], max_steps)
        compiled = compile_world(world) if isinstance(world, TransitionTable) else None
        until = self.config.episodes if until is None else until
        while self.episode < until and not pause():
            draws = episode_draws(self.seed, self.episode, max_steps)
            if compiled is not None:
                steps, is_end = self._simulate(compiled, draws, path)
            else:
                assert not isinstance(world, TransitionTable)
                steps, is_end = self._interact(world, draws, path)
            self.returns[self.episode] = path.rewards[:steps].sum()
            self.lengths[self.episode], self.was_cut[self.episode] = steps, not is_end
            self.episode += 1
            on_episode(self.episode)

    def _simulate(self, world: CompiledWorld, draws: FloatArray, path: Path) -> tuple[int, bool]:
        rule = self.rule(self.episode)
        if isinstance(self.config, MonteCarloConfig):
            policy = self.policies(self.episode).behaviour.probabilities(self.tables[0])
            steps, is_end = sample_episode(world, cumulative_policy(policy), draws, path)
            self._learn_returns(path, steps, rule)
            return steps, is_end
        return td_episode(world, self.tables, self.counts, rule, draws, path)

    def _learn_returns(self, path: Path, steps: int, rule: Rule) -> None:
        assert isinstance(self.config, MonteCarloConfig)
        is_first = self.config.visits == "first"
        learn_returns(self.tables[0], self.counts[0], path, steps, is_first, rule)

    def _interact(self, world: FiniteWorld, draws: FloatArray, path: Path) -> tuple[int, bool]:
        """Learn from one episode of a world that is stepped through."""
        rule, is_monte_carlo = self.rule(self.episode), isinstance(self.config, MonteCarloConfig)
        policy: FloatArray | None = None
        if is_monte_carlo:
            behaviour = self.policies(self.episode).behaviour
            policy = cumulative_policy(behaviour.probabilities(self.tables[0]))

        def act(state: int, step: int) -> int:
            draw = draws[step, ACTION_DRAW]
            if policy is not None:
                return pick(policy[state], draw)
            values = behaviour_values(self.tables, state)
            return choose_action(values, rule.behaviour_epsilon, draw)

        state = world.reset(seed_for(self.seed, "world", self.episode))
        action, is_end, is_cut, step = act(state, 0), False, False, 0
        while not is_end and not is_cut and step < len(path.rewards):
            following, reward, is_end, is_cut = world.step(action)
            path.states[step], path.actions[step], path.rewards[step] = state, action, reward
            next_action = act(following, step + 1) if rule.is_sampled else 0
            step += 1
            if not is_monte_carlo:
                coin = draws[step, TABLE_DRAW]
                outcome = (reward, following, is_end)
                at = (state, action)
                learn_transition(self.tables, self.counts, at, outcome, next_action, coin, rule)
            if not rule.is_sampled:
                next_action = act(following, step) if step < len(path.rewards) else 0
            state, action = following, next_action
        if is_monte_carlo:
            self._learn_returns(path, step, rule)
        return step, is_end

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next episode depends on."""
        return {
            "tables": self.tables,
            "counts": self.counts,
            "episode": np.array([self.episode]),
            "returns": self.returns,
            "lengths": self.lengths,
            "was_cut": self.was_cut,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name in ("tables", "counts", "returns", "lengths", "was_cut"):
            value, own = np.asarray(state[name]), getattr(self, name)
            if value.shape != own.shape:
                raise RuntimeError(f"got {name} of shape {value.shape}; expected {own.shape}")
            own[...] = value
        self.episode = int(np.asarray(state["episode"])[0])
