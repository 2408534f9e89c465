"""Episodes of one environment, whose state can be restored without pickling it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saccade.data.environments.config import EnvironmentConfig
from saccade.data.environments.make import (
    EpisodeSeed,
    check_reward,
    close_environment,
    make_environment,
)
from saccade.data.environments.spaces import Spaces, Vector

Action = int | Vector


class Step(NamedTuple):
    """Result of one action: what the environment returned."""

    observation: Vector  # encoded; the last of its episode if the episode has ended
    reward: float
    terminated: bool  # the environment ended the episode: there is no value after it
    truncated: bool  # the time limit ended it


class EpisodeRunner:
    """Episodes number `first`, `first` + `stride`, … of one environment, one after another.

    The seed of an episode is a function of its number. The state in the middle of an episode is
    its number and the actions so far: `restore` plays them again, which gives the same bits where
    the environment is deterministic.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        spaces: Spaces,
        seed_of: EpisodeSeed,
        first: int = 0,
        stride: int = 1,
        render_mode: str | None = None,
    ):
        self.spaces, self.seed_of, self.stride = spaces, seed_of, stride
        self.environment = make_environment(config, render_mode)
        self.encodes = spaces.observation == "categories" or len(spaces.sizes) > 1
        self.start_episode(first)

    def start_episode(self, episode: int) -> None:
        """Reset the environment to the start of an episode."""
        self.episode, self.total = episode, 0.0
        self.actions: list[Action] = []
        observation, _ = self.environment.reset(seed=self.seed_of(episode))
        self.observation = self.spaces.encode(observation)

    def step(self, action: Action) -> Step:
        """Take an action: the index of a discrete one, or a vector; see `advance`."""
        spaces = self.spaces
        self.actions.append(action)
        taken: Any
        if spaces.action == "discrete":
            taken = spaces.first_action + action
        else:
            taken = spaces.clip_action(np.asarray(action))
        raw, reward, terminated, truncated, _ = self.environment.step(taken)
        steps = len(self.actions)
        value = check_reward(reward, spaces.world, self.episode, steps)
        self.total += value
        self.observation = spaces.encode(raw) if self.encodes else np.array(raw, np.float32)
        ended = bool(terminated)
        cut_off = not ended and (bool(truncated) or steps >= spaces.max_steps)
        return Step(self.observation, value, ended, cut_off)

    def next_episode(self) -> None:
        """Start the next episode of this runner."""
        self.start_episode(self.episode + self.stride)

    def restore(self, episode: int, actions: Sequence[Action]) -> None:
        """Play the actions of an episode again, up to where it was."""
        self.start_episode(episode)
        for action in actions:
            step = self.step(action)
            if step.terminated or step.truncated:  # the environment is not deterministic
                self.next_episode()
                return

    def close(self) -> None:
        """Close the environment."""
        close_environment(self.environment)
