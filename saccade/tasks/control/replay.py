"""Replay memory: transitions in one preallocated matrix, a row each."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.data.environments.spaces import Vector
from saccade.errors import ConfigError
from saccade.io.memory import available_memory

MAX_MEMORY_SHARE = 0.5  # of the free memory, for a replay memory


class Transitions(NamedTuple):
    """A batch of transitions (s, a, r, s', d); d is 1 where the environment ended the episode."""

    observations: Float[Tensor, "B D"]
    actions: Int[Tensor, "B 1"]
    rewards: Float[Tensor, " B"]
    next_observations: Float[Tensor, "B D"]
    terminated: Float[Tensor, " B"]

    @property
    def tokens(self) -> int:
        """Number of transitions."""
        return len(self.rewards)


class ReplayMemory:
    """The newest `capacity` transitions (Lin 1992); the oldest are replaced.

    A row is s, s', r, d, a: one copy stores a transition, and one gather samples a batch.
    """

    def __init__(self, capacity: int, width: int):
        size = capacity * (2 * width + 3) * 4
        free = available_memory()
        if free is not None and size > MAX_MEMORY_SHARE * free:
            raise ConfigError(
                f"got a replay memory of {capacity:,} transitions of {width:,} numbers, of "
                f"{size / 1e9:.1f} GB; expected at most half of the {free / 1e9:.1f} GB that are "
                "free; try a smaller model.replay_size."
            )
        self.capacity, self.width = capacity, width
        self.rows = torch.zeros(capacity, 2 * width + 3)
        self._array = self.rows.numpy()
        self.size = self.position = 0

    def add(
        self,
        observation: Vector,
        action: int,
        reward: float,
        following: Vector,
        terminated: bool,
    ) -> None:
        """Store a transition."""
        row, width = self._array[self.position], self.width
        row[:width] = observation
        row[width : 2 * width] = following
        row[2 * width :] = reward, terminated, action
        self.position = (self.position + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def take(self, indices: Int[Tensor, " B"]) -> Transitions:
        """Return the transitions of some rows."""
        return self._split(self.rows.index_select(0, indices))

    def newest(self, count: int) -> Transitions:
        """Return the last transitions, oldest first."""
        last = np.arange(self.position - min(count, self.size), self.position) % self.capacity
        return self.take(torch.from_numpy(last))

    def _split(self, rows: Float[Tensor, "B _"]) -> Transitions:
        width = self.width
        return Transitions(
            rows[:, :width],
            rows[:, 2 * width + 2 :].long(),
            rows[:, 2 * width],
            rows[:, width : 2 * width],
            rows[:, 2 * width + 1],
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return the rows in use, and the position of the next one."""
        return {
            "rows": self.rows[: self.size],
            "position": torch.tensor([self.position], dtype=torch.int64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        rows = state["rows"]
        self.size, self.position = len(rows), int(state["position"][0])
        self.rows[: self.size] = rows
