import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn import cross_entropy

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
