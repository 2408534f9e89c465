"""Warm-up and evaluations of a known number of steps: the reasons name the bound that decided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.tasks.length import evaluation_choice, warmup_choice


@given(st.integers(1, 10**6))
def test_warmup_and_its_reason(steps: int) -> None:
    choice = warmup_choice(steps)
    assert choice.path == "train.warmup"
    assert 0 <= choice.value <= steps / 2 or steps == 1
    if choice.reason.startswith("a tenth"):
        assert choice.value == steps // 10
    elif "upper limit" in choice.reason:
        assert choice.value == 1000 < steps // 10
    elif "half" in choice.reason:
        assert choice.value == steps // 2 < 20
    else:
        assert "lower limit" in choice.reason and choice.value == 20 > steps // 10


@given(st.integers(1, 10**6))
def test_evaluations_and_their_reason(steps: int) -> None:
    choice = evaluation_choice(steps)
    made = {*range(choice.value, steps + 1, choice.value), steps}
    assert 1 <= len(made) <= 21
    if len(made) == 1 and choice.value > steps:
        assert choice.reason == f"once, after the last of {steps:,} steps"
    else:
        assert f"{len(made)} times in {steps:,} steps" in choice.reason


@pytest.mark.parametrize(
    ("steps", "warmup", "evaluations"),
    [
        (5, "2: half of 5 steps, which is below the lower limit of 20", "50: once, after the last"),
        (
            132,
            "20: the lower limit; a tenth of 132 steps would be less",
            "50: the lower limit: 3 t",
        ),
        (300, "30: a tenth of 300 steps", "50: the lower limit: 6 times in 300 steps"),
        (6274, "627: a tenth of 6,274 steps", "313: 21 times in 6,274 steps"),
        (20_000, "1000: the upper limit; a tenth of 20,000", "1000: 20 times in 20,000 steps"),
    ],
)
def test_choices_by_hand(steps: int, warmup: str, evaluations: str) -> None:
    for choice, text in ((warmup_choice(steps), warmup), (evaluation_choice(steps), evaluations)):
        assert f"{choice.value}: {choice.reason}".startswith(text)
