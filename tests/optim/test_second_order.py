"""Newton's method and L-BFGS, compared step by step with their equations in NumPy."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from saccade.optim import LBFGS, Newton, OptimizerSettings, make_optimizer
from saccade.optim.second_order import (
    LBFGS_HISTORY,
    MAX_HALVINGS,
    MAX_NEWTON_PARAMS,
    MIN_DAMPING,
    SUFFICIENT_DECREASE,
)

STEPS = 50


def valley(w: Any) -> Any:
    """Rosenbrock's function in any number of dimensions, of a tensor or an array."""
    return (100 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2).sum()


def slope(w: Any) -> Any:
    found = np.zeros_like(w)
    found[1:] += 200 * (w[1:] - w[:-1] ** 2)
    found[:-1] += -400 * w[:-1] * (w[1:] - w[:-1] ** 2) - 2 * (1 - w[:-1])
    return found


def curvature(w: Any) -> Any:
    found = np.zeros((len(w), len(w)))
    for i in range(len(w) - 1):
        found[i, i] += 1200 * w[i] ** 2 - 400 * w[i + 1] + 2
        found[i + 1, i + 1] += 200
        found[i, i + 1] = found[i + 1, i] = -400 * w[i]
    return found


def parameter(*numbers: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(numbers, dtype=torch.float64))


# --- Newton's method ------------------------------------------------------------------------------


def newton_by_hand(w: Any) -> Any:
    """A step of algorithms 3.3 (how H is damped) and 3.1 (line search)."""
    g, H = slope(w), curvature(w)
    smallest = H.diagonal().min()
    tau = 0.0 if smallest > 0 else MIN_DAMPING - smallest
    while True:
        try:
            np.linalg.cholesky(H + tau * np.eye(len(w)))
            break
        except np.linalg.LinAlgError:
            tau = max(2 * tau, MIN_DAMPING)
    d = -np.linalg.solve(H + tau * np.eye(len(w)), g)
    t = 1.0
    for _ in range(MAX_HALVINGS):
        if valley(w + t * d) <= valley(w) + SUFFICIENT_DECREASE * t * (g @ d):
            return w + t * d
        t /= 2
    return w


@pytest.mark.parametrize("start", [(-1.2, 1.0, 0.5, 2.0), (0.1, 3.0, -2.0, 1.0)])
def test_newton_steps_equal_the_algorithm(start: tuple[float, ...]) -> None:
    # at both starts the valley does not curve upwards everywhere
    assert np.linalg.eigvalsh(curvature(np.array(start))).min() < 0
    weight, expected = parameter(*start), np.array(start)
    optimizer = Newton([weight])
    for _ in range(STEPS):
        loss = optimizer.step(lambda: valley(weight))
        assert float(loss) == pytest.approx(valley(expected), rel=1e-9, abs=1e-18)
        assert optimizer.gradient_norm == pytest.approx(
            np.linalg.norm(slope(expected)), rel=1e-6, abs=1e-9
        )
        expected = newton_by_hand(expected)
        np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-8, atol=1e-9)
    assert np.abs(slope(expected)).max() < 1e-9


@pytest.mark.parametrize("way", ["autograd", "differences"])
def test_newton_solves_a_quadratic_in_one_step(way: str) -> None:
    draw = np.random.default_rng(1)
    root, b = draw.normal(size=(5, 5)), draw.normal(size=5)
    A = root @ root.T + np.eye(5)
    weight = nn.Parameter(torch.from_numpy(draw.normal(size=5)))
    square = _once if way == "differences" else torch.square
    towards, table = torch.from_numpy(b), torch.from_numpy(np.linalg.cholesky(A).T.copy())
    loss = Newton([weight]).step(lambda: square(table @ weight).sum() / 2 - towards @ weight)
    assert math.isfinite(float(loss))
    np.testing.assert_allclose(weight.detach().numpy(), np.linalg.solve(A, b), rtol=1e-6)


class _Once(torch.autograd.Function):
    """x² without double backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * gradient


def _once(x: Tensor) -> Tensor:
    found: Tensor = _Once.apply(x)
    return found


def ridge(x: Any, y: Any, strength: float) -> tuple[Any, Any]:
    """Return weights and bias of the ridge regression with λ/2 ‖w‖², without a penalty on b."""
    N, D = x.shape
    ones = np.hstack([x, np.ones((N, 1))])
    table = 2 / N * ones.T @ ones + strength * np.diag([1.0] * D + [0.0])
    solved = np.linalg.solve(table, 2 / N * ones.T @ y)
    return solved[:-1], solved[-1]


@pytest.mark.parametrize("name", ["newton", "lbfgs"])
def test_second_order_weight_decay_is_a_penalty_on_matrices(name: str) -> None:
    draw = np.random.default_rng(2)
    x, y = draw.normal(size=(20, 3)), draw.normal(size=20) + 3
    model = nn.Linear(3, 1).double()
    optimizer: Any = make_optimizer(name, model, OptimizerSettings(1.0, weight_decay=0.4))
    given, expected = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(1 if name == "newton" else 25):
        optimizer.step(lambda: (model(given)[:, 0] - expected).square().mean())
    weights, bias = ridge(x, y, 0.4)
    near = 1e-9 if name == "newton" else 1e-4  # L-BFGS stops where a step brings less than 1e-9
    np.testing.assert_allclose(model.weight.detach().numpy()[0], weights, rtol=near)
    assert model.bias.item() == pytest.approx(bias, rel=near)


def test_newton_refuses_large_models_before_computing() -> None:
    Newton(nn.Linear(MAX_NEWTON_PARAMS, 1, bias=False).parameters())
    with pytest.raises(ValueError, match="2,049 weights.*at most 2,048 weights; try lbfgs"):
        Newton(nn.Linear(MAX_NEWTON_PARAMS, 1).parameters())


def test_newton_skips_unused_weights() -> None:
    used, idle = parameter(3.0, 1.0), parameter(5.0)
    Newton([used, idle]).step(lambda: (used - 1).square().sum())
    torch.testing.assert_close(used.detach(), torch.ones(2, dtype=torch.float64))
    assert idle.item() == 5.0


def test_newton_keeps_the_weights_if_the_line_search_fails() -> None:
    weight = parameter(1.0)
    asked: list[float] = []

    def rising() -> Tensor:  # each time it is asked, the loss is higher
        asked.append(0.0)
        return weight.square().sum() + len(asked)

    Newton([weight]).step(rising)
    assert weight.item() == 1.0
    assert len(asked) == 2 + MAX_HALVINGS


@pytest.mark.parametrize("kind", [Newton, LBFGS])
@pytest.mark.parametrize("loss", [lambda w: w.sum() * math.nan, lambda w: (w.sum() * 0).sqrt()])
def test_second_order_optimizers_keep_the_weights_at_a_non_finite_loss(
    kind: Any, loss: Callable[[Tensor], Tensor]
) -> None:
    weight = parameter(1.0, 2.0)
    optimizer = kind([weight])
    optimizer.step(lambda: loss(weight))
    assert weight.tolist() == [1.0, 2.0]
    assert not math.isfinite(optimizer.gradient_norm)


# --- L-BFGS ---------------------------------------------------------------------------------------


def inverse_by_hand(pairs: list[tuple[Any, Any]], size: int) -> Any:
    """Return B from the changes (s, y), as a dense matrix."""
    B = np.eye(size)
    if pairs:
        s, y = pairs[-1]
        B = np.eye(size) * (s @ y) / (y @ y)
    for s, y in pairs[-LBFGS_HISTORY:]:
        rho = 1 / (y @ s)
        left = np.eye(size) - rho * np.outer(s, y)
        B = left @ B @ left.T + rho * np.outer(s, s)
    return B


def test_lbfgs_steps_have_the_bfgs_direction_and_satisfy_wolfe() -> None:
    start = (-1.2, 1.0) * 6
    weight, w = parameter(*start), np.array(start)
    optimizer = LBFGS([weight])
    pairs: list[tuple[Any, Any]] = []
    for _ in range(STEPS):
        g = slope(w)
        d = -inverse_by_hand(pairs, len(w)) @ g
        optimizer.step(lambda: valley(weight))
        after = weight.detach().numpy().copy()
        t = (after - w) @ d / (d @ d)
        np.testing.assert_allclose(after - w, t * d, rtol=1e-6, atol=1e-9 * np.linalg.norm(t * d))
        assert t > 0
        assert valley(after) <= valley(w) + 1e-4 * t * (g @ d) + 1e-12
        assert abs(slope(after) @ d) <= 0.9 * abs(g @ d) + 1e-12
        s, y = after - w, slope(after) - g
        if y @ s > 1e-10:
            pairs.append((s, y))
        w = after
    assert len(pairs) > 2 * LBFGS_HISTORY  # the oldest were forgotten
    assert valley(w) < valley(np.array(start)) / 100


def test_lbfgs_equals_torch_with_one_direction_per_step() -> None:
    ours, theirs = parameter(-1.2, 1.0, 0.3), parameter(-1.2, 1.0, 0.3)
    optimizer = LBFGS([ours])
    other = torch.optim.LBFGS(
        [theirs],
        max_iter=1,
        max_eval=1 + MAX_HALVINGS,
        history_size=LBFGS_HISTORY,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        other.zero_grad()
        loss: Tensor = valley(theirs)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(lambda: valley(ours))
        other.step(closure)
        assert torch.equal(ours, theirs)
