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


def summed_cross_entropy(
    logits: Tensor,
    target: Tensor,
    label_smoothing: float = 0.0,
    sample_weight: Tensor | None = None,
) -> Tensor:
    return cross_entropy(
        logits,
        target,
        label_smoothing=label_smoothing,
        sample_weight=sample_weight,
        reduction="sum",
    )


def summed(loss: Callable[..., Tensor], inputs: int, **options: float) -> Callable[..., Tensor]:
    """Return a loss that takes the weights after its inputs and is summed."""

    def call(*arguments: Tensor | None) -> Tensor:
        weights = arguments[inputs] if len(arguments) > inputs else None
        return loss(*arguments[:inputs], reduction="sum", sample_weight=weights, **options)

    return call


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
def test_cross_entropy_matches_equation(
    N: int, V: int, label_smoothing: float, weighted: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    logits, target = 3 * torch.randn(N, V, dtype=torch.float64), torch.randint(V, (N,))
    weights = torch.rand(N, dtype=torch.float64) if weighted else None
    plain = [1.0] * N if weights is None else weights.tolist()
    got = summed_cross_entropy(logits, target, label_smoothing, weights)
    assert float(got) == pytest.approx(by_loops(logits, target, label_smoothing, plain), rel=1e-9)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(2, 6), st.floats(0, 0.5), seeds)
def test_cross_entropy_sum_is_torch_mean_times_count(
    N: int, V: int, label_smoothing: float, seed: int
) -> None:
    torch.manual_seed(seed)
    logits, target = torch.randn(N, V, dtype=torch.float64), torch.randint(V, (N,))
    mean = F.cross_entropy(logits, target, label_smoothing=label_smoothing)
    torch.testing.assert_close(summed_cross_entropy(logits, target, label_smoothing), mean * N)
    ones = torch.ones(N, dtype=torch.float64)
    torch.testing.assert_close(
        summed_cross_entropy(logits, target, label_smoothing, ones), mean * N
    )


@settings(max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.booleans(), seeds)
def test_cross_entropy_of_parts_adds_up(sizes: list[int], weighted: bool, seed: int) -> None:
    torch.manual_seed(seed)
    N = sum(sizes)
    logits = torch.randn(N, 5, dtype=torch.float64, requires_grad=True)
    target = torch.randint(5, (N,))
    weights = torch.rand(N, dtype=torch.float64) if weighted else None
    whole = summed_cross_entropy(logits, target, 0.1, weights)
    parts = torch.zeros((), dtype=torch.float64)
    start = 0
    for size in sizes:
        cut = slice(start, start + size)
        share = None if weights is None else weights[cut]
        parts = parts + summed_cross_entropy(logits[cut], target[cut], 0.1, share)
        start += size
    torch.testing.assert_close(parts, whole)
    one, other = (torch.autograd.grad(loss, logits)[0] for loss in (whole, parts))
    torch.testing.assert_close(one, other)


def test_cross_entropy_gradient_is_softmax_minus_onehot() -> None:
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    target, weights = torch.randint(5, (4,)), torch.rand(4, dtype=torch.float64)
    (grad,) = torch.autograd.grad(
        summed_cross_entropy(logits, target, sample_weight=weights), logits
    )
    expected = (logits.softmax(-1) - F.one_hot(target, 5)) * weights[:, None]
    torch.testing.assert_close(grad, expected.detach())


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_cross_entropy_gradcheck(label_smoothing: float) -> None:
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    target, weights = torch.randint(5, (4,)), torch.rand(4, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: summed_cross_entropy(x, target, label_smoothing, weights), (logits,)
    )


def test_cross_entropy_is_minimal_at_smoothed_target() -> None:
    target = torch.tensor([2])
    best = torch.full((1, 4), 0.1 / 4, dtype=torch.float64)
    best[0, 2] += 0.9
    minimum = summed_cross_entropy(best.log(), target, 0.1)
    for _ in range(50):
        other = best.log() + 0.1 * torch.randn(1, 4, dtype=torch.float64)
        assert summed_cross_entropy(other, target, 0.1) >= minimum


def test_cross_entropy_of_no_rows_is_zero() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert summed_cross_entropy(torch.zeros(0, 5), none) == 0
    assert summed_cross_entropy(torch.zeros(0, 5), none, 0.1, torch.zeros(0)) == 0


# --- of numbers and of margins --------------------------------------------------------------------

OF_NUMBERS: dict[str, tuple[Any, Callable[[float, float], float]]] = {
    "absolute_error": (summed(losses.l1_loss, 2), lambda y, t: abs(y - t)),
    "squared_error": (summed(losses.mse_loss, 2), lambda y, t: (y - t) ** 2),
    "huber": (
        summed(losses.huber_loss, 2, delta=0.7),
        lambda y, t: (y - t) ** 2 / 2 if abs(y - t) <= 0.7 else 0.7 * (abs(y - t) - 0.35),
    ),
}
OF_MARGINS: dict[str, tuple[Any, Callable[[float], float]]] = {
    "zero_one": (summed(losses.zero_one_loss, 1), lambda m: float(m <= 0)),
    "hinge": (summed(losses.hinge_loss, 1), lambda m: max(0.0, 1 - m)),
    "logistic": (summed(losses.logistic_loss, 1), lambda m: math.log(1 + math.exp(-m))),
    "exponential": (summed(losses.exponential_loss, 1), lambda m: math.exp(-m)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(0, 3)), min_size=1))
def test_regression_losses_match_equations(
    name: str, rows: list[tuple[float, float, float]]
) -> None:
    loss, by_hand = OF_NUMBERS[name]
    y, t, w = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    expected = sum(weight * by_hand(one, other) for one, other, weight in rows)
    assert float(loss(y, t, w)) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    plain = sum(by_hand(one, other) for one, other, _ in rows)
    assert float(loss(y, t, None)) == pytest.approx(plain, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", OF_MARGINS)
@given(st.lists(st.tuples(st.floats(-30, 30), st.floats(0, 3)), min_size=1))
def test_margin_losses_match_equations(name: str, rows: list[tuple[float, float]]) -> None:
    loss, by_hand = OF_MARGINS[name]
    m, w = (torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))
    expected = sum(weight * by_hand(margin) for margin, weight in rows)
    assert float(loss(m, w)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_margin_losses_bound_zero_one_loss() -> None:
    margins = torch.linspace(-5, 5, 101, dtype=torch.float64)
    wrong = (margins <= 0).double()
    for name, scale in (("hinge", 1.0), ("exponential", 1.0), ("logistic", 1 / math.log(2))):
        each = torch.stack([OF_MARGINS[name][0](m[None]) for m in margins])
        assert (scale * each >= wrong - 1e-12).all()  # it is never below


def test_regression_and_margin_losses_gradcheck() -> None:
    y = torch.randn(6, dtype=torch.float64, requires_grad=True)
    t, w = torch.randn(6, dtype=torch.float64), torch.rand(6, dtype=torch.float64)
    for loss, _ in OF_NUMBERS.values():
        assert torch.autograd.gradcheck(lambda x, loss=loss: loss(x, t, w), (y,))
    for name in ("hinge", "logistic", "exponential"):
        assert torch.autograd.gradcheck(lambda x, f=OF_MARGINS[name][0]: f(x, w), (y,))
    at_zero = torch.zeros(1, requires_grad=True)
    assert torch.autograd.grad(losses.l1_loss(at_zero, torch.zeros(1)), at_zero)[0] == 0
    at_one = torch.ones(1, requires_grad=True)
    assert torch.autograd.grad(losses.hinge_loss(at_one), at_one)[0] == 0


@settings(max_examples=30)
@given(st.integers(1, 9), st.floats(0, 1), seeds)
def test_binary_cross_entropy_matches_cross_entropy_of_two_classes(
    N: int, label_smoothing: float, seed: int
) -> None:
    torch.manual_seed(seed)
    f, y, w = torch.randn(N).double(), torch.randint(2, (N,)), torch.rand(N).double()
    two = torch.stack([torch.zeros_like(f), f], dim=1)
    torch.testing.assert_close(
        losses.binary_cross_entropy_with_logits(
            f, y.double(), label_smoothing=label_smoothing, sample_weight=w, reduction="sum"
        ),
        summed_cross_entropy(two, y, label_smoothing, w),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_are_finite_for_extreme_logits(dtype: torch.dtype) -> None:
    f = torch.tensor([1e4, -1e4, 300.0, -300.0, 0.0], dtype=dtype, requires_grad=True)
    signs = torch.tensor([-1, 1, 1, -1, 1], dtype=dtype)
    found = {name: OF_MARGINS[name][0](f * signs) for name in OF_MARGINS}
    found["binary"] = losses.binary_cross_entropy_with_logits(
        f, (signs > 0).to(dtype), label_smoothing=0.1, reduction="sum"
    )
    two = torch.stack([torch.zeros_like(f), f], dim=1)
    found["classes"] = summed_cross_entropy(two, (signs > 0).long())
    found["classes, smoothed"] = summed_cross_entropy(two, (signs > 0).long(), 0.1)
    weights = torch.tensor([0, 1, 2, 0.5, 1], dtype=dtype)
    found["classes, weighted"] = summed_cross_entropy(two, (signs > 0).long(), 0.0, weights)
    for loss in (losses.l1_loss, losses.mse_loss, losses.huber_loss):
        found[loss.__name__] = loss(f, signs, reduction="sum", sample_weight=weights)
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
def test_losses_match_torch_for_every_reduction(N: int, V: int, seed: int) -> None:
    torch.manual_seed(seed)
    y, t, signs = torch.randn(N).double(), torch.randn(N).double(), torch.randint(2, (N,)) * 2 - 1
    logits, right = torch.randn(N, V).double(), torch.randint(V, (N,))
    for reduction in ("mean", "sum", "none"):
        how: Any = {"reduction": reduction}
        pairs = [
            (losses.l1_loss(y, t, **how), F.l1_loss(y, t, **how)),
            (losses.mse_loss(y, t, **how), F.mse_loss(y, t, **how)),
            (losses.huber_loss(y, t, **how), F.smooth_l1_loss(y, t, **how)),  # equal at δ = 1
            (losses.logistic_loss(signs * y, **how), F.soft_margin_loss(y, signs.double(), **how)),
            (losses.hinge_loss(y, **how), F.hinge_embedding_loss(y, -torch.ones(N), **how)),
            (
                losses.binary_cross_entropy_with_logits(y, (signs > 0).double(), **how),
                F.binary_cross_entropy(y.sigmoid(), (signs > 0).double(), **how),
            ),
            (
                cross_entropy(logits, right, **how),
                F.nll_loss(logits.log_softmax(1), right, **how),
            ),
        ]
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(cross_entropy(logits, right), F.cross_entropy(logits, right))
    torch.testing.assert_close(losses.mse_loss(y, t), F.mse_loss(y, t))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_cross_entropy_class_weight_matches_torch_and_sample_weight_matches_repetition(
    label_smoothing: float,
) -> None:
    logits, target = torch.randn(4, 3).double(), torch.tensor([0, 2, 2, 1])
    weight, counts = torch.tensor([0.5, 2.0, 1.0]).double(), torch.tensor([1, 3, 0, 2])
    repeated = logits.repeat_interleave(counts, 0), target.repeat_interleave(counts)
    for reduction in ("mean", "sum"):
        how: Any = {"label_smoothing": label_smoothing, "reduction": reduction}
        torch.testing.assert_close(
            cross_entropy(logits, target, weight=weight, **how),
            F.cross_entropy(logits, target, weight, **how),
        )
        for weights in (None, weight):
            torch.testing.assert_close(
                cross_entropy(logits, target, weight=weights, sample_weight=counts.double(), **how),
                F.cross_entropy(*repeated, weights, **how),
            )


def test_losses_refuse_an_unknown_reduction() -> None:
    # a TypeError where the annotations are checked, as in these tests
    with pytest.raises((ValueError, TypeError), match="reduction"):
        losses.mse_loss(torch.zeros(2), torch.zeros(2), reduction="avg")  # type: ignore[arg-type]


def test_exponential_loss_is_linear_beyond_limit() -> None:
    m = torch.tensor([-49.999, -50.0, -50.001, -60.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(summed(losses.exponential_loss, 1)(m), m)
    assert slope[1:].tolist() == pytest.approx([-math.exp(50)] * 3)
    m = m.detach()
    assert float(losses.exponential_loss(m[3:])) == pytest.approx(11 * math.exp(50))
    assert float(losses.exponential_loss(m[:1])) == pytest.approx(math.exp(49.999))


def test_risk_and_weight_penalty() -> None:
    weights = [torch.tensor([3.0, -4.0]), torch.tensor([[1.0]])]
    ridge, lasso = losses.weight_penalty(weights, 0.2), losses.weight_penalty(weights, 0.2, power=1)
    assert float(ridge) == pytest.approx(0.2 / 2 * 26) and float(lasso) == pytest.approx(0.2 * 8)
    risk = losses.Risk(torch.tensor(1.5), ridge)
    assert float(risk.structural) == pytest.approx(1.5 + 2.6)
    with pytest.raises(ValueError, match="got a penalty of power 3; expected 1"):
        losses.weight_penalty(weights, 1.0, power=3)
