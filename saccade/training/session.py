"""One training session: from the newest checkpoint, or from the start, until training stops."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor, nn
from torch.optim import Optimizer

from saccade.errors import TrainingError
from saccade.io.tensors import write_tensors
from saccade.optim import OptimizerSettings, make_optimizer, make_switching_optimizer
from saccade.training.budget import MAX_SETUP_SHARE, BudgetPlan, format_duration
from saccade.training.callbacks import MetricsLog, training_progress_bar
from saccade.training.checkpoint import (
    BackgroundWriter,
    inexact_resume_reasons,
    list_checkpoints,
    load_checkpoint,
    snapshot,
    write_checkpoint,
)
from saccade.training.config import TrainConfig
from saccade.training.device import resolve_device, tune_malloc
from saccade.training.loop import (
    EvalProgressEvent,
    Event,
    EventCallback,
    PlanEvent,
    SwitchEvent,
    train_loop,
)
from saccade.training.objective import AnyObjective, Validation
from saccade.training.pace import Pace
from saccade.training.signals import StopFlag
from saccade.training.state import TrainState
from saccade.training.tensorboard import TensorBoardLog
from saccade.types.progress import Progress


def run_training_session(
    objective: AnyObjective,
    validate: Callable[[int, Progress], Validation],
    settings: TrainConfig,
    folder: Path,
    *,
    console: Console,
    warn: Callable[[str], None],
    on_event: Callable[[Event], None],
    stop: StopFlag | None = None,
    is_calibrated_later: bool = False,
    setup_seconds: float = 0.0,
    on_load: Callable[[TrainState], None] = lambda state: None,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Train until the loop stops; return the stop reason.

    The best weights are left in the model and in `folder`/model.safetensors, with checkpoints
    and metrics.jsonl in the same folder.

    Args:
        objective: what to train; its own validation, if it has one, replaces `validate`.
        validate: scores the model on so many examples of held-out data, and reports progress.
        settings: training settings.
        folder: the run folder.
        console: for the progress bar.
        warn: receives messages for the user.
        on_event: receives the events of the loop.
        stop: set if training is to stop; an evaluation is left immediately.
        is_calibrated_later: the weights are saved as those of an unfinished run.
        setup_seconds: time used so far, which counts in a time budget.
        on_load: receives the state of the checkpoint, which it may change.
        clock: seconds; only differences matter.
    """
    stop = StopFlag() if stop is None else stop
    model = objective.model
    tune_malloc()
    model.to(resolve_device(settings.device))
    if settings.compile:
        objective.compile()
    optimizer = build_optimizer(model, settings)
    for reason in inexact_resume_reasons(settings):
        warn(f"Stopped and resumed, this run may differ in the last bits: {reason}.")
    if settings.switch_step is not None and settings.switch_step >= settings.max_steps:
        warn(
            f"{settings.switch_to} will not replace {settings.optimizer}: train.switch_step is "
            f"{settings.switch_step:,} and train.steps {settings.max_steps:,.0f}."
        )
    state = load_checkpoint(folder / "checkpoint", model, optimizer, warn)
    on_load(state)
    objective.load_state_dict(state.carry)
    if settings.minutes is not None:
        _start_budget(state, 60 * settings.minutes, setup_seconds, warn)
    weights = folder / "model.safetensors"
    saved_step = 0  # step of the weights that this session wrote to model.safetensors
    with ExitStack() as stack:
        log = stack.enter_context(MetricsLog(folder / "metrics.jsonl", state))
        start = Pace(settings, state, clock).progress
        bar = stack.enter_context(training_progress_bar(console, settings, objective.unit, start))
        callbacks: list[EventCallback] = [log, bar, on_event]
        if settings.tensorboard:
            callbacks.append(stack.enter_context(TensorBoardLog(folder / "tensorboard", state)))
        writer = stack.enter_context(BackgroundWriter())

        def publish(event: Event) -> None:
            for callback in callbacks:
                callback(event)
            if isinstance(event, PlanEvent):
                warn(_describe_plan(event.plan, 60 * (settings.minutes or 0) - state.seconds))
            if isinstance(event, SwitchEvent):
                warn(_describe_switch(event, settings))

        def on_progress(what: str, done: int, total: int | None) -> None:
            publish(EvalProgressEvent(state.step, what, done, total))

        def validate_now(examples: int) -> Validation:
            with stop.stoppable_evaluation():
                if objective.validate is not None:
                    return objective.validate()
                return validate(examples, on_progress)

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

        try:
            stop_reason = train_loop(
                objective,
                validate_now,
                optimizer,
                settings,
                state,
                on_event=publish,
                save=save,
                stop=stop,
                clock=clock,
            )
        except TrainingError as error:
            writer.wait()
            if state.best_weights:
                write_tensors(weights, *_best(state))
            raise TrainingError(f"{error}{_describe_kept(state, folder)}") from None
    if state.best_weights:
        model.load_state_dict(state.best_weights)
        write_tensors(weights, *_best(state, "" if is_calibrated_later else stop_reason))
    model.eval()
    return stop_reason


def _start_budget(
    state: TrainState, budget: float, setup_seconds: float, warn: Callable[[str], None]
) -> None:
    """Count the time used before the first step, and report what the budget includes."""
    if state.step == 0:
        state.seconds = state.setup_seconds = min(setup_seconds, MAX_SETUP_SHARE * budget)
        if setup_seconds > state.seconds:
            warn(
                f"Reading the data took {format_duration(setup_seconds)} of "
                f"{format_duration(budget)}; training gets half of the time all the same, and ends "
                "later."
            )
    warn(
        f"Time budget {format_duration(budget)}, {format_duration(state.seconds)} of it used: it "
        "includes reading the data, training and evaluations on the validation split, not the "
        "evaluation on the test split and the report after them."
    )


def _describe_plan(plan: BudgetPlan, left: float) -> str:
    every = "evaluation" if plan.evaluations == 1 else "evaluations"
    return (
        f"About {plan.steps:,} steps fit into the budget ({format_duration(left)} left), with "
        f"{plan.evaluations} {every} of {format_duration(plan.eval_seconds)} on up to "
        f"{plan.examples} examples."
    )


def _describe_switch(event: SwitchEvent, settings: TrainConfig) -> str:
    source = " (estimated)" if settings.switch_learning_rate is None else ""
    return (
        f"Step {event.step:,}: {event.optimizer} replaces {settings.optimizer}, learning rate "
        f"{event.learning_rate:.3g}{source}."
    )


def _describe_kept(state: TrainState, folder: Path) -> str:
    """Return what a training that failed leaves in its folder."""
    kept = []
    if state.best_weights:
        kept.append(f"the best weights, of step {state.best_step:,} ({folder}/model.safetensors)")
    if checkpoints := [path for path in list_checkpoints(folder / "checkpoint") if int(path.stem)]:
        kept.append(f"the checkpoint of step {int(checkpoints[-1].stem):,}")
    if not kept:
        return ""
    return f" Kept: {' and '.join(kept)}; --init-from {folder} starts a new run from them."


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
    if settings.switch_to is None or settings.switch_step is None:
        return make_optimizer(settings.optimizer, model, options)
    names = settings.optimizer, settings.switch_to
    return make_switching_optimizer(
        names, settings.switch_step, model, options, settings.switch_learning_rate
    )


def _best(state: TrainState, stop_reason: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    metadata = {"step": state.best_step, "goodness": state.best, "ended": stop_reason}
    return state.best_weights, metadata
