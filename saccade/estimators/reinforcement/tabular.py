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
    block_draws,
    compile_world,
    episodes_per_block,
)
from saccade.estimators.reinforcement.kernels import (
    ACTION_DRAW,
    TABLE_DRAW,
    CompiledWorld,
    Path,
    Rule,
    behaviour_values,
    choose_action,
    learn_episodes,
    learn_returns,
    learn_transition,
    path_for,
)
from saccade.estimators.reinforcement.mdp import TransitionTable
from saccade.estimators.reinforcement.policies import PolicyPair, policy_pair
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
        return policy_pair(self.method, self.epsilon(episode))

    def rule(self, episode: int) -> Rule:
        """Return the settings of an episode, as the compiled functions take them."""
        behaviour, target = self.policies(episode)
        return Rule(
            gamma=self.config.discount,
            behaviour_epsilon=behaviour.epsilon,
            target_epsilon=target.epsilon,
            is_sampled=self.method == "sarsa",
            is_double=self.is_double,
            is_monte_carlo=isinstance(self.config, MonteCarloConfig),
            first_visit=isinstance(self.config, MonteCarloConfig) and self.config.visits == "first",
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
        on_episode: Callable[[int], None] = lambda episodes: None,
    ) -> None:
        """Learn from the episodes up to `until` (None: all), or until `pause()`.

        Episodes of a transition table are simulated by compiled code; those of any other world are
        stepped through. An episode is cut after `max_steps`; `on_episode` receives the number of
        episodes so far, after one or more of them.
        """
        path = path_for(self.tables.shape[1], self.tables.shape[2], max_steps)
        compiled = compile_world(world) if isinstance(world, TransitionTable) else None
        until = self.config.episodes if until is None else until
        size = episodes_per_block(max_steps)
        block, draws = -1, np.empty(0)
        while self.episode < until:
            if self.episode // size != block:
                block = self.episode // size
                draws = block_draws(self.seed, block, max_steps)
            first = self.episode - block * size
            last = min(size, until - block * size) if compiled is not None else first + 1
            if compiled is not None:
                results = self._simulate(compiled, draws[first:last], path)
            else:
                assert not isinstance(world, TransitionTable)
                results = self._interact(world, draws[first], path)
            done = slice(self.episode, self.episode + len(results))
            self.returns[done] = results[:, 0]
            self.lengths[done] = results[:, 1].astype(np.int64)
            self.was_cut[done] = results[:, 2] == 0
            self.episode += len(results)
            on_episode(self.episode)
            if pause():
                return

    def _simulate(self, world: CompiledWorld, draws: FloatArray, path: Path) -> FloatArray:
        """Learn from episodes of a transition table; return length, return and end of each."""
        numbers = range(self.episode, self.episode + len(draws))
        epsilons = np.array([self.epsilon(number) for number in numbers])
        results = np.zeros((len(draws), 3))
        rule = self.rule(self.episode)
        if self.policies(self.episode).is_on_policy:
            rule = rule._replace(target_epsilon=-1.0)
        learn_episodes(world, self.tables, self.counts, rule, epsilons, draws, path, results)
        return results

    def _interact(self, world: FiniteWorld, draws: FloatArray, path: Path) -> FloatArray:
        """Learn from one episode of a world that is stepped through."""
        rule = self.rule(self.episode)

        def act(state: int, step: int) -> int:
            values = behaviour_values(self.tables, state)
            return choose_action(values, rule.behaviour_epsilon, draws[step, ACTION_DRAW])

        state = world.reset(seed_for(self.seed, "world", self.episode))
        action, is_end, is_cut, step = act(state, 0), False, False, 0
        while not is_end and not is_cut and step < len(path.rewards):
            following, reward, is_end, is_cut = world.step(action)
            path.states[step], path.actions[step], path.rewards[step] = state, action, reward
            step += 1
            next_action = act(following, step) if rule.is_sampled else 0
            if not rule.is_monte_carlo:
                at, result = (state, action), (reward, following, is_end)
                coin = draws[step, TABLE_DRAW]
                learn_transition(self.tables, self.counts, at, result, next_action, coin, rule)
            if not rule.is_sampled:
                next_action = act(following, step)
            state, action = following, next_action
        if rule.is_monte_carlo:
            learn_returns(self.tables[0], self.counts[0], path, step, rule)
        return np.array([[sum(path.rewards[:step].tolist()), step, is_end]])

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
