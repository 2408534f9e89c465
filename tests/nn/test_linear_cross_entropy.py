"""Linear cross-entropy in chunks against the reference."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import profile

from saccade.nn import OutputLayer, cross_entropy, linear_cross_entropy
from saccade.nn.kernels import linear_cross_entropy as kernel_module


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
def test_linear_cross_entropy_matches_reference(
    N: int, V: int, held: int, label_smoothing: float, biased: bool, weighted: bool, seed: int
) -> None:
    hidden, rows, bias, target, weights = drawn(N, 3, V, biased, weighted, seed)
    asked = [tensor for tensor in (hidden, rows, bias) if tensor is not None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_module, "LOGITS_CHUNK", held)
        got = linear_cross_entropy(
            hidden, OutputLayer(rows, bias), target, label_smoothing, weights
        )
        got_grads = torch.autograd.grad(3 * got.total, asked)
    logits = F.linear(hidden, rows, bias)
    expected = cross_entropy(
        logits,
        target,
        label_smoothing=label_smoothing,
        sample_weight=weights,
        reduction="sum",
    )
    torch.testing.assert_close(got.total, expected)
    for mine, theirs in zip(got_grads, torch.autograd.grad(3 * expected, asked), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert int(got.correct) == int((logits.argmax(1) == target).sum())


def test_linear_cross_entropy_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "LOGITS_CHUNK", 10)
    hidden, rows, bias, target, weights = drawn(5, 3, 4, True, True, 0)
    assert torch.autograd.gradcheck(
        lambda h, r, b: linear_cross_entropy(h, OutputLayer(r, b), target, 0.1, weights).total,
        (hidden, rows, bias),
    )


def test_linear_cross_entropy_backward_twice() -> None:
    hidden, rows, _, target, _ = drawn(4, 3, 5, False, False, 1)
    total = linear_cross_entropy(hidden, OutputLayer(rows), target).total
    first = torch.autograd.grad(total, hidden, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(total, hidden)[0])


def test_linear_cross_entropy_is_stable_for_extreme_logits() -> None:
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    total, correct = linear_cross_entropy(
        hidden, OutputLayer(torch.tensor([[1.0], [-1.0]])), torch.tensor([0, 0])
    )
    assert (total.item(), correct.item()) == (2e4, 1)
    total.backward()
    assert hidden.grad is not None
    assert hidden.grad.flatten().tolist() == [0.0, -2.0]


def test_linear_cross_entropy_under_autocast() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(64, 16, requires_grad=True)
    rows = torch.randn(50, 16, requires_grad=True)
    target = torch.randint(50, (64,))
    exact = linear_cross_entropy(hidden, OutputLayer(rows), target, 0.1).total
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = linear_cross_entropy(hidden, OutputLayer(rows), target, 0.1).total
    assert rounded.dtype == torch.float32
    assert rounded != exact
    torch.testing.assert_close(rounded, exact, rtol=1e-2, atol=0)
    for mine, theirs in zip(
        torch.autograd.grad(rounded, (hidden, rows)),
        torch.autograd.grad(exact, (hidden, rows)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.1)


def test_linear_cross_entropy_never_holds_all_logits() -> None:
    """Hold 16 MB of 4,000 × 20,000 logits (320 MB) at a time."""
    hidden = torch.randn(4000, 4, requires_grad=True)
    rows = torch.randn(20_000, 4, requires_grad=True)
    target = torch.randint(20_000, (4000,))
    with profile(profile_memory=True) as seen:
        linear_cross_entropy(hidden, OutputLayer(rows), target, 0.1).total.backward()
    largest = max(event.self_cpu_memory_usage for event in seen.events())
    assert 4 * kernel_module.LOGITS_CHUNK / 2 < largest <= 2 * 4 * kernel_module.LOGITS_CHUNK


def test_linear_cross_entropy_of_no_rows_is_zero() -> None:
    none = torch.zeros(0, dtype=torch.long)
    total, correct = linear_cross_entropy(
        torch.zeros(0, 3), OutputLayer(torch.randn(5, 3)), none, 0.1
    )
    assert (total.item(), correct.item()) == (0, 0)
