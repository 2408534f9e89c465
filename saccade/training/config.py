"""Training settings: length, learning rate, optimizer, evaluation, device."""

import math
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from saccade.training.estimator import FitConfig
from saccade.types.limits import (
    MAX_ACCUMULATION,
    MAX_AVERAGED,
    MAX_COUNT,
    MAX_MINUTES,
    MAX_SEED,
    MAX_THREADS,
    MAX_VALUE,
)
from saccade.types.names import (
    DEFAULT_INIT,
    FULL_BATCH,
    InitName,
    OptimizerName,
    ScheduleName,
    SwitchName,
)

# of a training without a time budget; a budget has shares instead (`training.budget`)
DEFAULT_STEPS, DEFAULT_WARMUP, DEFAULT_EVALUATION_INTERVAL = 1000, 100, 200


class TrainConfig(FitConfig):
    """Settings of the training loop."""

    steps: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Number of optimizer steps; if not set, 1,000, or as many as fit into `minutes`."""
    minutes: float | None = Field(None, gt=0, le=MAX_MINUTES)
    """Time budget for reading the data, training and evaluations on the validation split; the
    learning-rate schedule follows the clock, so a resumed run is no longer bit-exact."""
    batch_tokens: int = Field(4096, ge=1, le=MAX_COUNT)
    """Batch size in tokens, padding included: rows times the longest row of a batch."""
    optimizer: OptimizerName = "adamw"
    """Name of the optimizer."""
    switch_to: SwitchName | None = None
    """Optimizer that replaces `optimizer` after `switch_step` steps: Adam first, SGD later."""
    switch_step: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Number of steps of `optimizer`, where `switch_to` replaces it."""
    switch_learning_rate: float | None = Field(None, gt=0, le=MAX_VALUE)
    """Peak learning rate of `switch_to`, before the factor of the schedule; if not set, it is
    estimated from the last hundred steps before the switch."""
    accumulate_steps: int = Field(1, ge=1, le=MAX_ACCUMULATION)
    """Number of batches whose gradients are accumulated for one optimizer step."""
    learning_rate: float = Field(1e-3, gt=0, le=MAX_VALUE)
    """Peak learning rate, before the factor of the schedule."""
    warmup: int | None = Field(None, ge=0, le=MAX_COUNT)
    """Steps of linear learning-rate warm-up; if not set, 100, or a tenth of `minutes`."""
    schedule: ScheduleName = "cosine"
    """Learning-rate schedule after the warm-up."""
    target_update_ratio: float = Field(1e-3, gt=0, lt=1)
    """Ratio of update norm to weight norm that the schedule `pid` maintains."""
    weight_decay: float = Field(0.01, ge=0, le=MAX_VALUE)
    """Weight decay of matrices; biases and norm gains have none."""
    momentum: float = Field(0.9, gt=0, lt=1)
    """Momentum of `momentum`, `averaged_momentum`, `nesterov`, `nesterov_lookahead` and `lars`."""
    beta2: float | None = Field(None, gt=0, lt=1)
    """Decay rate of the squared-gradient average; the optimizer's default if not set."""
    clip_norm: float = Field(1.0, gt=0, le=MAX_VALUE)
    """Largest norm of the gradient; longer gradients are scaled down to it."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target probability that is spread evenly over all classes."""
    seed: int = Field(1, ge=0, le=MAX_SEED)
    """Random seed of initialisation, batch order and dropout."""
    init: InitName = DEFAULT_INIT
    """Weight initialisation method; `default` is the model's own."""
    evaluate_every: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Steps between two evaluations on the validation split; if not set, 200, or up to 20
    evaluations in a tenth of `minutes`."""
    patience: int = Field(5, ge=1, le=MAX_COUNT)
    """Early stopping: number of evaluations without improvement before training ends."""
    average_checkpoints: int = Field(1, ge=1, le=MAX_AVERAGED)
    """Number of last evaluations whose weights are averaged for evaluation and for the result."""
    report_every: int = Field(20, ge=1, le=MAX_COUNT)
    """Steps between two entries in `metrics.jsonl`."""
    checkpoint_seconds: float = Field(60.0, ge=0, le=MAX_VALUE)
    """Seconds between two checkpoints."""
    tensorboard: bool = False
    """Write the metrics as TensorBoard event files, too, into `tensorboard/` of the run."""
    device: str = "auto"
    """Torch device, such as `cpu` or `cuda:0`; `auto` is the first accelerator or the CPU."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products; `bfloat16` uses autocast with float32 weights."""
    compile: bool = False
    """Compile the model with `torch.compile`; a resumed run is then no longer bit-exact."""
    threads: int | None = Field(None, ge=1, le=MAX_THREADS)
    """Number of CPU threads; the number of available cores if not set."""

    @property
    def max_steps(self) -> float:
        """Number of steps after which training ends; infinite if only the clock ends it."""
        if self.steps is not None:
            return self.steps
        return DEFAULT_STEPS if self.minutes is None else math.inf

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up, where it is not a share of a time budget."""
        return DEFAULT_WARMUP if self.warmup is None else self.warmup

    @property
    def evaluation_interval(self) -> int:
        """Steps between two evaluations, where they are not planned from a time budget."""
        return self.evaluate_every or DEFAULT_EVALUATION_INTERVAL

    @field_validator("switch_to")
    @classmethod
    def _switch_from_steps_of_one_gradient(cls, name: str | None, info: ValidationInfo) -> Any:
        first = info.data.get("optimizer")
        if name is not None and first in (FULL_BATCH, "lbfgs", "newton"):
            raise ValueError(
                f"expected none with train.optimizer={first}, whose steps use more than one batch "
                "or gradient; try train.optimizer=adam"
            )
        return name

    @field_validator("switch_step", "switch_learning_rate")
    @classmethod
    def _switch_is_complete(cls, value: float | None, info: ValidationInfo) -> Any:
        name = info.data.get("switch_to")
        if value is None and name is not None and info.field_name == "switch_step":
            raise ValueError(
                f"expected the number of steps before {name} replaces the optimizer; try half of "
                "train.steps"
            )
        if value is not None and name is None:
            raise ValueError("expected train.switch_to with it; try train.switch_to=sgd")
        return value

    @field_validator("accumulate_steps")
    @classmethod
    def _no_accumulation_of_full_batches(cls, accumulate_steps: int, info: ValidationInfo) -> int:
        if accumulate_steps > 1 and info.data.get("optimizer") == FULL_BATCH:
            raise ValueError(f"expected 1, since a step of {FULL_BATCH} uses all batches")
        return accumulate_steps

    @field_validator("compile")
    @classmethod
    def _no_compiled_newton(cls, compiled: bool, info: ValidationInfo) -> bool:
        if compiled and info.data.get("optimizer") == "newton":
            raise ValueError(
                "expected False, since compiled kernels have no second derivatives for newton"
            )
        return compiled
