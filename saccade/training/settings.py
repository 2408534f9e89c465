"""The settings of training: time, devices, memory."""

from typing import Literal

from pydantic import Field

from saccade.config import Config


class TrainConfig(Config):
    """How long, how fast, on what."""

    steps: int = Field(1000, ge=1)
    minutes: float | None = Field(None, gt=0)  # a bound by the clock; resuming is then not exact
    batch_tokens: int = Field(4096, ge=1)  # rows times the longest side of a batch
    accumulate: int = Field(1, ge=1)  # batches whose gradients make one step
    learning_rate: float = Field(1e-3, gt=0)
    warmup: int = Field(100, ge=0)  # steps
    decay: Literal["cosine", "inverse_sqrt", "linear", "none"] = "cosine"
    weight_decay: float = Field(0.01, ge=0)
    beta2: float = Field(0.98, gt=0, lt=1)  # of AdamW: how long a squared gradient counts
    clip: float = Field(1.0, gt=0)
    smoothing: float = Field(0.0, ge=0, lt=1)
    seed: int = 1
    evaluate_every: int = Field(200, ge=1)  # steps
    patience: int = Field(5, ge=1)  # evaluations without a new best before it stops
    average: int = Field(1, ge=1)  # weights are judged and kept as the mean of so many evaluations
    report_every: int = Field(20, ge=1)  # steps
    checkpoint_seconds: float = Field(60.0, ge=0)
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    threads: int | None = Field(None, ge=1)
