r"""Markov decision processes with a known transition table, and their exact solution. No torch.

A table holds, for each state s and action a, up to M outcomes: probability p, next state s', reward
r, and whether the episode terminates. All values follow from the backup

\[ q(s, a) = \sum_m p_m \left( r_m + \gamma \, (1 - \text{terminated}_m) \, v(s'_m) \right) \]

(Sutton and Barto 2018, chapter 3). The state of a terminated episode has the value 0.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from saccade.types.arrays import BoolArray, FloatArray, IntArray

PROBABILITY_TOLERANCE = 1e-9  # of the sum of the outcomes of an action
PLAIN_WRAPPERS = ("OrderEnforcing", "PassiveEnvChecker", "TimeLimit")
ARROWS = {(-1, 0): "↑", (1, 0): "↓", (0, -1): "←", (0, 1): "→"}
MAX_DENSE_STATES = 5000  # of a system of equations that is solved: 200 MB


@dataclass(frozen=True, eq=False)
class TransitionTable:
    """Outcomes of every action in every state, each array (S, A, M); absent ones have p = 0."""

    probabilities: FloatArray
    next_states: IntArray
    rewards: FloatArray
    terminated: BoolArray
    start: FloatArray  # (S,) distribution of the first state
    grid: tuple[int, int] | None = None  # rows and columns, of states numbered row by row

    def __post_init__(self) -> None:
        """Check shapes, probabilities and states."""
        shape = self.probabilities.shape
        others = (self.next_states, self.rewards, self.terminated)
        if len(shape) != 3 or 0 in shape or any(array.shape != shape for array in others):
            shapes = [array.shape for array in (self.probabilities, *others)]
            raise ValueError(
                f"got arrays of the shapes {shapes}; "
                "expected one shape (states, actions, outcomes) without a zero."
            )
        sums = self.probabilities.sum(axis=2)
        wrong = (np.abs(sums - 1) > PROBABILITY_TOLERANCE) | (self.probabilities < 0).any(axis=2)
        if wrong.any():
            state, action = np.argwhere(wrong)[0]
            raise ValueError(
                f"got probabilities with the sum {sums[state, action]:.6g} in state {state}, "
                f"action {action}; expected non-negative ones with the sum 1."
            )
        if ((self.next_states < 0) | (self.next_states >= shape[0])).any():
            raise ValueError(f"got a next state outside 0 to {shape[0] - 1}; expected one inside.")
        if self.start.shape != shape[:1] or abs(self.start.sum() - 1) > PROBABILITY_TOLERANCE:
            raise ValueError(
                f"got a start distribution of shape {self.start.shape} and sum "
                f"{self.start.sum():.6g}; expected ({shape[0]},) and 1."
            )
        if not np.isfinite(self.rewards).all():
            raise ValueError("got a reward that is not finite; expected finite ones.")

    @property
    def num_states(self) -> int:
        """Number of states S."""
        return len(self.start)

    @property
    def num_actions(self) -> int:
        """Number of actions A."""
        return int(self.probabilities.shape[1])

    def action_values(self, values: FloatArray, gamma: float) -> FloatArray:
        r"""Return q(s, a) = Σ p (r + γ v(s')), one backup of the values of all states."""
        following = np.where(self.terminated, 0.0, values[self.next_states])
        return np.asarray((self.probabilities * (self.rewards + gamma * following)).sum(axis=2))

    @cached_property
    def reachable(self) -> BoolArray:
        """States that an episode can visit before it ends (S,)."""
        possible = (self.probabilities > 0) & ~self.terminated
        found = self.start > 0
        while True:
            grown = found.copy()
            grown[self.next_states[found][possible[found]]] = True
            if (grown == found).all():
                return found
            found = grown

    @cached_property
    def terminal(self) -> BoolArray:
        """States in which episodes end (S,)."""
        ends = (self.probabilities > 0) & self.terminated & self.reachable[:, None, None]
        found = np.zeros(self.num_states, bool)
        found[self.next_states[ends]] = True
        return found & ~self.reachable

    @cached_property
    def arrows(self) -> list[str]:
        """A symbol for each action: the mean direction of its moves on the grid, or its number."""
        if self.grid is None:
            return [str(action) for action in range(self.num_actions)]
        columns = self.grid[1]
        here = np.arange(self.num_states)[:, None, None]
        counted = self.probabilities * (self.reachable[:, None, None] & ~self.terminated)
        moves = []
        for offset in (
            self.next_states // columns - here // columns,
            self.next_states % columns - here % columns,
        ):
            # a fall from a cliff is no move
            moves.append((counted * offset * (np.abs(offset) <= 1)).sum(axis=(0, 2)))
        names = []
        for action, (down, right) in enumerate(zip(*moves, strict=True)):
            is_vertical = abs(down) > abs(right)
            step = (int(np.sign(down)), 0) if is_vertical else (0, int(np.sign(right)))
            names.append(ARROWS.get(step, str(action)))
        return names

    def policy_values(self, policy: FloatArray, gamma: float) -> FloatArray:
        r"""Return v_π, the solution of (I − γ P_π) v = r_π, for π(a | s) of shape (S, A).

        With γ = 1 the equations have a solution where episodes end with probability 1, and where
        an endless path gives no reward, whose value is 0.
        """
        check_gamma(gamma)
        if self.num_states > MAX_DENSE_STATES:
            raise ValueError(
                f"got {self.num_states} states; expected at most {MAX_DENSE_STATES} for a solution "
                "by linear algebra; try `evaluate_policy`."
            )
        weights = check_policy(policy, self)[:, :, None] * self.probabilities
        moves = np.zeros((self.num_states, self.num_states))
        here = np.broadcast_to(np.arange(self.num_states)[:, None, None], weights.shape)
        np.add.at(moves, (here, self.next_states), weights * ~self.terminated)
        rewards = (weights * self.rewards).sum(axis=(1, 2))
        solved = np.ones(self.num_states, bool)
        if gamma == 1:
            solved = ~_endless(moves, (weights * self.terminated).sum(axis=(1, 2)) > 0, rewards)
        values = np.zeros(self.num_states)
        equations = np.eye(int(solved.sum())) - gamma * moves[np.ix_(solved, solved)]
        values[solved] = np.linalg.solve(equations, rewards[solved])
        return values


def _endless(moves: FloatArray, ends: BoolArray, rewards: FloatArray) -> BoolArray:
    """Return the states from which no episode ends; their rewards must be 0."""
    finishing = ends
    while True:
        grown = finishing | (moves[:, finishing] > 0).any(axis=1)
        if (grown == finishing).all():
            break
        finishing = grown
    if rewards[~finishing].any():
        state = int(np.flatnonzero(~finishing & (rewards != 0))[0])
        raise ValueError(
            f"got gamma 1 and a policy that never ends an episode from state {state}, which has "
            "rewards: its value is infinite; try gamma below 1."
        )
    return ~finishing


def check_gamma(gamma: float) -> float:
    """Return the discount; raise `ValueError` unless 0 <= gamma <= 1."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"got gamma {gamma}; expected a discount from 0 to 1.")
    return gamma


def check_policy(policy: FloatArray, table: TransitionTable) -> FloatArray:
    """Return the policy; raise `ValueError` unless its rows are distributions over the actions."""
    shape = table.num_states, table.num_actions
    if policy.shape != shape or (policy < 0).any() or np.abs(policy.sum(axis=1) - 1).max() > 1e-9:
        raise ValueError(
            f"got a policy of shape {policy.shape}; expected {shape}, and rows that are "
            "distributions."
        )
    return policy


def uniform_policy(table: TransitionTable) -> FloatArray:
    """Return the policy that takes every action with the same probability (S, A)."""
    return np.full((table.num_states, table.num_actions), 1 / table.num_actions)


def deterministic_policy(actions: IntArray, num_actions: int) -> FloatArray:
    """Return one action for each state as a distribution (S, A)."""
    return np.eye(num_actions)[actions]


def is_simulable(environment: Any) -> bool:
    """Return True if the steps of an environment are known to follow the table it publishes.

    This holds for Gymnasium's own toy-text worlds without wrappers that change rewards or
    observations, except for a taxi whose passenger changes the destination.
    """
    layers = [environment]
    while hasattr(layers[-1], "env"):
        layers.append(layers[-1].env)
    is_plain = all(type(layer).__name__ in PLAIN_WRAPPERS for layer in layers[:-1])
    world = layers[-1]
    is_known = type(world).__module__.startswith("gymnasium.envs.toy_text.")
    is_fickle = getattr(world, "fickle_passenger", False)
    return is_plain and is_known and not is_fickle and has_transition_table(environment)


def has_transition_table(environment: Any) -> bool:
    """Return True if a Gymnasium environment publishes its transitions, as toy-text ones do."""
    return isinstance(getattr(environment.unwrapped, "P", None), dict)


def transition_table(environment: Any) -> TransitionTable:
    """Return the transitions of a Gymnasium environment that publishes them as `P[s][a]`.

    FrozenLake, CliffWalking and Taxi do. Blackjack does not: its table would need the
    probabilities of every hand of the dealer. A terminal state, whose transitions no episode
    follows, is given a value of 0: it leads to itself without a reward.
    """
    world = environment.unwrapped
    if not has_transition_table(environment):
        name = getattr(environment.spec, "id", type(world).__name__)
        raise ValueError(
            f"got the environment {name}, which publishes no transition table; expected one with "
            "P[state][action], such as FrozenLake-v1, CliffWalking-v1 or Taxi-v4; try a model that "
            "learns from episodes, such as q_learning."
        )
    states, actions = len(world.P), len(world.P[0])
    outcomes = max(len(world.P[s][a]) for s in range(states) for a in range(actions))
    shape = states, actions, outcomes
    probabilities, rewards = np.zeros(shape), np.zeros(shape)
    next_states, terminated = np.zeros(shape, np.int64), np.zeros(shape, bool)
    for s in range(states):
        for a in range(actions):
            for m, (p, following, reward, is_end) in enumerate(world.P[s][a]):
                probabilities[s, a, m], next_states[s, a, m] = p, following
                rewards[s, a, m], terminated[s, a, m] = reward, is_end
    start = np.asarray(world.initial_state_distrib, dtype=np.float64)
    table = TransitionTable(
        probabilities, next_states, rewards, terminated, start / start.sum(), _grid(world, states)
    )
    last = table.terminal
    probabilities[last], rewards[last], terminated[last] = 1 / outcomes, 0.0, True
    next_states[last] = np.flatnonzero(last)[:, None, None]
    return table


def _grid(world: Any, states: int) -> tuple[int, int] | None:
    """Return rows and columns of a world whose states are the cells of a grid."""
    shape = getattr(world, "shape", None) or np.shape(getattr(world, "desc", ()))
    return (shape[0], shape[1]) if len(shape) == 2 and shape[0] * shape[1] == states else None
