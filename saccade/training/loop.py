"""The training loop: batches in, better weights out.

The loop receives an `Objective` and knows nothing else of the task. Every random choice is a
function of the seed and the step, and all that is carried from step to step is in `TrainState`
and the objective's `state_dict`, so that a run resumed from a checkpoint has identical bits.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn

from saccade.errors import TrainingError
from saccade.optim import (
    FULL_BATCH,
    LBFGS,
    Newton,
    PIDState,
    clip_grad_norm,
    linear_warmup,
    lr_factor,
    pid_step,
    set_learning_rate,
    update_ratio,
)
from saccade.seeding import preserve_rng, seed_torch
from saccade.training.config import TrainConfig
from saccade.training.device import autocast
from saccade.training.objective import BatchT, Loss, Objective, Validation
from saccade.training.thread_parallel import ThreadParallel

MIN_DELTA = 1e-3  # improvement of the selection score that resets the patience
MAX_BATCHES_IN_MESSAGE = 8


class StepEvent(NamedTuple):
    """One optimizer step was made."""

    step: int
    steps: int
    progress: float  # share of the training that is done
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


Event = StepEvent | ReportEvent | EvalEvent
EventCallback = Callable[[Event], None]


@dataclass
class TrainState:
    """All that the loop carries from one step to the next."""

    step: int = 0
    best: float = -math.inf  # selection score
    best_step: int = 0
    evals_since_best: int = 0
    last_eval_step: int = 0
    loss: float = 0.0  # this and the next two: sums since the last report
    correct: int = 0
    tokens: int = 0
    seconds: float = 0.0  # training time over all sessions
    control: PIDState = PIDState()  # learning-rate controller
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    recent_weights: list[dict[str, Tensor]] = field(default_factory=list)  # for averaging
    carry: dict[str, Tensor] = field(default_factory=dict)  # the objective's state, when saved


def train_loop(
    objective: Objective[BatchT],
    validate: Callable[[], Validation],
    optimizer: torch.optim.Optimizer,
    settings: TrainConfig,
    state: TrainState,
    *,
    on_event: EventCallback,
    save: Callable[[TrainState], None],
    stop: Callable[[], bool],
) -> str:
    """Train from `state` on; return the stop reason: steps, minutes, patience or stop."""
    clock = _Clock(settings, state)
    per_step = settings.accumulate_steps
    if settings.optimizer == FULL_BATCH:
        per_step = objective.batches_in_epoch()
    batches = objective.batches("train", start=state.step * per_step)
    with preserve_rng(), ThreadParallel(objective, settings) as workers:
        while not (reason := clock.stop_reason(state, stop())):
            state.step += 1
            progress = clock.progress(state)
            factor = lr_factor(state.step, progress, settings.warmup, settings.schedule)
            set_learning_rate(optimizer, settings.learning_rate * factor * state.control.factor)
            group = list(islice(batches, per_step))
            event = _make_step(objective, optimizer, settings, state.step, group, progress, workers)
            _accumulate(state, event)
            if event.ratio is not None:
                target = settings.target_update_ratio * linear_warmup(state.step, settings.warmup)
                state.control = pid_step(state.control, event.ratio, target)
            on_event(event)
            if state.step % settings.report_every == 0:
                on_event(_report(state, event))
            if state.step % settings.evaluate_every == 0:
                on_event(_evaluate(objective.model, validate, state, settings))
            if clock.checkpoint_is_due():
                save(state)
                clock.last_save = time.monotonic()
        if reason != "stop" and state.last_eval_step < state.step:
            on_event(_evaluate(objective.model, validate, state, settings))
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
    step: int,
    group: list[BatchT],
    progress: float,
    workers: ThreadParallel,
) -> StepEvent:
    """Update the weights once.

    The losses of the group's batches are divided by the number of targets of all of them, so that
    gradient accumulation gives the gradient that one large batch would.
    """
    tokens = sum(batch.tokens for batch in group)
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
        settings.steps,
        progress,
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
        "numbers. The last checkpoint is kept; try a smaller train.learning_rate or "
        "train.clip_norm, and check those lines."
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


def _evaluate(
    model: nn.Module,
    validate: Callable[[], Validation],
    state: TrainState,
    settings: TrainConfig,
) -> EvalEvent:
    """Evaluate on held-out data; keep a copy of the weights if they are the best so far.

    With `average_checkpoints` above 1, the mean of the weights at that many of the last
    evaluations is evaluated and kept; training continues from the newest weights.
    """
    weights = copy_state_dict(model)
    evaluated = weights
    if settings.average_checkpoints > 1:
        kept = [*state.recent_weights, weights][-settings.average_checkpoints :]
        state.recent_weights = kept
        evaluated = average_state_dicts(kept)
        model.load_state_dict(evaluated)
    metrics, score = validate()
    if settings.average_checkpoints > 1:
        model.load_state_dict(weights)
    state.last_eval_step = state.step
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


class _Clock:
    """Everything that depends on time: progress, stop reason, checkpoint interval."""

    def __init__(self, settings: TrainConfig, state: TrainState):
        self.settings = settings
        self.started = time.monotonic() - state.seconds
        self.last_save = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def progress(self, state: TrainState) -> float:
        done = (state.step - 1) / self.settings.steps
        if self.settings.minutes is None:
            return done
        return max(done, self.seconds() / (60 * self.settings.minutes))

    def stop_reason(self, state: TrainState, stop: bool) -> str:
        state.seconds = self.seconds()
        if stop:
            return "stop"
        if state.step >= self.settings.steps:
            return "steps"
        if state.evals_since_best >= self.settings.patience:
            return "patience"
        minutes = self.settings.minutes
        return "minutes" if minutes is not None and self.seconds() >= 60 * minutes else ""

    def checkpoint_is_due(self) -> bool:
        return time.monotonic() - self.last_save >= self.settings.checkpoint_seconds
