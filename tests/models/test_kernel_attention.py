"""Kernel regression from the parts of attention: the equation by loops, and the fitted one."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.points import noisy_curve
from saccade.estimators.kernel_regression import (
    KernelRegression,
    leave_one_out_error,
    nadaraya_watson,
)
from saccade.models.kernel_attention import KernelAttention

POINTS = noisy_curve(12)
KEYS, VALUES = torch.from_numpy(POINTS.x), torch.from_numpy(POINTS.y)


def by_loops(query: float, bandwidth: float, own: int | None = None) -> float:
    shares = [
        0.0 if i == own else math.exp(-((query - x) ** 2) / (2 * bandwidth**2))
        for i, x in enumerate(POINTS.x.tolist())
    ]
    return sum(s * y for s, y in zip(shares, POINTS.y.tolist(), strict=True)) / sum(shares)


@pytest.mark.parametrize("bandwidth", [0.2, 1.0, 3.7])
def test_kernel_attention_equals_equation(bandwidth: float) -> None:
    model = KernelAttention(bandwidth, KEYS, VALUES)
    queries = torch.linspace(-1, 6, 9, dtype=torch.float64)
    reference = [by_loops(query, bandwidth) for query in queries.tolist()]
    np.testing.assert_allclose(model(queries).detach().numpy(), reference, rtol=1e-12)
    left_out = [by_loops(float(x), bandwidth, i) for i, x in enumerate(POINTS.x)]
    seen = model(KEYS, torch.arange(12)).detach().numpy()
    np.testing.assert_allclose(seen, left_out, rtol=1e-12)


@settings(deadline=None)
@given(st.floats(0.01, 100), st.lists(st.floats(-50, 50), min_size=1, max_size=6))
def test_kernel_attention_equals_kernel_regression(bandwidth: float, queries: list[float]) -> None:
    model = KernelAttention(bandwidth, KEYS, VALUES)
    with torch.no_grad():
        values, weights = nadaraya_watson(
            np.array(queries), POINTS.x, POINTS.y, bandwidth, "gaussian"
        )
        asked = torch.tensor(queries, dtype=torch.float64)
        np.testing.assert_allclose(model(asked).numpy(), values, atol=1e-6, rtol=0)
        np.testing.assert_allclose(model.weights(asked).numpy(), weights, atol=1e-6, rtol=0)


def test_kernel_attention_weights_exclude_own_point_and_sum_to_one() -> None:
    model = KernelAttention(0.5, KEYS, VALUES)
    weights = model.weights(KEYS, torch.arange(12)).detach()
    assert weights.diagonal().abs().max() == 0
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(12, dtype=torch.float64))
    changed = VALUES.clone()
    changed[4] += 100
    other = KernelAttention(0.5, KEYS, changed)
    assert other(KEYS, torch.arange(12))[4] == model(KEYS, torch.arange(12))[4]


def test_kernel_attention_duplicate_points_attend_to_each_other() -> None:
    twice = KernelAttention(0.5, torch.tensor([1.0, 1.0, 3.0]), torch.tensor([2.0, 4.0, 0.0]))
    weights = twice.weights(torch.tensor([1.0], dtype=torch.float64), torch.tensor([0]))
    assert weights[0, 0] == 0 and weights[0, 1] > 0.99


def test_kernel_attention_gradient_is_that_of_leave_one_out_error() -> None:
    model = KernelAttention(0.7, KEYS, VALUES)

    def error(log_width: torch.Tensor) -> torch.Tensor:
        expected = torch.func.functional_call(
            model, {"score.log_sigma": log_width}, (KEYS, torch.arange(12))
        )
        return (VALUES - expected).square().mean()

    log_width = torch.tensor(math.log(0.7), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(error, (log_width,))
    reference = leave_one_out_error(POINTS.x, POINTS.y, 0.7)
    assert float(error(log_width).detach()) == pytest.approx(reference, rel=1e-12)


def test_kernel_attention_gradient_descent_finds_searched_bandwidth() -> None:
    points = noisy_curve(50, seed=4)
    keys, values = torch.from_numpy(points.x), torch.from_numpy(points.y)
    model = KernelAttention(1.0, keys, values)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        (values - model(keys, torch.arange(50))).square().mean().backward()
        optimizer.step()
    searched = KernelRegression().fit(points.x, points.y).bandwidth
    assert model.bandwidth == pytest.approx(searched, rel=0.02)


def test_kernel_attention_state_dict_has_only_the_bandwidth() -> None:
    model = KernelAttention(0.3, KEYS.float(), VALUES.float())
    assert list(model.state_dict()) == ["score.log_sigma"]
    assert model.bandwidth == pytest.approx(0.3, rel=1e-15)
    assert model.keys.dtype == torch.float64
