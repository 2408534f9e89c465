"""Schedules compared with torch.optim.lr_scheduler over a whole training."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from saccade.optim import SCHEDULES, lr_factor
from saccade.optim.schedules import ONE_CYCLE_END, ONE_CYCLE_RISE, ONE_CYCLE_START

STEPS = 40

THEIRS: dict[str, Callable[[Any], Any]] = {
    "constant": lambda o: lr_scheduler.ConstantLR(o, factor=1.0),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=STEPS),
    "linear": lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, total_iters=STEPS),
    "none": lambda o: lr_scheduler.ConstantLR(o, factor=1.0),
    "step": lambda o: lr_scheduler.MultiStepLR(o, [STEPS // 2, 3 * STEPS // 4], gamma=0.1),
}


def theirs(make: Callable[[Any], Any], steps: int = STEPS) -> list[float]:
    """Return torch's learning rate at each step, with base rate 1."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("schedule", THEIRS)
def test_schedule_equals_torch(schedule: str) -> None:
    ours = [lr_factor(step + 1, step / STEPS, 0, schedule) for step in range(STEPS)]
    assert ours == pytest.approx(theirs(THEIRS[schedule]), abs=1e-12)


def test_warmup_equals_torch() -> None:
    ours = [lr_factor(step + 1, step / STEPS, 8, "constant") for step in range(STEPS)]
    assert ours == pytest.approx(theirs(lambda o: lr_scheduler.LinearLR(o, 1 / 8, total_iters=7)))


def test_one_cycle_equals_torch() -> None:
    # theirs ends with the last step, ours with the training, and the rise ends a step before
    last = STEPS - 1
    start = (ONE_CYCLE_RISE * last + 1) / STEPS

    def make(optimizer: Any) -> Any:
        cycle = {"max_lr": 1.0, "total_steps": STEPS, "cycle_momentum": False}
        return lr_scheduler.OneCycleLR(optimizer, **cycle, pct_start=start)

    ours = [lr_factor(step + 1, step / last, 5, "one_cycle") for step in range(STEPS)]
    found = theirs(make, steps=last)
    assert ours[:-1] == pytest.approx(found, abs=1e-12)
    assert (ours[0], ours[-1]) == pytest.approx((ONE_CYCLE_START, ONE_CYCLE_END))


@given(st.floats(0, 1), st.integers(1, 1000), st.integers(0, 100))
def test_one_cycle_rises_then_falls_for_any_warmup(progress: float, step: int, warmup: int) -> None:
    here = lr_factor(step, progress, warmup, "one_cycle")
    assert ONE_CYCLE_END * (1 - 1e-9) <= here <= 1
    assert here == lr_factor(step, progress, 0, "one_cycle")
    further = lr_factor(step, min(1.0, progress + 0.01), warmup, "one_cycle")
    if progress + 0.01 <= ONE_CYCLE_RISE:
        assert further >= here
    elif progress >= ONE_CYCLE_RISE:
        assert further <= here


def test_schedule_none_is_the_old_name_of_constant() -> None:
    for step in (1, 3, 50):
        assert lr_factor(step, 0.4, 10, "none") == lr_factor(step, 0.4, 10, "constant")
    assert set(THEIRS) | {"inverse_sqrt", "one_cycle", "pid"} == set(SCHEDULES)
