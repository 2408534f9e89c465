"""The training loop: steps, events, validation, stop reasons, failures."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.errors import TrainingError
from saccade.training.budget import TIMED_EXAMPLES
from saccade.training.config import TrainConfig
from saccade.training.loop import (
    EvalEvent,
    Event,
    PlanEvent,
    ReportEvent,
    StepEvent,
    average_state_dicts,
    train_loop,
)
from saccade.training.objective import Loss, Validation
from saccade.training.signals import EvaluationStopped
from saccade.training.state import TrainState
from tests.training.toy_objective import Rows, ToyObjective, random_rows


class Regression(ToyObjective):
    """A toy objective with given validation scores."""

    def __init__(self, batches: list[Rows], scores: list[float] | None = None):
        super().__init__(batches)
        self.scores = list(scores or [])
        self.evaluations = 0

    def evaluate(self, examples: int) -> Validation:
        self.evaluations += 1
        score = self.scores.pop(0) if self.scores else 0.0
        return Validation({"score": score}, score)


def joined(batches: list[Rows]) -> Rows:
    x, y = (torch.cat([getattr(batch, side) for batch in batches]) for side in "xy")
    return Rows(x, y, sum((batch.lines for batch in batches), ()))


def run(
    objective: Regression,
    state: TrainState | None = None,
    clock: Callable[[], float] = time.monotonic,
    stop: Callable[[], bool] = lambda: False,
    **given: Any,
) -> SimpleNamespace:
    """Train with plain gradient descent, and return all events."""
    plain = {"steps": 1, "learning_rate": 0.1, "warmup": 0, "schedule": "none", "clip_norm": 1e9}
    settings = TrainConfig(**{**plain, "evaluate_every": 10**6, **given})
    state = state or TrainState()
    events: list[Event] = []
    saved: list[TrainState] = []
    result = SimpleNamespace(events=events, saved=saved, state=state, stop_reason=None)
    optimizer = torch.optim.SGD(objective.model.parameters(), lr=math.nan)
    result.stop_reason = train_loop(
        objective,
        objective.evaluate,
        optimizer,
        settings,
        state,
        on_event=events.append,
        save=lambda state: saved.append(replace(state)),
        stop=stop,
        clock=clock,
    )
    return result


def of(kind: type[Any], result: SimpleNamespace) -> list[Any]:
    return [event for event in result.events if isinstance(event, kind)]


def twins(first: list[Rows], second: list[Rows]) -> tuple[Regression, Regression]:
    one, other = Regression(first), Regression(second)
    other.model.load_state_dict(one.model.state_dict())
    return one, other


# --- one step -------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_gradient_accumulation_equals_one_large_batch(sizes: list[int]) -> None:
    batches = random_rows(sizes)
    small, large = twins(batches, [joined(batches)])
    a = run(small, accumulate_steps=len(sizes))
    b = run(large)
    torch.testing.assert_close(small.model.weight, large.model.weight, rtol=1e-12, atol=1e-12)
    assert of(StepEvent, a)[0].loss == pytest.approx(of(StepEvent, b)[0].loss, rel=1e-12)
    assert of(StepEvent, a)[0].tokens == sum(sizes)


def test_step_follows_the_gradient_of_the_mean_loss() -> None:
    objective = Regression(random_rows([4]))
    batch, before = objective.given[0], objective.model.weight.detach().clone()
    error = (batch.x @ before.T).squeeze(-1) + objective.model.bias.detach() - batch.y
    by_hand = before - 0.1 * 2 * (error[:, None] * batch.x).mean(dim=0)
    run(objective)
    torch.testing.assert_close(objective.model.weight.detach(), by_hand)


def test_step_event_has_the_gradient_norm_before_clipping() -> None:
    objective = Regression(random_rows([4], scale=100.0))
    before = {name: p.detach().clone() for name, p in objective.model.named_parameters()}
    result = run(objective, learning_rate=1.0, clip_norm=0.5)
    moved = [p.detach() - before[name] for name, p in objective.model.named_parameters()]
    assert math.sqrt(sum(float(m.square().sum()) for m in moved)) == pytest.approx(0.5, rel=1e-4)
    assert of(StepEvent, result)[0].norm > 5


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear", "none"])
def test_learning_rate_follows_warmup_and_schedule(schedule: str) -> None:
    result = run(
        Regression(random_rows([2])), steps=8, warmup=4, schedule=schedule, learning_rate=0.01
    )
    expected = []
    for step in range(1, 9):
        done = (step - 1) / 8
        fall = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done}
        expected.append(0.01 * min(1, step / 4) * fall.get(schedule, 1.0))
    assert [event.learning_rate for event in of(StepEvent, result)] == pytest.approx(expected)


def test_report_event_is_the_mean_over_tokens_since_the_last_report() -> None:
    result = run(Regression(random_rows([1, 4, 2, 3, 5])), steps=7, report_every=3)
    steps, reports = of(StepEvent, result), of(ReportEvent, result)
    assert [report.step for report in reports] == [3, 6]
    for report, window in zip(reports, (steps[:3], steps[3:6]), strict=True):
        tokens = sum(step.tokens for step in window)
        assert report.tokens == tokens
        loss = sum(step.loss * step.tokens for step in window) / tokens
        right = sum(step.accuracy * step.tokens for step in window) / tokens
        assert (report.loss, report.accuracy) == pytest.approx((loss, right))
    # the seventh step belongs to the next report
    assert result.state.tokens == steps[6].tokens


# --- stop reasons ---------------------------------------------------------------------------------


def test_train_loop_makes_all_steps_and_evaluates_the_last_once() -> None:
    objective = Regression(random_rows([2]))
    result = run(objective, steps=5, evaluate_every=2)
    assert result.stop_reason == "steps"
    assert [event.step for event in of(StepEvent, result)] == [1, 2, 3, 4, 5]
    assert [event.step for event in of(EvalEvent, result)] == [2, 4, 5]
    assert [event.step for event in of(EvalEvent, run(objective, steps=4, evaluate_every=2))] == [
        2,
        4,
    ]


def test_train_loop_stops_by_patience_and_keeps_the_best_weights() -> None:
    objective = Regression(random_rows([2, 3]), scores=[1.0, 3.0, 2.0, 2.5, 2.9])
    weights: dict[int, Tensor] = {}
    original = objective.evaluate

    def evaluate(examples: int) -> Validation:
        weights[len(weights) + 1] = objective.model.weight.detach().clone()
        return original(examples)

    objective.evaluate = evaluate  # type: ignore[method-assign]
    result = run(objective, steps=100, evaluate_every=10, patience=3)
    assert result.stop_reason == "patience"
    assert result.state.step == 50
    assert [event.is_best for event in of(EvalEvent, result)] == [True, True, False, False, False]
    assert (result.state.best, result.state.best_step) == (3.0, 20)
    assert torch.equal(result.state.best_weights["weight"], weights[2])
    assert not torch.equal(result.state.best_weights["weight"], objective.model.weight)


def test_checkpoint_averaging_evaluates_and_keeps_the_mean_of_recent_weights() -> None:
    def trained(average_checkpoints: int) -> tuple[list[Tensor], Any, Tensor]:
        torch.manual_seed(0)
        objective = Regression(random_rows([2, 3]), scores=[1.0, 2.0, 3.0, 2.0])
        evaluated: list[Tensor] = []
        original = objective.evaluate

        def evaluate(examples: int) -> Validation:
            evaluated.append(objective.model.weight.detach().clone())
            return original(examples)

        objective.evaluate = evaluate  # type: ignore[method-assign]
        result = run(
            objective, steps=40, evaluate_every=10, average_checkpoints=average_checkpoints
        )
        return evaluated, result.state, objective.model.weight.detach()

    newest, _, last = trained(1)
    evaluated, state, last_of_two = trained(2)
    assert torch.equal(last, last_of_two)  # training continues from the newest weights
    assert torch.equal(evaluated[0], newest[0])  # the only one so far
    for before, now, mean in zip(newest, newest[1:], evaluated[1:], strict=False):
        torch.testing.assert_close(mean, (before + now) / 2)
        assert not torch.equal(mean, now)
    assert torch.equal(state.best_weights["weight"], evaluated[2])
    assert len(state.recent_weights) == 2


def test_average_state_dicts_takes_integers_from_the_newest() -> None:
    state_dicts = [
        {"weight": torch.tensor([1.0, 5.0]), "count": torch.tensor(3)},
        {"weight": torch.tensor([3.0, 6.0]), "count": torch.tensor(4)},
    ]
    mean = average_state_dicts(state_dicts)
    assert mean["weight"].tolist() == [2.0, 5.5]
    assert mean["count"].item() == 4


def test_tiny_improvement_is_kept_but_does_not_reset_patience() -> None:
    objective = Regression(random_rows([2]), scores=[1.0, 1.0 + 1e-5, 1.0 + 2e-5])
    result = run(objective, steps=100, evaluate_every=1, patience=2)
    assert (result.stop_reason, result.state.step) == ("patience", 3)
    assert result.state.best_step == 3


def test_nan_score_is_never_best() -> None:
    result = run(Regression(random_rows([2]), scores=[math.nan, 1.0]), steps=2, evaluate_every=1)
    assert [event.is_best for event in of(EvalEvent, result)] == [False, True]


class Clock:
    """A clock that is advanced by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Slow(Regression):
    """A toy objective whose steps and evaluations take seconds of its own clock."""

    def __init__(self, step_seconds: float = 10.0, example_seconds: float = 0.0):
        super().__init__(random_rows([2]))
        self.clock = Clock()
        self.step_seconds, self.example_seconds = step_seconds, example_seconds
        self.examples: list[int] = []  # of each evaluation

    def loss(self, batch: Rows) -> Loss:
        self.clock.now += self.step_seconds
        return super().loss(batch)

    def evaluate(self, examples: int) -> Validation:
        self.clock.now += examples * self.example_seconds
        self.examples.append(examples)
        return super().evaluate(examples)


def run_slow(objective: Slow, state: TrainState | None = None, **given: Any) -> SimpleNamespace:
    return run(
        objective, state, clock=objective.clock, **{"steps": None, "patience": 1000, **given}
    )


def test_train_loop_stops_by_minutes_and_the_schedule_follows_the_clock() -> None:
    result = run_slow(Slow(), minutes=1, schedule="linear", learning_rate=1e-3)
    assert (result.stop_reason, result.state.step) == ("minutes", 6)
    rates = [event.learning_rate for event in of(StepEvent, result)]
    assert rates == pytest.approx([1e-3 * (1 - done / 6) for done in range(6)])
    assert of(EvalEvent, result)[-1].step == 6


def test_warmup_of_a_time_budget_is_a_tenth_of_the_time() -> None:
    result = run_slow(Slow(0.75), minutes=1, warmup=None, schedule="constant", learning_rate=1.0)
    rates = [event.learning_rate for event in of(StepEvent, result)]
    assert len(rates) == 80
    assert rates[1:9] == pytest.approx([done / 8 for done in range(1, 9)], abs=0.01)
    assert 0 < rates[0] <= 0.01
    assert set(rates[8:]) == {1.0}


@pytest.mark.parametrize("schedule", ["constant", "cosine", "inverse_sqrt", "linear", "one_cycle"])
@pytest.mark.parametrize("seconds", [0.125, 0.5])
def test_schedule_of_a_time_budget_is_that_of_the_steps_which_fit(
    schedule: str, seconds: float
) -> None:
    steps = round(60 / seconds)
    timed = run_slow(Slow(seconds), minutes=1, warmup=None, schedule=schedule)
    counted = run(Regression(random_rows([2])), steps=steps, warmup=steps // 10, schedule=schedule)
    for left, right in zip(of(StepEvent, timed), of(StepEvent, counted), strict=True):
        # a warm-up by the clock starts at 0, one by steps at 1 / warmup of the peak, which is 0.1
        assert left.learning_rate == pytest.approx(right.learning_rate, abs=0.11 / (steps // 10))


def test_steps_end_a_time_budget_that_is_not_needed() -> None:
    result = run_slow(Slow(), steps=4, minutes=10, schedule="linear", learning_rate=1.0)
    assert (result.stop_reason, result.state.step) == ("steps", 4)
    rates = [event.learning_rate for event in of(StepEvent, result)]
    assert rates == pytest.approx([1, 0.75, 0.5, 0.25])


def test_minutes_of_earlier_sessions_count() -> None:
    result = run_slow(Slow(), TrainState(seconds=35.0), minutes=1)
    assert (result.stop_reason, result.state.step) == ("minutes", 3)
    assert result.state.seconds == pytest.approx(65.0)


def test_time_before_the_first_step_counts_but_is_no_progress() -> None:
    state = TrainState(seconds=20.0, setup_seconds=20.0)
    result = run_slow(Slow(), state, minutes=1, schedule="linear", learning_rate=1.0)
    rates = [event.learning_rate for event in of(StepEvent, result)]
    assert rates == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert result.state.seconds == pytest.approx(60.0)


@pytest.mark.parametrize("example_seconds", [1e-6, 0.001, 0.01, 0.1])
def test_evaluations_have_their_share_of_a_time_budget(example_seconds: float) -> None:
    objective = Slow(0.5, example_seconds)
    result = run_slow(objective, minutes=5, evaluate_every=None)
    assert result.stop_reason == "minutes"
    [planned] = of(PlanEvent, result)
    timed, *made = objective.examples
    assert timed == TIMED_EXAMPLES and set(made) == {planned.plan.examples}
    assert planned.plan.evaluations - 1 <= len(made) <= planned.plan.evaluations
    assert len(made) * planned.plan.eval_seconds <= 0.1 * 300 + planned.plan.eval_seconds
    # it ends with the last evaluation, when the time is used up
    assert result.events[-1] == of(EvalEvent, result)[-1]
    assert 100 + 300 - 0.5 <= objective.clock.now <= 100 + 300 + 1.0
    assert of(StepEvent, result)[-1].step == pytest.approx(planned.plan.steps, rel=0.05)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0], ids=["faster", "same", "slower"])
def test_evaluations_whose_duration_changes_keep_their_distance(factor: float) -> None:
    class Changing(Slow):
        def evaluate(self, examples: int) -> Validation:
            found = super().evaluate(examples)
            self.example_seconds *= factor
            return found

    result = run_slow(Changing(0.5, 0.004), minutes=5, evaluate_every=None)
    progress = {event.step: event.progress for event in of(StepEvent, result)}
    at = [progress[event.step] for event in of(EvalEvent, result)]
    *distances, last = [later - earlier for earlier, later in pairwise(at)]
    # of up to 20 evaluations; the last may be nearer to the one before it
    assert all(distance >= 0.05 for distance in distances) and last >= 0.025


def test_evaluation_interval_that_is_given_holds_in_a_time_budget() -> None:
    result = run_slow(Slow(1.0), minutes=1, evaluate_every=7)
    steps = [event.step for event in of(EvalEvent, result)]
    assert steps == [7, 14, 21, 28, 35, 42, 49, 56, 60]


def test_resumed_time_budget_keeps_its_plan() -> None:
    objective = Slow(1.0, 0.002)
    state = TrainState()
    first = run_slow(
        objective, state, minutes=5, evaluate_every=None, stop=lambda: state.step == 100
    )
    assert first.stop_reason == "stop"
    assert 100 < state.seconds < 110
    resumed = run_slow(objective, state, minutes=5, evaluate_every=None)
    assert resumed.stop_reason == "minutes" and not of(PlanEvent, resumed)
    whole = run_slow(Slow(1.0, 0.002), minutes=5, evaluate_every=None)
    evaluated = [event.step for part in (first, resumed) for event in of(EvalEvent, part)]
    assert evaluated == [event.step for event in of(EvalEvent, whole)]
    assert state.seconds == pytest.approx(whole.state.seconds)


def test_train_loop_saves_every_checkpoint_seconds() -> None:
    result = run_slow(Slow(), steps=8, checkpoint_seconds=25)
    assert [state.step for state in result.saved] == [3, 6, 8]


def test_last_checkpoint_is_that_of_a_longer_training() -> None:
    """The evaluation after the last step is not in it, unless one is due there anyway."""
    for steps, evaluated in ((13, 10), (15, 15)):
        objective = Regression(random_rows([2]), scores=[1.0, 2.0, 3.0])
        result = run(objective, steps=steps, evaluate_every=5)
        assert [(state.step, state.last_eval_step, state.best_step) for state in result.saved] == [
            (steps, evaluated, evaluated)
        ]
        assert (result.state.last_eval_step, result.state.best) == (steps, 3.0)


# --- stopping -------------------------------------------------------------------------------------


class Interrupted(Regression):
    """A toy objective whose evaluations are stopped until `goes_on`."""

    goes_on = False

    def evaluate(self, examples: int) -> Validation:
        if not self.goes_on:
            raise EvaluationStopped
        return super().evaluate(examples)


@pytest.mark.parametrize("steps", [20, 5], ids=["in the middle", "after the last step"])
@pytest.mark.parametrize("average", [1, 3])
def test_stopped_evaluation_is_made_when_training_is_resumed(steps: int, average: int) -> None:
    settings = {"steps": steps, "evaluate_every": 5, "average_checkpoints": average}
    interrupted, whole = Interrupted(random_rows([2])), Regression([])
    whole.given = interrupted.given
    whole.model.load_state_dict(interrupted.model.state_dict())
    stopped = run(interrupted, **settings)
    assert (stopped.stop_reason, stopped.state.step) == ("stop", 5)
    assert stopped.state.last_eval_step == 0 and not stopped.state.recent_weights
    assert stopped.saved[-1].step == 5
    interrupted.goes_on = True
    resumed, expected = run(interrupted, stopped.state, **settings), run(whole, **settings)
    assert of(EvalEvent, resumed) == of(EvalEvent, expected)
    assert torch.equal(interrupted.model.weight, whole.model.weight)
    best = [result.state.best_weights["weight"] for result in (resumed, expected)]
    assert torch.equal(*best)


def test_train_loop_stops_before_an_evaluation_that_is_due() -> None:
    objective, state = Regression(random_rows([2])), TrainState()
    result = run(objective, state, stop=lambda: state.step == 10, steps=100, evaluate_every=10)
    assert (result.stop_reason, state.step, objective.evaluations) == ("stop", 10, 0)
    run(objective, state, steps=11, evaluate_every=10)
    assert objective.evaluations == 2


def test_train_loop_stops_after_the_step_without_evaluating() -> None:
    objective, events = Regression(random_rows([2])), []
    state = TrainState()
    stop_reason = train_loop(
        objective,
        objective.evaluate,
        torch.optim.SGD(objective.model.parameters(), lr=0.1),
        TrainConfig(steps=100),
        state,
        on_event=events.append,
        save=lambda state: None,
        stop=lambda: state.step == 4,
    )
    assert (stop_reason, state.step, objective.evaluations) == ("stop", 4, 0)


# --- random numbers and batches -------------------------------------------------------------------


class Noisy(Regression):
    """A toy objective that draws from torch's global generator, as dropout does."""

    def loss(self, batch: Rows) -> Loss:
        return super().loss(batch._replace(x=batch.x + 0.1 * torch.randn_like(batch.x)))


def test_train_loop_neither_uses_nor_changes_the_global_generator() -> None:
    weights = []
    start = Noisy(random_rows([3]))
    for seed in (3, 4):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        objective = Noisy(start.given)
        objective.model.load_state_dict(start.model.state_dict())
        torch.set_rng_state(before)
        run(objective, steps=3)
        assert torch.equal(torch.get_rng_state(), before)
        weights.append(objective.model.weight.detach())
    assert torch.equal(*weights)


def test_each_step_has_its_own_seed() -> None:
    batch = random_rows([3])
    one, other = Noisy(batch), Noisy(batch)
    other.model.load_state_dict(one.model.state_dict())
    run(one, TrainState(step=0), steps=1)
    run(other, TrainState(step=1), steps=2)
    assert not torch.equal(one.model.weight, other.model.weight)


def test_resumed_loop_starts_at_the_next_batch() -> None:
    objective = Regression(random_rows([2]))
    run(objective, TrainState(step=5), steps=6, accumulate_steps=3)
    assert objective.started_at == 15


# --- non-finite numbers ------------------------------------------------------------------------


class Poisoned(Regression):
    """A toy objective whose third batch has a non-finite loss."""

    def __init__(self, factor: float):
        super().__init__(random_rows([2, 2, 2, 2]))
        self.factor = factor

    def loss(self, batch: Rows) -> Loss:
        loss = super().loss(batch)
        return loss._replace(total=loss.total * self.factor) if 5 in batch.lines else loss


@pytest.mark.parametrize("factor", [math.nan, math.inf, -math.inf])
def test_non_finite_loss_stops_with_step_learning_rate_and_lines(factor: float) -> None:
    objective, saved = Poisoned(factor), []
    with pytest.raises(TrainingError) as caught:
        train_loop(
            objective,
            objective.evaluate,
            torch.optim.SGD(objective.model.parameters(), lr=0.1),
            TrainConfig(
                steps=9, learning_rate=0.0125, warmup=0, schedule="none", checkpoint_seconds=0
            ),
            TrainState(),
            on_event=lambda event: None,
            save=lambda state: saved.append((state.step, objective.model.weight.clone())),
            stop=lambda: False,
        )
    message = str(caught.value)
    assert "got a loss of" in message and "at step 3" in message
    assert "learning rate 0.0125" in message
    assert "pairs.tsv, lines 5, 6" in message
    assert "smaller train.learning_rate" in message
    # the weights are those before the failed step, which is not saved
    assert [step for step, _ in saved] == [1, 2]
    assert torch.equal(saved[-1][1], objective.model.weight)


class Steep(Regression):
    """A toy objective with a finite loss and a non-finite gradient."""

    def loss(self, batch: Rows) -> Loss:
        total = super().loss(batch).total
        return Loss((total * 0).sqrt(), torch.tensor(0))


def test_non_finite_gradient_stops_training() -> None:
    objective = Steep(random_rows([2]))
    before = objective.model.weight.detach().clone()
    with pytest.raises(TrainingError, match="got a loss of 0 and a gradient norm of (nan|inf)"):
        run(objective)
    assert torch.equal(objective.model.weight, before)


def test_training_error_names_all_accumulated_batches() -> None:
    with pytest.raises(TrainingError, match="lines 5, 6; pairs.tsv, lines 7, 8"):
        run(Poisoned(math.nan), steps=4, accumulate_steps=2)
