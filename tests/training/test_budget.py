"""Time budgets: what is planned from the duration of a step and of an evaluation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.training.budget import (
    EVAL_EXAMPLES,
    EVAL_SHARE,
    MAX_EVALUATIONS,
    MIN_EVAL_EXAMPLES,
    MIN_EVALUATIONS,
    count_evaluations,
    format_duration,
    plan_budget,
)

budgets = st.floats(0.1, 1e5)
shares = st.floats(0.0, 0.99)
durations = st.floats(1e-7, 1e3)


@given(budgets, shares, st.integers(1, 10**6), durations, durations)
def test_planned_budget_is_not_exceeded(
    seconds: float, share: float, step: int, step_seconds: float, example_seconds: float
) -> None:
    used = share * seconds
    plan = plan_budget(seconds, used, step, step_seconds, example_seconds)
    assert 1 <= plan.evaluations <= MAX_EVALUATIONS
    assert MIN_EVAL_EXAMPLES <= plan.examples <= EVAL_EXAMPLES
    assert plan.eval_seconds == pytest.approx(plan.examples * example_seconds)
    spent = (plan.steps - step) * step_seconds + plan.evaluations * plan.eval_seconds
    if plan.steps > step:  # else not even the last evaluation fits
        assert spent <= (seconds - used) * (1 + 1e-9)
        # and one step more would not fit
        assert spent + step_seconds >= (seconds - used) * (1 - 1e-9)


@given(budgets, durations, durations)
def test_evaluations_are_made_smaller_before_they_become_fewer(
    seconds: float, step_seconds: float, example_seconds: float
) -> None:
    plan = plan_budget(seconds, 0.0, 0, step_seconds, example_seconds)
    share = EVAL_SHARE * seconds
    if plan.evaluations < MIN_EVALUATIONS:
        # rounding down to whole examples leaves the share, the smallest size may exceed it
        assert plan.examples == MIN_EVAL_EXAMPLES
    if plan.examples < EVAL_EXAMPLES:
        assert (EVAL_EXAMPLES * example_seconds) * MIN_EVALUATIONS > share
    if plan.examples > MIN_EVAL_EXAMPLES:
        assert plan.evaluations * plan.eval_seconds <= share * (1 + 1e-9)


@given(budgets, durations, durations, st.floats(1.0, 100.0))
def test_longer_budgets_have_no_less_of_anything(
    seconds: float, step_seconds: float, example_seconds: float, factor: float
) -> None:
    short = plan_budget(seconds, 0.0, 0, step_seconds, example_seconds)
    long = plan_budget(factor * seconds, 0.0, 0, step_seconds, example_seconds)
    assert long.examples >= short.examples
    work = [plan.evaluations * plan.examples for plan in (short, long)]
    assert work[1] >= work[0] * (1 - MIN_EVALUATIONS / MIN_EVAL_EXAMPLES)


@given(budgets, st.floats(1.0, 100.0), durations, durations)
def test_slower_machines_make_fewer_steps(
    seconds: float, factor: float, step_seconds: float, example_seconds: float
) -> None:
    fast = plan_budget(seconds, 0.0, 0, step_seconds, example_seconds)
    slow = plan_budget(seconds, 0.0, 0, factor * step_seconds, example_seconds)
    assert slow.steps <= fast.steps
    assert slow[:3] == fast[:3]


@given(budgets, durations, st.sampled_from([50, 123, 500]))
def test_size_of_evaluations_that_were_made_is_kept(
    seconds: float, example_seconds: float, examples: int
) -> None:
    plan = plan_budget(seconds, 0.0, 0, 1.0, example_seconds, examples)
    assert plan.examples == examples
    assert plan.evaluations == count_evaluations(seconds, examples * example_seconds)


def test_three_minutes_are_planned_as_by_hand() -> None:
    # 10 s used; evaluations of 500 examples take 3 s: six in a tenth of 180 s
    plan = plan_budget(180.0, 18.0, 40, 0.4, 0.006)
    assert (plan.evaluations, plan.examples) == (6, 500)
    assert plan.steps == 40 + int((180 - 18 - 6 * 3) / 0.4)
    # ten times slower: 75 examples of 60 ms, four of 4.5 s
    plan = plan_budget(180.0, 18.0, 4, 4.0, 0.06)
    assert (plan.evaluations, plan.examples) == (4, 75)
    assert plan.steps == 4 + int((180 - 18 - 4 * 4.5) / 4)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (45, "45 s"),
        (59.6, "1 min"),
        (150.2, "2 min 30 s"),
        (180, "3 min"),
        (7200, "120 min"),
    ],
)
def test_format_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
