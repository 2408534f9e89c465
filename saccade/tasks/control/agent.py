"""Agents: observations in, actions out."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from saccade.data.environments.spaces import Spaces, Vector
from saccade.seeding import RandomRows
from saccade.tasks.control.config import ControlRecipe
from saccade.types.arrays import FloatArray

MAX_TOGETHER = 16  # environments that an evaluation steps together


@runtime_checkable
class Agent(Protocol):
    """Something that acts: a network, a table of values, or the random policy."""

    def greedy(self, observations: Vector) -> Any:
        """Return the best action of each encoded observation (N, D)."""
        ...

    def explore(self, observations: Vector, index: int) -> Any:
        """Return an action of each observation, with the exploration of the training.

        The random numbers are a function of the agent's seed and `index`.
        """
        ...


class Valuation(NamedTuple):
    """Values of observations as arrays, computed by an agent."""

    actions: FloatArray  # value or probability of each action, or mean of a continuous one (N, A)
    deviation: FloatArray | None = None  # of continuous actions (A)
    states: FloatArray | None = None  # value of each state (N), where there is a value network


class ValueAgent(Agent, Protocol):
    """A trained agent, which values the actions or gives their probabilities."""

    is_policy: bool  # probabilities instead of values
    is_continuous: bool
    recipe: ControlRecipe
    spaces: Spaces

    def value(self, observations: Vector) -> Valuation:
        """Return values or probabilities of the actions of encoded observations (N, D)."""
        ...


class RandomAgent:
    """The uniform random policy; of unbounded continuous actions, N(0, 1)."""

    def __init__(self, spaces: Spaces, seed: int):
        self.spaces = spaces
        width = 1 if spaces.action == "discrete" else spaces.actions
        self.uniform = RandomRows(seed, "random policy", MAX_TOGETHER * width)
        self.normal = RandomRows(seed, "random policy, unbounded", MAX_TOGETHER * width, True)

    def greedy(self, observations: Vector) -> Any:
        """Return the first action: all are equally good to this policy."""
        return np.zeros(len(observations), np.int64)

    def explore(self, observations: Vector, index: int) -> Any:
        """Return an action for each observation."""
        spaces, count = self.spaces, len(observations)
        if spaces.action == "discrete":
            return (self.uniform[index][:count] * spaces.actions).astype(np.int64)
        shape = count, spaces.actions
        uniform = self.uniform[index][: count * spaces.actions].reshape(shape)
        normal = self.normal[index][: count * spaces.actions].reshape(shape)
        for component, (low, high) in enumerate(zip(spaces.low, spaces.high, strict=True)):
            if low is not None and high is not None:
                normal = normal.copy()
                normal[:, component] = low + (high - low) * uniform[:, component]
        return normal.astype(np.float32)
