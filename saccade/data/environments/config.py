"""Settings of an environment. Imports neither torch nor Gymnasium."""

from pydantic import Field

from saccade.data.source import DataConfig
from saccade.types.limits import MAX_COUNT, MAX_EPISODES, MAX_SEED

DEFAULT_MAX_STEPS = 1000  # of an episode, where the environment states no limit
ArgumentValue = bool | int | float | str


class EnvironmentConfig(DataConfig):
    """Settings of an environment, and of the episodes on which a policy is evaluated."""

    world: str | None = None
    """Name of an environment of Gymnasium, or `package:Class` or `package:Name-v0` of your own."""
    arguments: dict[str, ArgumentValue] = {}
    """Arguments of the environment, such as `is_slippery` of FrozenLake."""
    max_episode_steps: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Number of steps after which an episode is cut off; if not set, the environment's own limit,
    or 1,000 where it has none."""
    dev_episodes: int = Field(20, ge=1, le=MAX_EPISODES)
    """Number of episodes of an evaluation during training."""
    test_episodes: int = Field(100, ge=1, le=MAX_EPISODES)
    """Number of episodes of an evaluation after training."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Seed of the episodes of evaluations; those of the training depend on `train.seed`."""
