"""One sitting of a network's training: from its newest checkpoint, or from the beginning."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor
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
from saccade.training.device import resolve_device, tune_malloc
from saccade.training.loop import Event, TrainState, train_loop
from saccade.training.signals import stop_on_signal


def run_training_session(
    task: Any,
    folder: Path,
    *,
    console: Console,
    warn: Callable[[str], None],
    on_event: Callable[[Event], None],
) -> str:
    """Train until it ends, with the best weights in `folder` and in the task; why it ended."""
    settings = task.recipe.train
    tune_malloc()
    task.model.to(resolve_device(settings.device))
    if settings.compile:
        task.compile()
    optimizer = _optimizer(task)
    for reason in inexact_resume_reasons(settings):
        warn(f"Stopped and resumed, this run may differ in the last bits: {reason}.")
    state = load_checkpoint(folder / "checkpoint", task.model, optimizer, warn)
    task.carry = state.carry
    weights = folder / "model.safetensors"
    saved_step = 0  # the step whose weights this sitting has put into model.safetensors
    with ExitStack() as stack:
        log = stack.enter_context(MetricsLog(folder / "metrics.jsonl", state))
        bar = stack.enter_context(training_progress_bar(console, state.step, settings.steps))
        stop = stack.enter_context(stop_on_signal())
        writer = stack.enter_context(BackgroundWriter())

        def tell_all(event: Event) -> None:
            for listener in (log, bar, on_event):
                listener(event)

        def save(state: TrainState) -> None:
            nonlocal saved_step
            checkpoint = snapshot(task.model, optimizer, state)
            best = _best(state) if state.best_step != saved_step else None
            saved_step = state.best_step

            def write() -> None:
                log.fsync()
                write_checkpoint(folder / "checkpoint", checkpoint)
                if best is not None:
                    write_tensors(weights, *best)

            writer.submit(write)

        stop_reason = train_loop(
            task, optimizer, settings, state, on_event=tell_all, save=save, stop=stop
        )
        save(state)
    if state.best_weights:
        task.model.load_state_dict(state.best_weights)
        write_tensors(weights, *_best(state, stop_reason))
    task.model.eval()
    return stop_reason


def save_initial_checkpoint(task: Any, folder: Path) -> None:
    """Keep weights that are not by chance as the checkpoint before the first step.

    Who resumes a training that was killed before its first one has nowhere else to find them.
    """
    write_checkpoint(folder / "checkpoint", snapshot(task.model, _optimizer(task), TrainState()))


def _optimizer(task: Any) -> Optimizer:
    train = task.recipe.train
    optimizer_settings = OptimizerSettings(
        train.learning_rate, train.weight_decay, train.momentum, train.beta2
    )
    return make_optimizer(train.optimizer, task.model, optimizer_settings)


def _best(state: TrainState, stop_reason: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    facts = {"step": state.best_step, "goodness": state.best, "ended": stop_reason}
    return state.best_weights, facts
