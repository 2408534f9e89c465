"""The PID controller on plants with a known response, and its equation in a loop."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.optim import PIDState, pid_step, update_ratio
from saccade.optim.lr_controller import MAX_LOG_FACTOR


def test_pid_step_equals_its_equation() -> None:
    draw = np.random.default_rng(4)
    measured, target = np.exp(draw.normal(size=30)), 0.02
    control, errors = PIDState(), []
    assert control.factor == 1.0
    for value in measured:
        control = pid_step(control, float(value), target)
        errors.append(math.log(target) - math.log(value))
        before = errors[-2] if len(errors) > 1 else errors[-1]
        expected = 0.1 * errors[-1] + 0.1 * sum(errors) + 0.05 * (errors[-1] - before)
        assert control.log_factor == pytest.approx(expected, rel=1e-12)
        assert control.factor == pytest.approx(math.exp(expected))


@given(st.floats(-6, 6), st.floats(1e-5, 0.1))
def test_pid_controller_converges_to_the_target(log_gain: float, target: float) -> None:
    """A plant with a constant gain."""
    gain, control, ratios = target * math.exp(log_gain), PIDState(), []
    for _ in range(120):
        ratios.append(gain * control.factor)
        control = pid_step(control, ratios[-1], target)
    far = [abs(math.log(ratio / target)) for ratio in ratios]
    assert all(error <= 0.1 * far[0] + 1e-12 for error in far[25:])
    assert far[-1] <= 1e-4 * far[0] + 1e-12


def test_pid_controller_follows_a_noisy_drifting_plant() -> None:
    draw = np.random.default_rng(5)
    control, last = PIDState(), []
    for step in range(600):
        gain = 3.0 * math.exp(-step / 150)
        ratio = gain * control.factor * math.exp(0.3 * draw.normal())
        control = pid_step(control, ratio, 1e-3)
        if step >= 300:
            last.append(ratio)
    assert np.exp(np.mean(np.log(last))) == pytest.approx(1e-3, rel=0.1)


@pytest.mark.parametrize("measured", [0.0, -1.0, math.nan, math.inf])
def test_pid_step_ignores_measurements_without_a_logarithm(measured: float) -> None:
    control = pid_step(PIDState(), 0.5, 0.1)
    assert pid_step(control, measured, 0.1) == control


def test_pid_controller_has_no_integral_windup() -> None:
    control = PIDState()
    for _ in range(500):
        control = pid_step(control, 1e-9, 1.0)  # whatever it does
    assert control.log_factor == MAX_LOG_FACTOR
    for _ in range(30):
        control = pid_step(control, 1e9, 1.0)
    assert control.log_factor < 0


def test_update_ratio_uses_the_norm_of_all_weights() -> None:
    before = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    after = [torch.tensor([3.0, 0.3]), torch.tensor([[3.6]])]
    assert update_ratio(before, after) == pytest.approx(0.1)
    assert update_ratio([torch.zeros(3)], [torch.ones(3)]) == 0.0
