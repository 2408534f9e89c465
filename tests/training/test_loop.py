import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.errors import TrainingError
from saccade.training.config import TrainConfig
from saccade.training.loop import (
    EvalEvent,
    Event,
    Loss,
    ReportEvent,
    StepEvent,
    TrainState,
    average_state_dicts,
    train_loop,
)


class Rows(NamedTuple):
    """A batch of a regression: every row is a token."""

    x: Tensor
    y: Tensor
    lines: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return len(self.y)


class Regression:
    """A task whose batches and scores are written down beforehand."""

    def __init__(self, batches: list[Rows], scores: list[float] | None = None):
        self.given, self.scores = batches, list(scores or [])
        self.model = nn.Linear(3, 1).double()
        self.carry: dict[str, Tensor] = {}
        self.started_at: int | None = None
        self.evaluations = 0

    def batches(self, split: str, start: int) -> Iterator[Rows]:
        assert split == "train"
        self.started_at = start
        place = start
        while True:
            yield self.given[place % len(self.given)]
            place += 1

    def batches_in_epoch(self) -> int:
        return len(self.given)

    def loss(self, batch: Rows) -> Loss:
        error = self.model(batch.x).squeeze(-1) - batch.y
        return Loss(error.square().sum(), (error.abs() < 1).sum())

    def split_batch(self, batch: Rows, limit: int) -> list[Rows]:
        return [batch]

    def evaluate(self, split: str, limit: int | None = None) -> dict[str, float]:
        assert split == "dev"
        self.evaluations += 1
        return {"good": self.scores.pop(0) if self.scores else 0.0}

    def selection_score(self, scores: dict[str, float]) -> float:
        return scores["good"]

    def describe_batch(self, batch: Rows) -> str:
        return f"pairs.tsv, lines {', '.join(map(str, batch.lines))}"


def rows(sizes: list[int], scale: float = 1.0) -> list[Rows]:
    made, line = [], 1
    for size in sizes:
        x = torch.randn(size, 3, dtype=torch.float64)
        y = scale * torch.randn(size, dtype=torch.float64)
        made.append(Rows(x, y, tuple(range(line, line + size))))
        line += size
    return made


def joined(batches: list[Rows]) -> Rows:
    x, y = (torch.cat([getattr(batch, side) for batch in batches]) for side in "xy")
    return Rows(x, y, sum((batch.lines for batch in batches), ()))


def run(task: Regression, state: TrainState | None = None, **given: Any) -> SimpleNamespace:
    """Train with plain gradient descent, and hear all of it."""
    plain = {"steps": 1, "learning_rate": 0.1, "warmup": 0, "schedule": "none", "clip_norm": 1e9}
    settings = TrainConfig(**{**plain, "evaluate_every": 10**6, **given})
    state = state or TrainState()
    events: list[Event] = []
    saved: list[int] = []
    heard = SimpleNamespace(events=events, saved=saved, state=state, stop_reason=None)
    optimizer = torch.optim.SGD(task.model.parameters(), lr=math.nan)
    heard.stop_reason = train_loop(
        task,
        optimizer,
        settings,
        state,
        on_event=events.append,
        save=lambda state: saved.append(state.step),
        stop=lambda: False,
    )
    return heard


def of(kind: type[Any], heard: SimpleNamespace) -> list[Any]:
    return [event for event in heard.events if isinstance(event, kind)]


def twins(first: list[Rows], second: list[Rows]) -> tuple[Regression, Regression]:
    one, other = Regression(first), Regression(second)
    other.model.load_state_dict(one.model.state_dict())
    return one, other


# --- one step -------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_accumulating_gives_the_step_of_one_large_batch(sizes: list[int]) -> None:
    batches = rows(sizes)
    small, large = twins(batches, [joined(batches)])
    a = run(small, accumulate_steps=len(sizes))
    b = run(large)
    torch.testing.assert_close(small.model.weight, large.model.weight, rtol=1e-12, atol=1e-12)
    assert of(StepEvent, a)[0].loss == pytest.approx(of(StepEvent, b)[0].loss, rel=1e-12)
    assert of(StepEvent, a)[0].tokens == sum(sizes)


def test_a_step_goes_against_the_gradient_of_the_mean_loss() -> None:
    task = Regression(rows([4]))
    batch, before = task.given[0], task.model.weight.detach().clone()
    error = (batch.x @ before.T).squeeze(-1) + task.model.bias.detach() - batch.y
    by_hand = before - 0.1 * 2 * (error[:, None] * batch.x).mean(dim=0)
    run(task)
    torch.testing.assert_close(task.model.weight.detach(), by_hand)


def test_a_long_gradient_is_cut_to_the_clip_and_reported_as_it_was() -> None:
    task = Regression(rows([4], scale=100.0))
    before = {name: p.detach().clone() for name, p in task.model.named_parameters()}
    heard = run(task, learning_rate=1.0, clip_norm=0.5)
    moved = [p.detach() - before[name] for name, p in task.model.named_parameters()]
    assert math.sqrt(sum(float(m.square().sum()) for m in moved)) == pytest.approx(0.5, rel=1e-4)
    assert of(StepEvent, heard)[0].norm > 5


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear", "none"])
def test_the_learning_rate_rises_and_falls_as_the_schedule_says(schedule: str) -> None:
    heard = run(Regression(rows([2])), steps=8, warmup=4, schedule=schedule, learning_rate=0.01)
    wanted = []
    for step in range(1, 9):
        done = (step - 1) / 8
        fall = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done}
        wanted.append(0.01 * min(1, step / 4) * fall.get(schedule, 1.0))
    assert [event.learning_rate for event in of(StepEvent, heard)] == pytest.approx(wanted)


def test_a_report_is_the_mean_over_the_tokens_since_the_last_one() -> None:
    heard = run(Regression(rows([1, 4, 2, 3, 5])), steps=7, report_every=3)
    steps, reports = of(StepEvent, heard), of(ReportEvent, heard)
    assert [report.step for report in reports] == [3, 6]
    for report, window in zip(reports, (steps[:3], steps[3:6]), strict=True):
        tokens = sum(step.tokens for step in window)
        assert report.tokens == tokens
        loss = sum(step.loss * step.tokens for step in window) / tokens
        right = sum(step.accuracy * step.tokens for step in window) / tokens
        assert (report.loss, report.accuracy) == pytest.approx((loss, right))
    # the seventh step waits for the next report
    assert heard.state.tokens == steps[6].tokens


# --- why it ends ----------------------------------------------------------------------------------


def test_all_steps_are_made_and_the_end_is_evaluated_once() -> None:
    task = Regression(rows([2]))
    heard = run(task, steps=5, evaluate_every=2)
    assert heard.stop_reason == "steps"
    assert [event.step for event in of(StepEvent, heard)] == [1, 2, 3, 4, 5]
    assert [event.step for event in of(EvalEvent, heard)] == [2, 4, 5]
    assert [event.step for event in of(EvalEvent, run(task, steps=4, evaluate_every=2))] == [2, 4]


def test_patience_ends_it_and_the_best_weights_are_kept() -> None:
    task = Regression(rows([2, 3]), scores=[1.0, 3.0, 2.0, 2.5, 2.9])
    weights: dict[int, Tensor] = {}
    original = task.evaluate

    def evaluate(split: str, limit: int | None = None) -> dict[str, float]:
        weights[len(weights) + 1] = task.model.weight.detach().clone()
        return original(split, limit)

    task.evaluate = evaluate  # type: ignore[method-assign]
    heard = run(task, steps=100, evaluate_every=10, patience=3)
    assert heard.stop_reason == "patience"
    assert heard.state.step == 50
    assert [event.is_best for event in of(EvalEvent, heard)] == [True, True, False, False, False]
    assert (heard.state.best, heard.state.best_step) == (3.0, 20)
    assert torch.equal(heard.state.best_weights["weight"], weights[2])
    assert not torch.equal(heard.state.best_weights["weight"], task.model.weight)


def test_what_is_judged_and_kept_is_the_mean_of_the_last_weights() -> None:
    def trained(average_checkpoints: int) -> tuple[list[Tensor], Any, Tensor]:
        torch.manual_seed(0)
        task = Regression(rows([2, 3]), scores=[1.0, 2.0, 3.0, 2.0])
        judged: list[Tensor] = []
        original = task.evaluate

        def evaluate(split: str, limit: int | None = None) -> dict[str, float]:
            judged.append(task.model.weight.detach().clone())
            return original(split, limit)

        task.evaluate = evaluate  # type: ignore[method-assign]
        heard = run(task, steps=40, evaluate_every=10, average_checkpoints=average_checkpoints)
        return judged, heard.state, task.model.weight.detach()

    newest, _, last = trained(1)
    judged, state, last_of_two = trained(2)
    assert torch.equal(last, last_of_two)  # training itself goes on from the newest
    assert torch.equal(judged[0], newest[0])  # there is one so far
    for before, now, mean in zip(newest, newest[1:], judged[1:], strict=False):
        torch.testing.assert_close(mean, (before + now) / 2)
        assert not torch.equal(mean, now)
    assert torch.equal(state.best_weights["weight"], judged[2])
    assert len(state.recent_weights) == 2


def test_a_mean_takes_what_is_no_fraction_from_the_newest() -> None:
    several = [
        {"weight": torch.tensor([1.0, 5.0]), "count": torch.tensor(3)},
        {"weight": torch.tensor([3.0, 6.0]), "count": torch.tensor(4)},
    ]
    mean = average_state_dicts(several)
    assert mean["weight"].tolist() == [2.0, 5.5]
    assert mean["count"].item() == 4


def test_a_gain_too_small_to_see_is_kept_but_does_not_prolong() -> None:
    task = Regression(rows([2]), scores=[1.0, 1.0 + 1e-5, 1.0 + 2e-5])
    heard = run(task, steps=100, evaluate_every=1, patience=2)
    assert (heard.stop_reason, heard.state.step) == ("patience", 3)
    assert heard.state.best_step == 3


def test_a_score_that_is_not_a_number_is_never_best() -> None:
    heard = run(Regression(rows([2]), scores=[math.nan, 1.0]), steps=2, evaluate_every=1)
    assert [event.is_best for event in of(EvalEvent, heard)] == [False, True]


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("saccade.training.loop.time", made)
    return made


class Slow(Regression):
    """Every batch takes ten seconds."""

    clock: Clock

    def loss(self, batch: Rows) -> Loss:
        self.clock.now += 10
        return super().loss(batch)


def slow(clock: Clock) -> Slow:
    task = Slow(rows([2]))
    task.clock = clock
    return task


def test_the_minutes_end_it_and_the_decay_follows_the_clock(clock: Clock) -> None:
    heard = run(slow(clock), steps=1000, minutes=1, schedule="linear", learning_rate=1e-3)
    assert (heard.stop_reason, heard.state.step) == ("minutes", 6)
    rates = [event.learning_rate for event in of(StepEvent, heard)]
    assert rates == pytest.approx([1e-3 * (1 - done / 6) for done in range(6)])
    assert of(EvalEvent, heard)[-1].step == 6


def test_the_minutes_of_an_earlier_sitting_count(clock: Clock) -> None:
    heard = run(slow(clock), TrainState(seconds=35.0), steps=1000, minutes=1)
    assert (heard.stop_reason, heard.state.step) == ("minutes", 3)
    assert heard.state.seconds == pytest.approx(65.0)


def test_it_is_saved_when_so_many_seconds_have_passed(clock: Clock) -> None:
    heard = run(slow(clock), steps=8, checkpoint_seconds=25)
    assert heard.saved == [3, 6]


def test_a_stop_is_heeded_at_the_end_of_the_step_and_evaluates_nothing() -> None:
    task, events = Regression(rows([2])), []
    state = TrainState()
    stop_reason = train_loop(
        task,
        torch.optim.SGD(task.model.parameters(), lr=0.1),
        TrainConfig(steps=100),
        state,
        on_event=events.append,
        save=lambda state: None,
        stop=lambda: state.step == 4,
    )
    assert (stop_reason, state.step, task.evaluations) == ("stop", 4, 0)


# --- what it leaves alone -------------------------------------------------------------------------


class Noisy(Regression):
    """Uses torch's global generator, as dropout does."""

    def loss(self, batch: Rows) -> Loss:
        return super().loss(batch._replace(x=batch.x + 0.1 * torch.randn_like(batch.x)))


def test_the_callers_random_numbers_are_left_alone_and_have_no_say() -> None:
    weights = []
    start = Noisy(rows([3]))
    for seed in (3, 4):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        task = Noisy(start.given)
        task.model.load_state_dict(start.model.state_dict())
        torch.set_rng_state(before)
        run(task, steps=3)
        assert torch.equal(torch.get_rng_state(), before)
        weights.append(task.model.weight.detach())
    assert torch.equal(*weights)


def test_every_step_has_noise_of_its_own() -> None:
    batch = rows([3])
    one, other = Noisy(batch), Noisy(batch)
    other.model.load_state_dict(one.model.state_dict())
    run(one, TrainState(step=0), steps=1)
    run(other, TrainState(step=1), steps=2)
    assert not torch.equal(one.model.weight, other.model.weight)


def test_it_takes_up_the_batches_where_they_were_left() -> None:
    task = Regression(rows([2]))
    run(task, TrainState(step=5), steps=6, accumulate_steps=3)
    assert task.started_at == 15


# --- what cannot go on ----------------------------------------------------------------------------


class Poisoned(Regression):
    """The third batch gives what cannot be learned from."""

    def __init__(self, poison: float):
        super().__init__(rows([2, 2, 2, 2]))
        self.poison = poison

    def loss(self, batch: Rows) -> Loss:
        loss = super().loss(batch)
        return loss._replace(total=loss.total * self.poison) if 5 in batch.lines else loss


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_stops_with_step_rate_and_lines(poison: float) -> None:
    task, saved = Poisoned(poison), []
    with pytest.raises(TrainingError) as caught:
        train_loop(
            task,
            torch.optim.SGD(task.model.parameters(), lr=0.1),
            TrainConfig(
                steps=9, learning_rate=0.0125, warmup=0, schedule="none", checkpoint_seconds=0
            ),
            TrainState(),
            on_event=lambda event: None,
            save=lambda state: saved.append((state.step, task.model.weight.clone())),
            stop=lambda: False,
        )
    message = str(caught.value)
    assert "at step 3 the loss is" in message
    assert "learning rate 0.0125" in message
    assert "pairs.tsv, lines 5, 6" in message
    assert "smaller train.learning_rate" in message
    # nothing of the bad step is in the weights, and the save of the good one is the last
    assert [step for step, _ in saved] == [1, 2]
    assert torch.equal(saved[-1][1], task.model.weight)


class Steep(Regression):
    """A finite loss whose gradient is not."""

    def loss(self, batch: Rows) -> Loss:
        total = super().loss(batch).total
        return Loss((total * 0).sqrt(), torch.tensor(0))


def test_a_gradient_that_is_no_number_stops_it_too() -> None:
    task = Steep(rows([2]))
    before = task.model.weight.detach().clone()
    with pytest.raises(TrainingError, match="loss is 0 and the gradient's norm (nan|inf)"):
        run(task)
    assert torch.equal(task.model.weight, before)


def test_accumulated_batches_are_all_named() -> None:
    with pytest.raises(TrainingError, match="lines 5, 6; pairs.tsv, lines 7, 8"):
        run(Poisoned(math.nan), steps=4, accumulate_steps=2)
