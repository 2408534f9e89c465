"""The one loop: batches in, better weights out.

It is handed a task and knows nothing of what the task is about. Every random choice in it is a
function of the seed and the step, and all that it remembers between steps is in `Standing`, so
that a run taken up from a checkpoint goes on to the bit.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

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
from saccade.training.thread_parallel import ThreadParallel


class Loss(NamedTuple):
    """The summed loss of a batch, and how many of its tokens were guessed right, if one can say."""

    total: Tensor
    correct: Tensor | None = None


@runtime_checkable
class Objective(Protocol):
    """What the loop asks of a task."""

    model: nn.Module
    carry: dict[str, Tensor]  # what a batch leaves for the next one; for most tasks nothing

    def batches(self, split: str, start: int) -> Iterator[Any]:
        """The batches of a split from the `start`-th on; for "train", without end."""
        ...

    def batches_in_epoch(self) -> int:
        """How many batches have all the training data once."""
        ...

    def loss(self, batch: Any) -> Loss:
        """The summed loss of a batch."""
        ...

    def split_batch(self, batch: Any, limit: int) -> Sequence[Any]:
        """A batch in so many parts at most, whose losses add up to its own."""
        ...

    def evaluate(self, split: str, limit: int | None = None) -> dict[str, float]:
        """Figures by name, on at most so many examples."""
        ...

    def selection_score(self, scores: dict[str, float]) -> float:
        """The one figure that is to grow."""
        ...

    def describe_batch(self, batch: Any) -> str:
        """The file and lines of a batch, for a message."""
        ...


class StepEvent(NamedTuple):
    """One step was made."""

    step: int
    steps: int
    progress: float  # of the training that is done
    loss: float  # per token, of this step
    accuracy: float | None  # None: the task does not say what is right
    learning_rate: float
    norm: float
    tokens: int
    ratio: float | None = None  # of the step to the weights, where it is measured


class ReportEvent(NamedTuple):
    """What the steps since the last report came to."""

    step: int
    loss: float
    accuracy: float | None  # None: the task does not say what is right
    learning_rate: float
    norm: float
    tokens: int
    ratio: float | None = None  # of the last step to the weights, where it is measured


class EvalEvent(NamedTuple):
    """The held-out data was looked at."""

    step: int
    scores: dict[str, float]
    is_best: bool


Event = StepEvent | ReportEvent | EvalEvent
EventCallback = Callable[[Event], None]


@dataclass
class TrainState:
    """All that the loop remembers from one step to the next."""

    step: int = 0
    best: float = -math.inf
    best_step: int = 0
    evals_since_best: int = 0  # evaluations
    last_eval_step: int = 0  # the step of the last evaluation
    loss: float = 0.0  # these three since the last report
    correct: int = 0
    tokens: int = 0
    seconds: float = 0.0  # trained so far, all sittings together
    control: PIDState = PIDState()  # of the learning rate
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    recent_weights: list[dict[str, Tensor]] = field(default_factory=list)  # at the last evaluations
    carry: dict[str, Tensor] = field(default_factory=dict)  # the task's


def train_loop(
    task: Objective,
    optimizer: torch.optim.Optimizer,
    settings: TrainConfig,
    state: TrainState,
    *,
    on_event: EventCallback,
    save: Callable[[TrainState], None],
    stop: Callable[[], bool],
) -> str:
    """Train on from `standing`, and say why it ended: steps, minutes, patience or stop."""
    clock = _Clock(settings, state)
    each = (
        task.batches_in_epoch() if settings.optimizer == FULL_BATCH else settings.accumulate_steps
    )
    batches = task.batches("train", start=state.step * each)
    with preserve_rng(), ThreadParallel(task, settings) as workers:
        while not (reason := clock.over(state, stop())):
            state.step += 1
            progress = clock.progress(state)
            factor = lr_factor(state.step, progress, settings.warmup, settings.schedule)
            set_learning_rate(optimizer, settings.learning_rate * factor * state.control.factor)
            group = list(islice(batches, each))
            stepped = _make_step(task, optimizer, settings, state.step, group, progress, workers)
            _count(state, stepped)
            if stepped.ratio is not None:
                target = settings.target_update_ratio * linear_warmup(state.step, settings.warmup)
                state.control = pid_step(state.control, stepped.ratio, target)
            state.carry = task.carry
            on_event(stepped)
            if state.step % settings.report_every == 0:
                on_event(_report(state, stepped))
            if state.step % settings.evaluate_every == 0:
                on_event(_evaluate(task, state, settings.average_checkpoints))
            if clock.due():
                save(state)
                clock.saved = time.monotonic()
        if reason != "stop" and state.last_eval_step < state.step:
            on_event(_evaluate(task, state, settings.average_checkpoints))
    return reason


MAX_BATCHES_IN_MESSAGE = 8  # batches of a step, in a message


class _Found(NamedTuple):
    """Of a group of batches, before the weights were moved."""

    total: float  # loss
    right: list[int | None]  # of each batch
    norm: float  # of the gradient


def _make_step(
    task: Objective,
    optimizer: torch.optim.Optimizer,
    settings: TrainConfig,
    step: int,
    group: list[Any],
    progress: float,
    workers: ThreadParallel,
) -> StepEvent:
    """Move the weights once.

    The losses of the group's batches are divided by the tokens of all of them, so that
    accumulating gives the gradient that one large batch would.
    """
    tokens = sum(batch.tokens for batch in group)
    learning_rate = optimizer.param_groups[0]["lr"]
    if not task.model.training:  # telling every module again takes a millisecond
        task.model.train()
    before = [w.detach().clone() for w in workers.weights] if settings.schedule == "pid" else None
    seed_torch(settings.seed, "dropout", step)
    if isinstance(optimizer, Newton | LBFGS):
        found = _search(task, optimizer, settings, step, group, tokens)
    else:
        learned = [workers.accumulate_gradients(batch, tokens, step) for batch in group]
        norm = float(clip_grad_norm(task.model, settings.clip_norm))
        found = _Found(sum(loss for loss, _ in learned), [right for _, right in learned], norm)
    if not math.isfinite(found.total) or not math.isfinite(found.norm):
        raise TrainingError(_why_not(task, group, step, found, tokens, learning_rate))
    if not isinstance(optimizer, Newton | LBFGS):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    right = [count for count in found.right if count is not None]
    return StepEvent(
        step,
        settings.steps,
        progress,
        found.total / tokens,
        sum(right) / tokens if len(right) == len(group) else None,
        learning_rate,
        found.norm,
        tokens,
        None if before is None else update_ratio(before, workers.weights),
    )


def _search(
    task: Objective,
    optimizer: Newton | LBFGS,
    settings: TrainConfig,
    step: int,
    group: list[Any],
    tokens: int,
) -> _Found:
    """Move the weights by an optimiser that asks for the loss several times.

    Each time the batches, their dropout and what they go on from are the same. The step is as long
    as the search says, so no gradient is clipped.
    """
    first: list[tuple[list[Loss], dict[str, Tensor]]] = []
    carry = task.carry

    def ask() -> Tensor:
        seed_torch(settings.seed, "dropout", step)
        task.carry = dict(carry)
        with autocast(settings.dtype, task.model):
            losses = [task.loss(batch) for batch in group]
        if not first:
            first.append(([_plain(loss) for loss in losses], task.carry))
        return torch.stack([loss.total for loss in losses]).sum() / tokens

    optimizer.step(ask)
    losses, task.carry = first[0]
    right = [None if loss.correct is None else int(loss.correct) for loss in losses]
    return _Found(sum(float(loss.total) for loss in losses), right, optimizer.gradient_norm)


def _plain(loss: Loss) -> Loss:
    return loss._replace(total=loss.total.detach())


def _why_not(
    task: Objective, group: list[Any], step: int, found: _Found, tokens: int, learning_rate: float
) -> str:
    places = "; ".join(task.describe_batch(batch) for batch in group[:MAX_BATCHES_IN_MESSAGE])
    if len(group) > MAX_BATCHES_IN_MESSAGE:
        places += f"; and of {len(group) - MAX_BATCHES_IN_MESSAGE:,} batches more"
    return (
        f"at step {step} the loss is {found.total / tokens:.4g} and the gradient's norm "
        f"{found.norm:.4g}, with learning rate {learning_rate:.3g}, on the batch of {places}. The last "
        "checkpoint is kept. Try a smaller train.learning_rate or train.clip_norm, and look at those "
        "lines."
    )


def _count(state: TrainState, stepped: StepEvent) -> None:
    state.loss += stepped.loss * stepped.tokens
    state.correct += round((stepped.accuracy or 0.0) * stepped.tokens)
    state.tokens += stepped.tokens


def _report(state: TrainState, stepped: StepEvent) -> ReportEvent:
    tokens = state.tokens
    loss = state.loss / tokens
    accuracy = None if stepped.accuracy is None else state.correct / tokens
    state.loss, state.correct, state.tokens = 0.0, 0, 0
    learning_rate, norm = stepped.learning_rate, stepped.norm
    return ReportEvent(state.step, loss, accuracy, learning_rate, norm, tokens, stepped.ratio)


DEV_SAMPLE = 500  # examples that are answered at each evaluation
MIN_DELTA = 1e-3  # what a new best must bring for patience to begin anew


def _evaluate(task: Objective, state: TrainState, average_checkpoints: int) -> EvalEvent:
    """Look at the held-out data; keep the weights if they are the best so far.

    With an `average` of more than 1, what is looked at and kept is the mean of the weights at so
    many of the last evaluations; training goes on from the newest.
    """
    weights = copy_state_dict(task.model)
    if average_checkpoints == 1:
        scores = task.evaluate("dev", DEV_SAMPLE)
        judged = weights
    else:
        state.recent_weights = [*state.recent_weights, weights][-average_checkpoints:]
        judged = average_state_dicts(state.recent_weights)
        task.model.load_state_dict(judged)
        scores = task.evaluate("dev", DEV_SAMPLE)
        task.model.load_state_dict(weights)
    selection_score = task.selection_score(scores)
    state.last_eval_step = state.step
    is_best = selection_score > state.best
    state.evals_since_best = (
        0 if selection_score > state.best + MIN_DELTA else state.evals_since_best + 1
    )
    if is_best:
        state.best, state.best_step = selection_score, state.step
        state.best_weights = judged
    return EvalEvent(state.step, scores, is_best)


def copy_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now, apart from the model."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def average_state_dicts(several: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    r"""θ̄ = (1/n) Σ_i θ_i, entry by entry; what is no fraction (a count, say) is the newest's.

    Averaging the last checkpoints of one training, as Vaswani et al. 2017, section 6.1.
    """
    newest = several[-1]
    return {
        name: torch.stack([weights[name] for weights in several]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in newest.items()
    }


class _Clock:
    """What depends on time: how much is done, whether it is over, whether to save."""

    def __init__(self, settings: TrainConfig, state: TrainState):
        self.settings = settings
        self.began = time.monotonic() - state.seconds
        self.saved = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def progress(self, state: TrainState) -> float:
        done = (state.step - 1) / self.settings.steps
        if self.settings.minutes is None:
            return done
        return max(done, self.seconds() / (60 * self.settings.minutes))

    def over(self, state: TrainState, stop: bool) -> str:
        state.seconds = self.seconds()
        if stop:
            return "stop"
        if state.step >= self.settings.steps:
            return "steps"
        if state.evals_since_best >= self.settings.patience:
            return "patience"
        minutes = self.settings.minutes
        return "minutes" if minutes is not None and self.seconds() >= 60 * minutes else ""

    def due(self) -> bool:
        return time.monotonic() - self.saved >= self.settings.checkpoint_seconds
