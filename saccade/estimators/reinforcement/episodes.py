"""Episodes of a fixed policy on a transition table, and estimates of its values from them."""

from dataclasses import dataclass, fields

import numpy as np

from saccade.estimators.reinforcement.kernels import (
    NUM_DRAWS,
    CompiledWorld,
    Path,
    Rule,
    learn_returns,
    learn_state_values,
    path_for,
    sample_episode,
)
from saccade.estimators.reinforcement.mdp import TransitionTable, check_gamma, check_policy
from saccade.seeding import generator
from saccade.types.arrays import BoolArray, FloatArray, IntArray

DRAWS_PER_BLOCK = 1 << 16
PREDICTION_METHODS = ("td", "first_visit", "every_visit")


def compile_world(table: TransitionTable) -> CompiledWorld:
    """Return the table with cumulative probabilities, as the compiled functions take it."""
    return CompiledWorld(
        table.probabilities.cumsum(axis=2),
        table.next_states,
        table.rewards,
        table.terminated,
        table.start.cumsum(),
    )


def cumulative_policy(policy: FloatArray) -> FloatArray:
    """Return π(a | s) as cumulative probabilities (S, A)."""
    return policy.cumsum(axis=1)


def episodes_per_block(max_steps: int) -> int:
    """Return the number of episodes whose draws are made together."""
    return max(DRAWS_PER_BLOCK // ((max_steps + 1) * NUM_DRAWS), 1)


def block_draws(seed: int, block: int, max_steps: int) -> FloatArray:
    """Return the uniform draws of a block of episodes, a function of seed and block (E, T, 3)."""
    shape = episodes_per_block(max_steps), max_steps + 1, NUM_DRAWS
    return generator(seed, "episodes", block).random(shape)


@dataclass(frozen=True, eq=False)
class EpisodeBatch:
    """N episodes of at most T steps; after the end, actions and rewards are 0."""

    states: IntArray  # (N, T + 1)
    actions: IntArray  # (N, T)
    rewards: FloatArray  # (N, T)
    lengths: IntArray  # (N,)
    has_ended: BoolArray  # (N,), False: cut by the limit of steps

    def is_step(self) -> BoolArray:
        """Return which steps belong to an episode (N, T)."""
        return np.arange(self.rewards.shape[1]) < self.lengths[:, None]

    def discounted_returns(self, gamma: float) -> FloatArray:
        r"""Return Σ_t γ^t r_t of each episode (N,)."""
        return np.asarray(self.rewards @ gamma ** np.arange(self.rewards.shape[1]))

    def first(self, count: int) -> "EpisodeBatch":
        """Return the first episodes."""
        return EpisodeBatch(*(getattr(self, field.name)[:count] for field in fields(self)))


def sample_episodes(
    table: TransitionTable, policy: FloatArray, episodes: int, *, max_steps: int, seed: int
) -> EpisodeBatch:
    """Return episodes of a policy π(a | s), each cut at the limit of steps."""
    world = compile_world(table)
    cumulative = cumulative_policy(check_policy(policy, table))
    path = path_for(table.num_states, table.num_actions, max_steps)
    shape = episodes, max_steps
    states, actions = np.zeros((episodes, max_steps + 1), np.int64), np.zeros(shape, np.int64)
    rewards, lengths = np.zeros(shape), np.zeros(episodes, np.int64)
    has_ended = np.zeros(episodes, bool)
    size = episodes_per_block(max_steps)
    for row in range(episodes):
        if row % size == 0:
            draws = block_draws(seed, row // size, max_steps)
        steps, has_ended[row] = sample_episode(world, cumulative, draws[row % size], path)
        states[row, : steps + 1] = path.states[: steps + 1]
        actions[row, :steps], rewards[row, :steps] = path.actions[:steps], path.rewards[:steps]
        lengths[row] = steps
    return EpisodeBatch(states, actions, rewards, lengths, has_ended)


def estimate_values(
    batch: EpisodeBatch,
    num_states: int,
    gamma: float,
    *,
    method: str = "td",
    learning_rate: float = 1.0,
    learning_rate_power: float = 1.0,
) -> FloatArray:
    r"""Return v_π of the policy that made the episodes: TD(0), or Monte-Carlo.

    TD(0) moves v(s) towards r + γ v(s') (Sutton 1988); the Monte-Carlo methods towards the return
    from the first or from every visit of a state in an episode. The step size is α / n^power at
    the n-th visit.
    """
    if method not in PREDICTION_METHODS:
        raise ValueError(f"got the method {method!r}; expected one of {PREDICTION_METHODS}.")
    rule = Rule(
        gamma=check_gamma(gamma),
        behaviour_epsilon=0.0,
        target_epsilon=0.0,
        is_sampled=False,
        is_double=False,
        is_monte_carlo=method != "td",
        first_visit=method == "first_visit",
        learning_rate=learning_rate,
        learning_rate_power=learning_rate_power,
    )
    values, counts = np.zeros((num_states, 1)), np.zeros((num_states, 1), np.int64)
    visits = np.zeros((num_states, 1), np.int64)
    no_actions = np.zeros(batch.actions.shape[1], np.int64)
    for row, steps in enumerate(batch.lengths.tolist()):
        path = Path(batch.states[row], no_actions, batch.rewards[row], visits)
        if method == "td":
            is_end = bool(batch.has_ended[row])
            learn_state_values(values[:, 0], counts[:, 0], path, steps, is_end, rule)
        else:
            learn_returns(values, counts, path, steps, rule)
    return values[:, 0]
