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
    LBFGS,
    WHOLE,
    Control,
    Newton,
    clip_by_norm,
    pid,
    scale,
    set_rate,
    update_ratio,
    warm_up,
)
from saccade.seeding import borrowed, reseed
from saccade.training.precision import autocast
from saccade.training.settings import TrainConfig
from saccade.training.workers import Workers


class Loss(NamedTuple):
    """The summed loss of a batch, and how many of its tokens were guessed right, if one can say."""

    total: Tensor
    correct: Tensor | None = None


@runtime_checkable
class Task(Protocol):
    """What the loop asks of a task."""

    model: nn.Module
    carried: dict[str, Tensor]  # what a batch leaves for the next one; for most tasks nothing

    def batches(self, split: str, start: int) -> Iterator[Any]:
        """The batches of a split from the `start`-th on; for "train", without end."""
        ...

    def batches_in_epoch(self) -> int:
        """How many batches have all the training data once."""
        ...

    def loss(self, batch: Any) -> Loss:
        """The summed loss of a batch."""
        ...

    def parts(self, batch: Any, most: int) -> Sequence[Any]:
        """A batch in so many parts at most, whose losses add up to its own."""
        ...

    def evaluate(self, split: str, most: int | None = None) -> dict[str, float]:
        """Figures by name, on at most so many examples."""
        ...

    def goodness(self, scores: dict[str, float]) -> float:
        """The one figure that is to grow."""
        ...

    def where(self, batch: Any) -> str:
        """The file and lines of a batch, for a message."""
        ...


class Stepped(NamedTuple):
    """One step was made."""

    step: int
    steps: int
    share: float  # of the training that is done
    loss: float  # per token, of this step
    accuracy: float | None  # None: the task does not say what is right
    rate: float
    norm: float
    tokens: int
    ratio: float | None = None  # of the step to the weights, where it is measured


class Reported(NamedTuple):
    """What the steps since the last report came to."""

    step: int
    loss: float
    accuracy: float | None  # None: the task does not say what is right
    rate: float
    norm: float
    tokens: int
    ratio: float | None = None  # of the last step to the weights, where it is measured


class Evaluated(NamedTuple):
    """The held-out data was looked at."""

    step: int
    scores: dict[str, float]
    is_best: bool


Event = Stepped | Reported | Evaluated
Tell = Callable[[Event], None]


@dataclass
class Standing:
    """All that the loop remembers from one step to the next."""

    step: int = 0
    best: float = -math.inf
    best_step: int = 0
    since_best: int = 0  # evaluations
    evaluated: int = 0  # the step of the last evaluation
    loss: float = 0.0  # these three since the last report
    correct: int = 0
    tokens: int = 0
    seconds: float = 0.0  # trained so far, all sittings together
    control: Control = Control()  # of the learning rate
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    recent: list[dict[str, Tensor]] = field(default_factory=list)  # at the last evaluations
    carried: dict[str, Tensor] = field(default_factory=dict)  # the task's


def train(
    task: Task,
    optimizer: torch.optim.Optimizer,
    settings: TrainConfig,
    standing: Standing,
    *,
    tell: Tell,
    save: Callable[[Standing], None],
    stop: Callable[[], bool],
) -> str:
    """Train on from `standing`, and say why it ended: steps, minutes, patience or stop."""
    clock = _Clock(settings, standing)
    each = task.batches_in_epoch() if settings.optimizer == WHOLE else settings.accumulate
    batches = task.batches("train", start=standing.step * each)
    with borrowed(), Workers(task, settings) as workers:
        while not (reason := clock.over(standing, stop())):
            standing.step += 1
            share = clock.share(standing)
            factor = scale(standing.step, share, settings.warmup, settings.decay)
            set_rate(optimizer, settings.learning_rate * factor * standing.control.factor)
            group = list(islice(batches, each))
            stepped = _make_step(task, optimizer, settings, standing.step, group, share, workers)
            _count(standing, stepped)
            if stepped.ratio is not None:
                target = settings.ratio * warm_up(standing.step, settings.warmup)
                standing.control = pid(standing.control, stepped.ratio, target)
            standing.carried = task.carried
            tell(stepped)
            if standing.step % settings.report_every == 0:
                tell(_report(standing, stepped))
            if standing.step % settings.evaluate_every == 0:
                tell(_evaluate(task, standing, settings.average))
            if clock.due():
                save(standing)
                clock.saved = time.monotonic()
        if reason != "stop" and standing.evaluated < standing.step:
            tell(_evaluate(task, standing, settings.average))
    return reason


NAMED = 8  # batches of a step, in a message


class _Found(NamedTuple):
    """Of a group of batches, before the weights were moved."""

    total: float  # loss
    right: list[int | None]  # of each batch
    norm: float  # of the gradient


def _make_step(
    task: Task,
    optimizer: torch.optim.Optimizer,
    settings: TrainConfig,
    step: int,
    group: list[Any],
    share: float,
    workers: Workers,
) -> Stepped:
    """Move the weights once.

    The losses of the group's batches are divided by the tokens of all of them, so that
    accumulating gives the gradient that one large batch would.
    """
    tokens = sum(batch.tokens for batch in group)
    rate = optimizer.param_groups[0]["lr"]
    if not task.model.training:  # telling every module again takes a millisecond
        task.model.train()
    before = [w.detach().clone() for w in workers.weights] if settings.decay == "pid" else None
    reseed(settings.seed, "dropout", step)
    if isinstance(optimizer, Newton | LBFGS):
        found = _search(task, optimizer, settings, step, group, tokens)
    else:
        learned = [workers.learn(batch, tokens, step) for batch in group]
        norm = float(clip_by_norm(task.model, settings.clip))
        found = _Found(sum(loss for loss, _ in learned), [right for _, right in learned], norm)
    if not math.isfinite(found.total) or not math.isfinite(found.norm):
        raise TrainingError(_why_not(task, group, step, found, tokens, rate))
    if not isinstance(optimizer, Newton | LBFGS):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    right = [count for count in found.right if count is not None]
    return Stepped(
        step,
        settings.steps,
        share,
        found.total / tokens,
        sum(right) / tokens if len(right) == len(group) else None,
        rate,
        found.norm,
        tokens,
        None if before is None else update_ratio(before, workers.weights),
    )


def _search(
    task: Task,
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
    carried = task.carried

    def ask() -> Tensor:
        reseed(settings.seed, "dropout", step)
        task.carried = dict(carried)
        with autocast(settings.precision, task.model):
            losses = [task.loss(batch) for batch in group]
        if not first:
            first.append(([_plain(loss) for loss in losses], task.carried))
        return torch.stack([loss.total for loss in losses]).sum() / tokens

    optimizer.step(ask)
    losses, task.carried = first[0]
    right = [None if loss.correct is None else int(loss.correct) for loss in losses]
    return _Found(sum(float(loss.total) for loss in losses), right, optimizer.slope)


def _plain(loss: Loss) -> Loss:
    return loss._replace(total=loss.total.detach())


def _why_not(
    task: Task, group: list[Any], step: int, found: _Found, tokens: int, rate: float
) -> str:
    places = "; ".join(task.where(batch) for batch in group[:NAMED])
    if len(group) > NAMED:
        places += f"; and of {len(group) - NAMED:,} batches more"
    return (
        f"at step {step} the loss is {found.total / tokens:.4g} and the gradient's norm "
        f"{found.norm:.4g}, with learning rate {rate:.3g}, on the batch of {places}. The last "
        "checkpoint is kept. Try a smaller train.learning_rate or train.clip, and look at those "
        "lines."
    )


def _count(standing: Standing, stepped: Stepped) -> None:
    standing.loss += stepped.loss * stepped.tokens
    standing.correct += round((stepped.accuracy or 0.0) * stepped.tokens)
    standing.tokens += stepped.tokens


def _report(standing: Standing, stepped: Stepped) -> Reported:
    tokens = standing.tokens
    loss = standing.loss / tokens
    accuracy = None if stepped.accuracy is None else standing.correct / tokens
    standing.loss, standing.correct, standing.tokens = 0.0, 0, 0
    rate, norm = stepped.rate, stepped.norm
    return Reported(standing.step, loss, accuracy, rate, norm, tokens, stepped.ratio)


DEV_SAMPLE = 500  # examples that are answered at each evaluation
GAIN = 1e-3  # what a new best must bring for patience to begin anew


def _evaluate(task: Task, standing: Standing, average: int) -> Evaluated:
    """Look at the held-out data; keep the weights if they are the best so far.

    With an `average` of more than 1, what is looked at and kept is the mean of the weights at so
    many of the last evaluations; training goes on from the newest.
    """
    weights = copy_of(task.model)
    if average == 1:
        scores = task.evaluate("dev", DEV_SAMPLE)
        judged = weights
    else:
        standing.recent = [*standing.recent, weights][-average:]
        judged = mean_of(standing.recent)
        task.model.load_state_dict(judged)
        scores = task.evaluate("dev", DEV_SAMPLE)
        task.model.load_state_dict(weights)
    goodness = task.goodness(scores)
    standing.evaluated = standing.step
    is_best = goodness > standing.best
    standing.since_best = 0 if goodness > standing.best + GAIN else standing.since_best + 1
    if is_best:
        standing.best, standing.best_step = goodness, standing.step
        standing.best_weights = judged
    return Evaluated(standing.step, scores, is_best)


def copy_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now, apart from the model."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def mean_of(several: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
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

    def __init__(self, settings: TrainConfig, standing: Standing):
        self.settings = settings
        self.began = time.monotonic() - standing.seconds
        self.saved = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def share(self, standing: Standing) -> float:
        done = (standing.step - 1) / self.settings.steps
        if self.settings.minutes is None:
            return done
        return max(done, self.seconds() / (60 * self.settings.minutes))

    def over(self, standing: Standing, stop: bool) -> str:
        standing.seconds = self.seconds()
        if stop:
            return "stop"
        if standing.step >= self.settings.steps:
            return "steps"
        if standing.since_best >= self.settings.patience:
            return "patience"
        minutes = self.settings.minutes
        return "minutes" if minutes is not None and self.seconds() >= 60 * minutes else ""

    def due(self) -> bool:
        return time.monotonic() - self.saved >= self.settings.checkpoint_seconds
