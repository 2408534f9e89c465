import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.profiler import profile

from saccade.nn import Words, cross_entropy, losses, word_loss

seeds = st.integers(0, 2**31)


def by_loops(logits: Tensor, target: Tensor, smoothing: float, weights: list[float]) -> float:
    total = 0.0
    for row, right, weight in zip(logits.tolist(), target.tolist(), weights, strict=True):
        norm = math.log(sum(math.exp(value) for value in row))
        for v, value in enumerate(row):
            q = (1 - smoothing) * (v == right) + smoothing / len(row)
            total += weight * -q * (value - norm)
    return total


@settings(max_examples=50)
@given(st.integers(1, 7), st.integers(1, 6), st.floats(0, 1), st.booleans(), seeds)
def test_it_is_its_equation(N: int, V: int, smoothing: float, weighted: bool, seed: int) -> None:
    torch.manual_seed(seed)
    logits, target = 3 * torch.randn(N, V, dtype=torch.float64), torch.randint(V, (N,))
    weights = torch.rand(N, dtype=torch.float64) if weighted else None
    plain = [1.0] * N if weights is None else weights.tolist()
    got = cross_entropy(logits, target, smoothing, weights)
    assert float(got) == pytest.approx(by_loops(logits, target, smoothing, plain), rel=1e-9)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(2, 6), st.floats(0, 0.5), seeds)
def test_it_is_the_frameworks_mean_times_how_many(
    N: int, V: int, smoothing: float, seed: int
) -> None:
    torch.manual_seed(seed)
    logits, target = torch.randn(N, V, dtype=torch.float64), torch.randint(V, (N,))
    mean = F.cross_entropy(logits, target, label_smoothing=smoothing)
    torch.testing.assert_close(cross_entropy(logits, target, smoothing), mean * N)
    ones = torch.ones(N, dtype=torch.float64)
    torch.testing.assert_close(cross_entropy(logits, target, smoothing, ones), mean * N)


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


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients(smoothing: float) -> None:
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    target, weights = torch.randint(5, (4,)), torch.rand(4, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: cross_entropy(x, target, smoothing, weights), (logits,)
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


# --- without holding all logits -------------------------------------------------------------------


def drawn(N: int, D: int, V: int, biased: bool, weighted: bool, seed: int) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    hidden = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    rows = torch.randn(V, D, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(V, dtype=torch.float64, requires_grad=True) if biased else None
    weights = torch.rand(N, dtype=torch.float64) if weighted else None
    return hidden, rows, bias, torch.randint(V, (N,)), weights


@settings(deadline=None)
@given(
    st.integers(1, 9),
    st.integers(2, 7),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.1, 0.7]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_a_few_rows_at_a_time_give_the_loss_and_gradients_of_all_at_once(
    N: int, V: int, held: int, smoothing: float, biased: bool, weighted: bool, seed: int
) -> None:
    hidden, rows, bias, target, weights = drawn(N, 3, V, biased, weighted, seed)
    asked = [tensor for tensor in (hidden, rows, bias) if tensor is not None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "HELD", held)
        got = word_loss(hidden, Words(rows, bias), target, smoothing, weights)
        got_grads = torch.autograd.grad(3 * got.total, asked)
    logits = Words(rows, bias).logits(hidden)
    wanted = cross_entropy(logits, target, smoothing, weights)
    torch.testing.assert_close(got.total, wanted)
    for mine, theirs in zip(got_grads, torch.autograd.grad(3 * wanted, asked), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert int(got.correct) == int((logits.argmax(1) == target).sum())


def test_its_gradients_are_those_of_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "HELD", 10)
    hidden, rows, bias, target, weights = drawn(5, 3, 4, True, True, 0)
    assert torch.autograd.gradcheck(
        lambda h, r, b: word_loss(h, Words(r, b), target, 0.1, weights).total, (hidden, rows, bias)
    )


def test_the_gradient_may_be_asked_for_twice() -> None:
    hidden, rows, _, target, _ = drawn(4, 3, 5, False, False, 1)
    total = word_loss(hidden, Words(rows), target).total
    first = torch.autograd.grad(total, hidden, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(total, hidden)[0])


def test_nothing_is_lost_at_extreme_logits() -> None:
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    total, correct = word_loss(hidden, Words(torch.tensor([[1.0], [-1.0]])), torch.tensor([0, 0]))
    assert (total.item(), correct.item()) == (2e4, 1)
    total.backward()
    assert hidden.grad is not None
    assert hidden.grad.flatten().tolist() == [0.0, -2.0]


def test_under_autocast_the_products_are_rounded_and_the_sums_are_not() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(64, 16, requires_grad=True)
    rows = torch.randn(50, 16, requires_grad=True)
    target = torch.randint(50, (64,))
    exact = word_loss(hidden, Words(rows), target, 0.1).total
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = word_loss(hidden, Words(rows), target, 0.1).total
    assert rounded.dtype == torch.float32
    assert rounded != exact
    torch.testing.assert_close(rounded, exact, rtol=1e-2, atol=0)
    for mine, theirs in zip(
        torch.autograd.grad(rounded, (hidden, rows)),
        torch.autograd.grad(exact, (hidden, rows)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.1)


def test_it_never_holds_all_logits() -> None:
    """Of 4,000 × 20,000 logits, which are 320 MB, 16 MB are there at a time."""
    hidden = torch.randn(4000, 4, requires_grad=True)
    rows = torch.randn(20_000, 4, requires_grad=True)
    target = torch.randint(20_000, (4000,))
    with profile(profile_memory=True) as seen:
        word_loss(hidden, Words(rows), target, 0.1).total.backward()
    largest = max(event.self_cpu_memory_usage for event in seen.events())
    assert 4 * losses.HELD / 2 < largest <= 2 * 4 * losses.HELD


def test_no_rows_at_all_lose_nothing() -> None:
    none = torch.zeros(0, dtype=torch.long)
    total, correct = word_loss(torch.zeros(0, 3), Words(torch.randn(5, 3)), none, 0.1)
    assert (total.item(), correct.item()) == (0, 0)
