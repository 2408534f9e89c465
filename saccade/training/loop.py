"""The training loop: batches in, better weights out.

The loop receives an `Objective` and knows nothing else of the task. Every random choice is a
function of the seed and the step, and all that is carried from step to step is in `TrainState`
and the objective's `state_dict`, so that a run resumed from a checkpoint has identical bits.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn

from saccade.errors import TrainingError
from saccade.optim import (
    FULL_BATCH,
    LBFGS,
    Newton,
    clip_grad_norm,
    linear_warmup,
    lr_factor,
    pid_step,
    set_learning_rate,
    update_ratio,
)
from saccade.seeding import preserve_rng, seed_torch
from saccade.training.budget import TIMED_EXAMPLES, BudgetPlan
from saccade.training.config import TrainConfig
from saccade.training.device import autocast
from saccade.training.objective import BatchT, Loss, Objective, Validation
from saccade.training.pace import Pace
from saccade.training.signals import EvaluationStopped
from saccade.training.state import TrainState
from saccade.training.thread_parallel import ThreadParallel

MIN_DELTA = 1e-3  # improvement of the selection score that resets the patience
MAX_BATCHES_IN_MESSAGE = 8


class StepEvent(NamedTuple):
    """One optimizer step was made."""

    step: int
    progress: float  # share of the training that is done
    seconds: float  # of training, over all sessions
    loss: float  # per target, of this step
    accuracy: float | None  # None: undefined for the task
    learning_rate: float
    norm: float  # of the gradient, before clipping
    tokens: int
    ratio: float | None = None  # update norm over weight norm, where it is measured


class ReportEvent(NamedTuple):
    """Averages over the steps since the last report."""

    step: int
    loss: float
    accuracy: float | None  # None: undefined for the task
    learning_rate: float
    norm: float
    tokens: int
    ratio: float | None = None  # of the last step


class EvalEvent(NamedTuple):
    """The model was evaluated on held-out data."""

    step: int
    scores: dict[str, float]
    is_best: bool


class EvalProgressEvent(NamedTuple):
    """A part of an evaluation on held-out data is done."""

    step: int
    what: str
    done: int
    total: int | None  # None: unknown


class PlanEvent(NamedTuple):
    """The rest of a time budget was planned, from the duration of steps and of an evaluation."""

    step: int
    plan: BudgetPlan


class SwitchEvent(NamedTuple):
    """Another optimizer makes the steps from this one on (`train.switch_to`)."""

    step: int
    optimizer: str
    learning_rate: float  # of this step


Event = StepEvent | ReportEvent | EvalEvent | EvalProgressEvent | PlanEvent | SwitchEvent
EventCallback = Callable[[Event], None]


def train_loop(
    objective: Objective[BatchT],
    validate: Callable[[int], Validation],
    optimizer: torch.optim.Optimizer,
    settings: TrainConfig,
    state: TrainState,
    *,
    on_event: EventCallback,
    save: Callable[[TrainState], None],
    stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Train from `state` on; return the stop reason: steps, minutes, patience or stop.

    Args:
        objective: batches and losses.
        validate: scores the model on so many examples of held-out data; may raise
            `EvaluationStopped`.
        optimizer: updates the weights.
        settings: length, learning rate, evaluations.
        state: where training starts; changed in place.
        on_event: receives what happens.
        save: writes a checkpoint.
        stop: returns True if training is to stop after this step.
        clock: seconds; only differences matter.
    """
    pace = Pace(settings, state, clock)
    per_step = settings.accumulate_steps
    if settings.optimizer == FULL_BATCH:
        per_step = objective.batches_in_epoch()
    batches = objective.batches("train", start=state.step * per_step)

    def evaluate() -> None:
        on_event(_evaluate(objective.model, validate, settings, state, pace))

    def checkpoint() -> None:
        state.seconds = pace.seconds()
        save(state)
        pace.checkpoint_saved()

    with preserve_rng(), ThreadParallel(objective, settings) as workers:
        try:
            if pace.evaluation_is_due() and not stop():  # the last session was stopped before it
                evaluate()
            while not (reason := pace.stop_reason(stop())):
                progress = pace.progress
                state.step += 1
                scheduled, warmup = pace.schedule_step(progress)
                factor = lr_factor(scheduled, progress, warmup, settings.schedule)
                set_learning_rate(optimizer, settings.learning_rate * factor * state.control.factor)
                if settings.switch_to is not None and state.step - 1 == settings.switch_step:
                    rate = optimizer.param_groups[0]["lr"]
                    on_event(SwitchEvent(state.step, settings.switch_to, rate))
                group = list(islice(batches, per_step))
                event = _make_step(objective, optimizer, settings, group, workers, pace)
                _accumulate(state, event)
                if event.ratio is not None:
                    target = settings.target_update_ratio * linear_warmup(scheduled, warmup)
                    state.control = pid_step(state.control, event.ratio, target)
                on_event(event)
                if state.step % settings.report_every == 0:
                    on_event(_report(state, event))
                if pace.timing_is_due() and not stop():
                    on_event(_plan(validate, state, pace))
                if pace.evaluation_is_due() and not stop():
                    evaluate()
                if pace.checkpoint_is_due():
                    checkpoint()
            # before the last evaluation: a longer training would have none here, and the run may
            # be extended from this checkpoint
            checkpoint()
            is_evaluated = state.last_eval_step >= max(1, state.step)  # also without any step
            if reason != "stop" and not is_evaluated:
                evaluate()
        except EvaluationStopped:
            reason = "stop"
            checkpoint()
    return reason


class _GroupLoss(NamedTuple):
    """Loss and gradient norm of the batches of one step, before the update."""

    total: float
    correct: list[int | None]  # of each batch
    norm: float  # of the gradient


def _make_step(
    objective: Objective[BatchT],
    optimizer: torch.optim.Optimizer,
    settings: TrainConfig,
    group: list[BatchT],
    workers: ThreadParallel,
    pace: Pace,
) -> StepEvent:
    """Update the weights once.

    The losses of the group's batches are divided by the number of targets of all of them, so that
    gradient accumulation gives the gradient that one large batch would.
    """
    step, tokens = pace.state.step, sum(batch.tokens for batch in group)
    learning_rate = optimizer.param_groups[0]["lr"]
    if not objective.model.training:  # setting the mode of every module takes a millisecond
        objective.model.train()
    before = [w.detach().clone() for w in workers.weights] if settings.schedule == "pid" else None
    seed_torch(settings.seed, "dropout", step)
    if isinstance(optimizer, Newton | LBFGS):
        found = _closure_step(objective, optimizer, settings, step, group, tokens)
    else:
        losses = [workers.accumulate_gradients(batch, tokens, step) for batch in group]
        norm = float(clip_grad_norm(objective.model, settings.clip_norm))
        found = _GroupLoss(sum(loss for loss, _ in losses), [right for _, right in losses], norm)
    if not math.isfinite(found.total) or not math.isfinite(found.norm):
        raise TrainingError(_divergence(objective, group, step, found, tokens, learning_rate))
    if not isinstance(optimizer, Newton | LBFGS):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    correct = [count for count in found.correct if count is not None]
    return StepEvent(
        step,
        pace.progress,
        pace.seconds(),
        found.total / tokens,
        sum(correct) / tokens if len(correct) == len(group) else None,
        learning_rate,
        found.norm,
        tokens,
        None if before is None else update_ratio(before, workers.weights),
    )


def _closure_step(
    objective: Objective[BatchT],
    optimizer: Newton | LBFGS,
    settings: TrainConfig,
    step: int,
    group: list[BatchT],
    tokens: int,
) -> _GroupLoss:
    """Update the weights by an optimizer that evaluates the loss several times per step.

    Every evaluation sees the same batches, dropout masks and carried state. The line search
    chooses the step length, so the gradient is not clipped.
    """
    first: list[tuple[list[Loss], dict[str, Tensor]]] = []
    carried = objective.state_dict()

    def closure() -> Tensor:
        seed_torch(settings.seed, "dropout", step)
        objective.load_state_dict(carried)
        with autocast(settings.dtype, objective.model):
            losses = [objective.loss(batch) for batch in group]
        if not first:
            detached = [loss._replace(total=loss.total.detach()) for loss in losses]
            first.append((detached, objective.state_dict()))
        return torch.stack([loss.total for loss in losses]).sum() / tokens

    optimizer.step(closure)
    losses, after = first[0]
    objective.load_state_dict(after)
    correct = [None if loss.correct is None else int(loss.correct) for loss in losses]
    return _GroupLoss(sum(float(loss.total) for loss in losses), correct, optimizer.gradient_norm)


def _divergence(
    objective: Objective[BatchT],
    group: list[BatchT],
    step: int,
    found: _GroupLoss,
    tokens: int,
    learning_rate: float,
) -> str:
    batches = "; ".join(objective.describe_batch(b) for b in group[:MAX_BATCHES_IN_MESSAGE])
    if len(group) > MAX_BATCHES_IN_MESSAGE:
        batches += f"; and {len(group) - MAX_BATCHES_IN_MESSAGE:,} more batches"
    return (
        f"got a loss of {found.total / tokens:.4g} and a gradient norm of {found.norm:.4g} at step "
        f"{step}, learning rate {learning_rate:.3g}, on the batch of {batches}; expected finite "
        "numbers; try a smaller train.learning_rate or train.clip_norm, and check those lines."
    )


def _accumulate(state: TrainState, event: StepEvent) -> None:
    state.loss += event.loss * event.tokens
    state.correct += round((event.accuracy or 0.0) * event.tokens)
    state.tokens += event.tokens


def _report(state: TrainState, event: StepEvent) -> ReportEvent:
    tokens = state.tokens
    loss = state.loss / tokens
    accuracy = None if event.accuracy is None else state.correct / tokens
    state.loss, state.correct, state.tokens = 0.0, 0, 0
    return ReportEvent(
        state.step, loss, accuracy, event.learning_rate, event.norm, tokens, event.ratio
    )


def _plan(validate: Callable[[int], Validation], state: TrainState, pace: Pace) -> PlanEvent:
    """Time a small evaluation, and plan the rest of a time budget from it."""
    before = pace.seconds()
    validate(TIMED_EXAMPLES)
    return PlanEvent(state.step, pace.plan(pace.seconds() - before))


def _evaluate(
    model: nn.Module,
    validate: Callable[[int], Validation],
    settings: TrainConfig,
    state: TrainState,
    pace: Pace,
) -> EvalEvent:
    """Evaluate on held-out data; keep a copy of the weights if they are the best so far.

    With `average_checkpoints` above 1, the mean of the weights at that many of the last
    evaluations is evaluated and kept; training continues from the newest weights. The state is
    unchanged if the evaluation is stopped.
    """
    before = pace.seconds()
    weights = copy_state_dict(model)
    recent = [*state.recent_weights, weights][-settings.average_checkpoints :]
    averaging = settings.average_checkpoints > 1
    evaluated = average_state_dicts(recent) if averaging else weights
    try:
        if averaging:
            model.load_state_dict(evaluated)
        metrics, score = validate(pace.eval_examples)
    finally:
        if averaging:
            model.load_state_dict(weights)
    if averaging:
        state.recent_weights = recent
    pace.evaluated(pace.seconds() - before)
    is_best = score > state.best
    state.evals_since_best = 0 if score > state.best + MIN_DELTA else state.evals_since_best + 1
    if is_best:
        state.best, state.best_step = score, state.step
        state.best_weights = evaluated
    return EvalEvent(state.step, metrics, is_best)


def copy_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return a detached copy of the weights."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def average_state_dicts(state_dicts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    r"""Return θ̄ = (1/n) Σ_i θ_i, entry by entry; integer entries are taken from the newest.

    Checkpoint averaging, as in Vaswani et al. 2017, section 6.1.
    """
    newest = state_dicts[-1]
    return {
        name: torch.stack([weights[name] for weights in state_dicts]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in newest.items()
    }
