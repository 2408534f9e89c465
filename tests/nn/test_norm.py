"""Norms against loops from their equations, and what a row may depend on."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from saccade.nn import NORMS, BatchNorm, RMSNorm

EPSILON = 1e-5
KINDS = {"batch": BatchNorm, "layer": nn.LayerNorm, "rms": RMSNorm}


def made(name: str, width: int) -> nn.Module:
    """Return a norm with random γ and β."""
    norm = KINDS[name](width).double()
    for parameter in norm.parameters():
        nn.init.normal_(parameter, 1.0, 0.5)
    return norm


def slowly(name: str, norm: nn.Module, rows: list[list[float]]) -> list[list[float]]:
    """γ (x - μ) / √(σ² + ε) + β, number by number."""
    gamma = norm.weight.tolist()
    beta = [0.0] * len(gamma) if name == "rms" else norm.bias.tolist()
    found = []
    for row in rows:
        new = []
        for d, x in enumerate(row):
            group = [other[d] for other in rows] if name == "batch" else row
            mean = 0.0 if name == "rms" else sum(group) / len(group)
            variance = sum((other - mean) ** 2 for other in group) / len(group)
            new.append(gamma[d] * (x - mean) / math.sqrt(variance + EPSILON) + beta[d])
        found.append(new)
    return found


@pytest.mark.parametrize("name", KINDS)
@given(rows=st.integers(2, 6), width=st.integers(1, 5), seed=st.integers(0, 2**31))
def test_norms_match_equations(name: str, rows: int, width: int, seed: int) -> None:
    torch.manual_seed(seed)
    norm, x = made(name, width), 3 * torch.randn(rows, width, dtype=torch.float64) + 1
    expected = torch.tensor(slowly(name, norm, x.tolist()), dtype=torch.float64)
    torch.testing.assert_close(norm(x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_norms_accept_several_leading_axes(name: str) -> None:
    norm, x = made(name, 4), torch.randn(2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(norm(x), norm(x.view(6, 4)).view(2, 3, 4))
    turned = torch.randn(3, 2, 4, dtype=torch.float64).transpose(0, 1)
    torch.testing.assert_close(norm(turned), norm(turned.contiguous()))


@pytest.mark.parametrize("name", KINDS)
def test_norms_gradcheck(name: str) -> None:
    norm, x = made(name, 3), torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)

    def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        own = dict(zip(dict(norm.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(norm, own, (x,))

    assert torch.autograd.gradcheck(run, (x, *norm.parameters()))


# --- invariance: what a row depends on ------------------------------------------------------------


@pytest.mark.parametrize("learning", [True, False], ids=["learning", "evaluated"])
@pytest.mark.parametrize("name", KINDS)
@given(rows=st.integers(2, 6), width=st.integers(2, 5), seed=st.integers(0, 2**31))
def test_norms_depend_on_batch_only_in_batch_norm_training(
    name: str, learning: bool, rows: int, width: int, seed: int
) -> None:
    torch.manual_seed(seed)
    norm, x = made(name, width).train(learning), torch.randn(rows, width, dtype=torch.float64)
    other = x.clone()
    other[1:] = 2 * torch.randn(rows - 1, width, dtype=torch.float64) + 1
    same = torch.allclose(norm(x)[0], norm(other)[0], rtol=1e-9, atol=1e-12)
    assert same == (name != "batch" or not learning)


def test_batch_norm_running_averages_follow_momentum() -> None:
    norm = BatchNorm(2).double()
    mean, variance = [0.0, 0.0], [1.0, 1.0]
    for _ in range(4):
        x = 2 * torch.randn(5, 3, 2, dtype=torch.float64) - 1
        norm(x)
        for d in range(2):
            column = x[..., d].flatten().tolist()
            average = sum(column) / 15
            mean[d] = 0.9 * mean[d] + 0.1 * average
            spread = sum((value - average) ** 2 for value in column) / 14
            variance[d] = 0.9 * variance[d] + 0.1 * spread
    torch.testing.assert_close(norm.running_mean, torch.tensor(mean, dtype=torch.float64))
    torch.testing.assert_close(norm.running_var, torch.tensor(variance, dtype=torch.float64))
    one = torch.tensor([[3.0, -2.0]], dtype=torch.float64)
    expected = [
        (x - m) / math.sqrt(s + EPSILON) for x, m, s in zip([3, -2], mean, variance, strict=True)
    ]
    found = norm.eval()(one)  # one row is enough
    torch.testing.assert_close(found, torch.tensor([expected], dtype=torch.float64))


def test_batch_norm_evaluation_does_not_change_state() -> None:
    norm = BatchNorm(3).eval()
    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    norm(torch.randn(4, 3))
    assert all(torch.equal(before[name], tensor) for name, tensor in norm.state_dict().items())


@given(st.floats(0.01, 100), st.integers(0, 2**31))
def test_norms_are_invariant_to_input_scale(scale: float, seed: int) -> None:
    """Check norm(a W x) = norm(W x)."""
    torch.manual_seed(seed)
    x = torch.randn(6, 8, dtype=torch.float64)
    for kind in KINDS.values():
        norm = kind(8, eps=1e-30).double()
        torch.testing.assert_close(norm(scale * x), norm(x))


def test_batch_norm_refuses_one_row_in_training() -> None:
    with pytest.raises(
        ValueError, match="got 1 row in training.*expected 2 or more; try another norm"
    ):
        BatchNorm(3)(torch.randn(1, 3))


def test_norms_registry() -> None:
    assert set(NORMS) == {*KINDS, "none"}
    x = torch.randn(4, 6)
    assert all(NORMS[name](6)(x).shape == x.shape for name in NORMS)
    assert NORMS["none"](6)(x) is x


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(0, 2**31))
def test_batch_norm_statistics_are_those_of_the_real_positions(
    lengths: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    norm = BatchNorm(3).double()
    x = torch.randn(len(lengths), 5, 3, dtype=torch.float64)
    real = torch.arange(5) < torch.tensor(lengths)[:, None]
    got = norm(x, real).detach()
    rows = [x[b, t].tolist() for b, length in enumerate(lengths) for t in range(length)]
    for feature in range(3):
        column = [row[feature] for row in rows]
        mean = sum(column) / len(column)
        variance = sum((value - mean) ** 2 for value in column) / len(column)
        for b, length in enumerate(lengths):
            for t in range(5):
                expected = (float(x[b, t, feature]) - mean) / (variance + norm.eps) ** 0.5
                expected = expected if t < length else 0.0
                assert float(got[b, t, feature]) == pytest.approx(expected, abs=1e-9)
        running = 0.9 + 0.1 * variance * len(column) / (len(column) - 1)
        assert norm.running_var is not None and norm.running_mean is not None
        assert float(norm.running_var[feature]) == pytest.approx(running, abs=1e-9)
        assert float(norm.running_mean[feature]) == pytest.approx(0.1 * mean, abs=1e-9)
    norm.eval()
    torch.testing.assert_close(norm(x, real), norm(x))  # running averages: no row matters
