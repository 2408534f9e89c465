"""Settings of the task control. Does not import torch."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, field_validator

from saccade.config import Config
from saccade.data.environments.config import EnvironmentConfig
from saccade.estimators.reinforcement.config import (
    EPISODIC_CONFIGS,
    PLANNING_CONFIGS,
    QLearningConfig,
)
from saccade.models.choice import ModelChoice
from saccade.models.registry import CONTROL_MODELS, ModelEntry
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.training.estimator import FitConfig
from saccade.types.limits import MAX_COUNT, MAX_THREADS, MAX_VALUE
from saccade.types.names import OptimizerName, ScheduleName

TABULAR_AGENTS = {
    name: ModelEntry(config, "saccade.tasks.control.table:ActionTable", described_by_settings=True)
    for name, config in {**EPISODIC_CONFIGS, **PLANNING_CONFIGS}.items()
}
AGENTS = {**TABULAR_AGENTS, **CONTROL_MODELS}


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
    model: Annotated[Config, ModelChoice(AGENTS)] = QLearningConfig()
    train: SerializeAsAny[FitConfig] = FitConfig()

    @field_validator("train", mode="wrap")
    @classmethod
    def _train_settings_of_the_model(cls, value: Any, handler: Any, info: Any) -> Any:
        """Networks have the settings of the training loop, tables those of a fit."""
        if "model" not in info.data:  # the model is invalid, which is reported
            return value
        is_network = info.data["model"].name in CONTROL_MODELS
        train_class = ControlTrainConfig if is_network else FitConfig
        if type(value) is train_class:
            return value
        values = value.model_dump(exclude_unset=True) if isinstance(value, Config) else value
        return train_class.model_validate(values)

    @property
    def is_network(self) -> bool:
        """True if the model is trained by the loop."""
        return self.model_name in CONTROL_MODELS
