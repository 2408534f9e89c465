import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn import cross_entropy, losses

seeds = st.integers(0, 2**31)


def by_loops(logits: Tensor, target: Tensor, label_smoothing: float, weights: list[float]) -> float:
    total = 0.0
    for row, right, weight in zip(logits.tolist(), target.tolist(), weights, strict=True):
        norm = math.log(sum(math.exp(value) for value in row))
        for v, value in enumerate(row):
            q = (1 - label_smoothing) * (v == right) + label_smoothing / len(row)
            total += weight * -q * (value - norm)
    return total


@settings(max_examples=50)
@given(st.integers(1, 7), st.integers(1, 6), st.floats(0, 1), st.booleans(), seeds)
def test_it_is_its_equation(
    N: int, V: int, label_smoothing: float, weighted: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    logits, target = 3 * torch.randn(N, V, dtype=torch.float64), torch.randint(V, (N,))
    weights = torch.rand(N, dtype=torch.float64) if weighted else None
    plain = [1.0] * N if weights is None else weights.tolist()
    got = cross_entropy(logits, target, label_smoothing, weights)
    assert float(got) == pytest.approx(by_loops(logits, target, label_smoothing, plain), rel=1e-9)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(2, 6), st.floats(0, 0.5), seeds)
def test_it_is_the_frameworks_mean_times_how_many(
    N: int, V: int, label_smoothing: float, seed: int
) -> None:
    torch.manual_seed(seed)
    logits, target = torch.randn(N, V, dtype=torch.float64), torch.randint(V, (N,))
    mean = F.cross_entropy(logits, target, label_smoothing=label_smoothing)
    torch.testing.assert_close(cross_entropy(logits, target, label_smoothing), mean * N)
    ones = torch.ones(N, dtype=torch.float64)
    torch.testing.assert_close(cross_entropy(logits, target, label_smoothing, ones), mean * N)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.booleans(), seeds)
def test_pieces_add_up_to_the_whole(sizes: list[int], weighted: bool, seed: int) -> None:
    torch.manual_seed(seed)
    N = sum(sizes)
    logits = torch.randn(N, 5, dtype=torch.float64, requires_grad=True)
    target = torch.randint(5, (N,))
    weights = torch.rand(N, dtype=torch.float64) if weighted else None
    whole = cross_entropy(logits, target, 0.1, weights)
    parts = torch.zeros((), dtype=torch.float64)
    start = 0
    for size in sizes:
        cut = slice(start, start + size)
        share = None if weights is None else weights[cut]
        parts = parts + cross_entropy(logits[cut], target[cut], 0.1, share)
        start += size
    torch.testing.assert_close(parts, whole)
    one, other = (torch.autograd.grad(loss, logits)[0] for loss in (whole, parts))
    torch.testing.assert_close(one, other)


def test_the_gradient_without_smoothing_is_softmax_minus_onehot() -> None:
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    target, weights = torch.randint(5, (4,)), torch.rand(4, dtype=torch.float64)
    (grad,) = torch.autograd.grad(cross_entropy(logits, target, weights=weights), logits)
    wanted = (logits.softmax(-1) - F.one_hot(target, 5)) * weights[:, None]
    torch.testing.assert_close(grad, wanted.detach())


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_gradients(label_smoothing: float) -> None:
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    target, weights = torch.randint(5, (4,)), torch.rand(4, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: cross_entropy(x, target, label_smoothing, weights), (logits,)
    )


def test_smoothing_is_least_at_the_smoothed_answer() -> None:
    target = torch.tensor([2])
    best = torch.full((1, 4), 0.1 / 4, dtype=torch.float64)
    best[0, 2] += 0.9
    least = cross_entropy(best.log(), target, 0.1)
    for _ in range(50):
        other = best.log() + 0.1 * torch.randn(1, 4, dtype=torch.float64)
        assert cross_entropy(other, target, 0.1) >= least


def test_no_positions_cost_nothing() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert cross_entropy(torch.zeros(0, 5), none) == 0
    assert cross_entropy(torch.zeros(0, 5), none, 0.1, torch.zeros(0)) == 0


# --- of numbers and of margins --------------------------------------------------------------------

OF_NUMBERS: dict[str, tuple[Any, Callable[[float, float], float]]] = {
    "absolute_error": (losses.absolute_error, lambda y, t: abs(y - t)),
    "squared_error": (losses.squared_error, lambda y, t: (y - t) ** 2),
    "huber": (
        lambda y, t, w: losses.huber(y, t, w, delta=0.7),
        lambda y, t: (y - t) ** 2 / 2 if abs(y - t) <= 0.7 else 0.7 * (abs(y - t) - 0.35),
    ),
}
OF_MARGINS: dict[str, tuple[Any, Callable[[float], float]]] = {
    "zero_one": (losses.zero_one, lambda m: float(m <= 0)),
    "hinge": (losses.hinge, lambda m: max(0.0, 1 - m)),
    "logistic": (losses.logistic, lambda m: math.log(1 + math.exp(-m))),
    "exponential": (losses.exponential, lambda m: math.exp(-m)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(0, 3)), min_size=1))
def test_losses_of_numbers_are_their_equations(
    name: str, rows: list[tuple[float, float, float]]
) -> None:
    loss, by_hand = OF_NUMBERS[name]
    y, t, w = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    wanted = sum(weight * by_hand(one, other) for one, other, weight in rows)
    assert float(loss(y, t, w)) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    plain = sum(by_hand(one, other) for one, other, _ in rows)
    assert float(loss(y, t, None)) == pytest.approx(plain, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", OF_MARGINS)
@given(st.lists(st.tuples(st.floats(-30, 30), st.floats(0, 3)), min_size=1))
def test_losses_of_margins_are_their_equations(name: str, rows: list[tuple[float, float]]) -> None:
    loss, by_hand = OF_MARGINS[name]
    m, w = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    wanted = sum(weight * by_hand(margin) for margin, weight in rows)
    assert float(loss(m, w)) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_the_others_stand_in_for_zero_one() -> None:
    margins = torch.linspace(-5, 5, 101, dtype=torch.float64)
    wrong = (margins <= 0).double()
    for name, scale in (("hinge", 1.0), ("exponential", 1.0), ("logistic", 1 / math.log(2))):
        each = torch.stack([OF_MARGINS[name][0](m[None]) for m in margins])
        assert (scale * each >= wrong - 1e-12).all()  # it is never below


def test_gradients_of_numbers_and_margins() -> None:
    y = torch.randn(6, dtype=torch.float64, requires_grad=True)
    t, w = torch.randn(6, dtype=torch.float64), torch.rand(6, dtype=torch.float64)
    for loss, _ in OF_NUMBERS.values():
        assert torch.autograd.gradcheck(lambda x, loss=loss: loss(x, t, w), (y,))
    for name in ("hinge", "logistic", "exponential"):
        assert torch.autograd.gradcheck(lambda x, f=OF_MARGINS[name][0]: f(x, w), (y,))
    at_zero = torch.zeros(1, requires_grad=True)
    assert torch.autograd.grad(losses.absolute_error(at_zero, torch.zeros(1)), at_zero)[0] == 0
    at_one = torch.ones(1, requires_grad=True)
    assert torch.autograd.grad(losses.hinge(at_one), at_one)[0] == 0


@settings(max_examples=30)
@given(st.integers(1, 9), st.floats(0, 1), seeds)
def test_binary_is_the_cross_entropy_of_two_classes(
    N: int, label_smoothing: float, seed: int
) -> None:
    torch.manual_seed(seed)
    f, y, w = torch.randn(N).double(), torch.randint(2, (N,)), torch.rand(N).double()
    two = torch.stack([torch.zeros_like(f), f], dim=1)
    torch.testing.assert_close(
        losses.binary_cross_entropy(f, y.double(), label_smoothing, w),
        cross_entropy(two, y, label_smoothing, w),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_logits_give_numbers_and_gradients(dtype: torch.dtype) -> None:
    f = torch.tensor([1e4, -1e4, 300.0, -300.0, 0.0], dtype=dtype, requires_grad=True)
    signs = torch.tensor([-1, 1, 1, -1, 1], dtype=dtype)
    found = {name: OF_MARGINS[name][0](f * signs) for name in OF_MARGINS}
    found["binary"] = losses.binary_cross_entropy(f, (signs > 0).to(dtype), 0.1)
    two = torch.stack([torch.zeros_like(f), f], dim=1)
    found["classes"] = cross_entropy(two, (signs > 0).long())
    found["classes, smoothed"] = cross_entropy(two, (signs > 0).long(), 0.1)
    weights = torch.tensor([0, 1, 2, 0.5, 1], dtype=dtype)
    found["classes, weighted"] = cross_entropy(two, (signs > 0).long(), 0.0, weights)
    for loss in (losses.absolute_error, losses.squared_error, losses.huber):
        found[loss.__name__] = loss(f, signs, weights)
    for name, loss in found.items():
        assert loss.detach().isfinite(), name
        if name != "zero_one":
            assert torch.autograd.grad(loss, f, retain_graph=True)[0].isfinite().all(), name
    assert int(found["zero_one"]) == 3
    # wrong by 1e4, twice, and by 300: what a probability costs is as large, and not cut off
    near = {"rel": 1e-2 if dtype == torch.bfloat16 else 1e-6}
    wrong = float((-f * signs).detach().double().clamp(min=0).sum()) + math.log(2)
    for name in ("logistic", "classes"):
        assert found[name].item() == pytest.approx(wrong, **near), name


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(2, 5), seeds)
def test_the_frameworks_own_say_the_same(N: int, V: int, seed: int) -> None:
    torch.manual_seed(seed)
    y, t, signs = torch.randn(N).double(), torch.randn(N).double(), torch.randint(2, (N,)) * 2 - 1
    logits, right = torch.randn(N, V).double(), torch.randint(V, (N,))
    pairs = [
        (losses.absolute_error(y, t), F.l1_loss(y, t, reduction="sum")),
        (losses.squared_error(y, t), F.mse_loss(y, t, reduction="sum")),
        (losses.huber(y, t), F.smooth_l1_loss(y, t, reduction="sum")),  # the same where δ is 1
        (losses.logistic(signs * y), F.soft_margin_loss(y, signs.double(), reduction="sum")),
        (losses.hinge(y), F.hinge_embedding_loss(y, -torch.ones(N), reduction="sum")),
        (
            losses.binary_cross_entropy(y, (signs > 0).double()),
            F.binary_cross_entropy(y.sigmoid(), (signs > 0).double(), reduction="sum"),
        ),
        (cross_entropy(logits, right), F.nll_loss(logits.log_softmax(1), right, reduction="sum")),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs)


def test_the_exponential_loss_goes_on_straight_where_it_is_steepest() -> None:
    m = torch.tensor([-49.999, -50.0, -50.001, -60.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(losses.exponential(m), m)
    assert slope[1:].tolist() == pytest.approx([-math.exp(50)] * 3)
    m = m.detach()
    assert float(losses.exponential(m[3:])) == pytest.approx(11 * math.exp(50))
    assert float(losses.exponential(m[:1])) == pytest.approx(math.exp(49.999))


def test_risk_shows_both_its_terms() -> None:
    weights = [torch.tensor([3.0, -4.0]), torch.tensor([[1.0]])]
    ridge, lasso = losses.weight_penalty(weights, 0.2), losses.weight_penalty(weights, 0.2, power=1)
    assert float(ridge) == pytest.approx(0.2 / 2 * 26) and float(lasso) == pytest.approx(0.2 * 8)
    risk = losses.Risk(torch.tensor(1.5), ridge)
    assert float(risk.structural) == pytest.approx(1.5 + 2.6)
    with pytest.raises(ValueError, match="of the power 3 was asked for; wanted 1 or 2"):
        losses.weight_penalty(weights, 1.0, power=3)
