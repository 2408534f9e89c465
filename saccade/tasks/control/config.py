"""Settings of the task control. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.data.environments.config import EnvironmentConfig
from saccade.models.control_config import A2CConfig, DQNConfig, PPOConfig, ReinforceConfig
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_COUNT, MAX_THREADS, MAX_VALUE
from saccade.types.names import OptimizerName, ScheduleName


class ControlTrainConfig(TrainConfig):
    """Settings of the training loop; a step is one update of the network."""

    batch_tokens: int = Field(64, ge=1, le=MAX_COUNT)
    """Batch size in transitions: of the replay memory (dqn), of a part of a rollout (ppo). A batch
    of reinforce is its episodes, one of a2c its rollout."""
    optimizer: OptimizerName = "adam"
    """Name of the optimizer."""
    warmup: int = Field(0, ge=0, le=MAX_COUNT)
    """Steps of linear learning-rate warm-up."""
    schedule: ScheduleName = "constant"
    """Learning-rate schedule after the warm-up."""
    weight_decay: float = Field(0.0, ge=0, le=MAX_VALUE)
    """Weight decay of matrices; biases and norm gains have none."""
    clip_norm: float = Field(10.0, gt=0, le=MAX_VALUE)
    """Largest norm of the gradient; longer gradients are scaled down to it."""
    patience: int = Field(1000, ge=1, le=MAX_COUNT)
    """Early stopping: number of evaluations without improvement before training ends."""
    threads: int = Field(1, ge=1, le=MAX_THREADS)
    """Number of CPU threads: one, since the networks are small."""


class ControlRecipe(Recipe):
    """Act in an environment: values and policies learned from rewards."""

    task: Literal["control"] = "control"
    data: EnvironmentConfig = EnvironmentConfig()
    model: Annotated[
        DQNConfig | ReinforceConfig | A2CConfig | PPOConfig, Field(discriminator="name")
    ] = DQNConfig()
    train: ControlTrainConfig = ControlTrainConfig()
