"""One training session: from the newest checkpoint, or from the start, until training stops."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor, nn
from torch.optim import Optimizer

from saccade.io.tensors import write_tensors
from saccade.optim import OptimizerSettings, make_optimizer
from saccade.training.callbacks import MetricsLog, training_progress_bar
from saccade.training.checkpoint import (
    BackgroundWriter,
    inexact_resume_reasons,
    load_checkpoint,
    snapshot,
    write_checkpoint,
)
from saccade.training.config import TrainConfig
from saccade.training.device import resolve_device, tune_malloc
from saccade.training.loop import Event, TrainState, train_loop
from saccade.training.objective import AnyObjective, Validation
from saccade.training.signals import stop_on_signal


def run_training_session(
    objective: AnyObjective,
    validate: Callable[[], Validation],
    settings: TrainConfig,
    folder: Path,
    *,
    console: Console,
    warn: Callable[[str], None],
    on_event: Callable[[Event], None],
) -> str:
    """Train until the loop stops; return the stop reason.

    The best weights are left in the model and in `folder`/model.safetensors, with checkpoints
    and metrics.jsonl in the same folder.
    """
    model = objective.model
    tune_malloc()
    model.to(resolve_device(settings.device))
    if settings.compile:
        objective.compile()
    optimizer = build_optimizer(model, settings)
    for reason in inexact_resume_reasons(settings):
        warn(f"Stopped and resumed, this run may differ in the last bits: {reason}.")
    state = load_checkpoint(folder / "checkpoint", model, optimizer, warn)
    objective.load_state_dict(state.carry)
    weights = folder / "model.safetensors"
    saved_step = 0  # step of the weights that this session wrote to model.safetensors
    with ExitStack() as stack:
        log = stack.enter_context(MetricsLog(folder / "metrics.jsonl", state))
        bar = stack.enter_context(training_progress_bar(console, state.step, settings.steps))
        stop = stack.enter_context(stop_on_signal())
        writer = stack.enter_context(BackgroundWriter())

        def publish(event: Event) -> None:
            for callback in (log, bar, on_event):
                callback(event)

        def save(state: TrainState) -> None:
            nonlocal saved_step
            state.carry = objective.state_dict()
            checkpoint = snapshot(model, optimizer, state)
            best = _best(state) if state.best_step != saved_step else None
            saved_step = state.best_step

            def write() -> None:
                log.fsync()
                write_checkpoint(folder / "checkpoint", checkpoint)
                if best is not None:
                    write_tensors(weights, *best)

            writer.submit(write)

        stop_reason = train_loop(
            objective,
            objective.validate or validate,
            optimizer,
            settings,
            state,
            on_event=publish,
            save=save,
            stop=stop,
        )
        save(state)
    if state.best_weights:
        model.load_state_dict(state.best_weights)
        write_tensors(weights, *_best(state, stop_reason))
    model.eval()
    return stop_reason


def save_initial_checkpoint(model: nn.Module, settings: TrainConfig, folder: Path) -> None:
    """Save weights that were loaded from another run as the checkpoint before the first step.

    A run that is killed before its first checkpoint could not be resumed from them otherwise.
    """
    checkpoint = snapshot(model, build_optimizer(model, settings), TrainState())
    write_checkpoint(folder / "checkpoint", checkpoint)


def build_optimizer(model: nn.Module, settings: TrainConfig) -> Optimizer:
    """Return the optimizer that the settings name."""
    options = OptimizerSettings(
        settings.learning_rate, settings.weight_decay, settings.momentum, settings.beta2
    )
    return make_optimizer(settings.optimizer, model, options)


def _best(state: TrainState, stop_reason: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    metadata = {"step": state.best_step, "goodness": state.best, "ended": stop_reason}
    return state.best_weights, metadata
