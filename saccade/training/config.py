"""The settings of training: time, devices, memory."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from saccade.config import Config
from saccade.nn.init import INITS
from saccade.optim import FULL_BATCH, OPTIMIZERS, SCHEDULES
from saccade.registry import did_you_mean

DEFAULT_INIT = "default"  # the start that a model gives itself


def _one_of(names: Iterable[str]) -> AfterValidator:
    def known(name: str) -> str:
        if name not in names:
            raise ValueError(
                f"there is none of that name.{did_you_mean(name, names)} "
                f"There are: {', '.join(sorted(names))}"
            )
        return name

    return AfterValidator(known)


class TrainConfig(Config):
    """How long, how fast, on what."""

    steps: int = Field(1000, ge=1)
    minutes: float | None = Field(None, gt=0)  # a bound by the clock; resuming is then not exact
    batch_tokens: int = Field(4096, ge=1)  # rows times the longest side of a batch
    optimizer: Annotated[str, _one_of(OPTIMIZERS)] = "adamw"
    accumulate_steps: int = Field(1, ge=1)  # batches whose gradients make one step
    learning_rate: float = Field(1e-3, gt=0)
    warmup: int = Field(100, ge=0)  # steps
    schedule: Annotated[str, _one_of(SCHEDULES)] = "cosine"
    target_update_ratio: float = Field(
        1e-3, gt=0, lt=1
    )  # of a step to the weights, to which pid holds the rate
    weight_decay: float = Field(0.01, ge=0)
    momentum: float = Field(0.9, gt=0, lt=1)  # of momentum, averaged_momentum, nesterov and lars
    beta2: float | None = Field(None, gt=0, lt=1)  # how long a squared gradient counts, if it does
    clip_norm: float = Field(1.0, gt=0)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    seed: int = 1
    init: Annotated[str, _one_of((DEFAULT_INIT, *INITS))] = (
        DEFAULT_INIT  # how weights begin, by a method's name
    )
    evaluate_every: int = Field(200, ge=1)  # steps
    patience: int = Field(5, ge=1)  # evaluations without a new best before it stops
    average_checkpoints: int = Field(
        1, ge=1
    )  # weights are judged and kept as the mean of so many evaluations
    report_every: int = Field(20, ge=1)  # steps
    checkpoint_seconds: float = Field(60.0, ge=0)
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    threads: int | None = Field(None, ge=1)

    @field_validator("accumulate_steps")
    @classmethod
    def _whole_or_some(cls, accumulate_steps: int, info: ValidationInfo) -> int:
        if accumulate_steps > 1 and info.data.get("optimizer") == FULL_BATCH:
            raise ValueError(f"a step of {FULL_BATCH} takes all batches there are; leave it out")
        return accumulate_steps

    @field_validator("compile")
    @classmethod
    def _twice_or_compiled(cls, compiled: bool, info: ValidationInfo) -> bool:
        if compiled and info.data.get("optimizer") == "newton":
            raise ValueError("compiled kernels have no second derivatives, which newton is about")
        return compiled
