"""Time, devices, memory: the loop, those who watch it, and taking it up again."""

from saccade.training.loop import (
    Evaluated,
    Event,
    Loss,
    Reported,
    Standing,
    Stepped,
    Task,
    Tell,
    train,
)
from saccade.training.observers import MetricsLog, progress_bar, read_metrics
from saccade.training.precision import device_named, keep_memory, set_threads
from saccade.training.resume import (
    Beside,
    checkpoints,
    load_checkpoint,
    take,
    why_not_exact,
    write_checkpoint,
)
from saccade.training.settings import TrainConfig
from saccade.training.workers import each_apart

__all__ = [
    "Beside",
    "Evaluated",
    "Event",
    "Loss",
    "MetricsLog",
    "Reported",
    "Standing",
    "Stepped",
    "Task",
    "Tell",
    "TrainConfig",
    "checkpoints",
    "device_named",
    "each_apart",
    "keep_memory",
    "load_checkpoint",
    "progress_bar",
    "read_metrics",
    "set_threads",
    "take",
    "train",
    "why_not_exact",
    "write_checkpoint",
]
