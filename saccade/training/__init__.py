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
from saccade.training.observers import MetricsLog, counting, progress_bar, read_metrics
from saccade.training.precision import device_named, keep_memory, set_threads
from saccade.training.resume import load_checkpoint, save_checkpoint, why_not_exact
from saccade.training.settings import TrainConfig

__all__ = [
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
    "counting",
    "device_named",
    "keep_memory",
    "load_checkpoint",
    "progress_bar",
    "read_metrics",
    "save_checkpoint",
    "set_threads",
    "train",
    "why_not_exact",
]
