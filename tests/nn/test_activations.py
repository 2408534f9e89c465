"""Activations, held against the framework's and against differences."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from saccade.nn import activations
from saccade.nn.activations import gelu


@pytest.fixture(autouse=True, params=[True, False], ids=["framework", "own"])
def quick_tanh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways, whichever this processor would take."""
    monkeypatch.setattr(activations, "HAS_QUICK_TANH", request.param)


def test_gelu_is_the_papers_approximation_learning_or_not() -> None:
    x = torch.linspace(-30, 30, 1201, dtype=torch.float64)
    by_hand = torch.tensor(
        [
            z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
            for z in x.tolist()
        ],
        dtype=torch.float64,
    )
    assert torch.allclose(gelu(x), by_hand, atol=1e-12)
    assert torch.allclose(gelu(x.clone().requires_grad_()), by_hand, atol=1e-12)


@pytest.mark.parametrize("held", [1, 5, 1 << 18])
def test_gelu_has_the_gradient_of_differences(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "HELD", held)
    x = 3 * torch.randn(4, 6, dtype=torch.float64)
    assert torch.autograd.gradcheck(gelu, x.requires_grad_())
    assert torch.autograd.gradcheck(gelu, x.detach().t().requires_grad_())  # not contiguous


def test_gelu_in_single_precision_is_the_frameworks_far_out_too() -> None:
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([-1e4, -1e12, 1e4, 1e12, 0.0])])
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    one, other = gelu(ours), F.gelu(theirs, approximate="tanh")
    assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)
    found = torch.autograd.grad(one.sum(), ours)[0]
    assert torch.allclose(found[:-5], torch.autograd.grad(other.sum(), theirs)[0][:-5], atol=1e-5)
    assert found[-5:].tolist() == [0, 0, 1, 1, 0.5]


def test_gelu_under_autocast_keeps_the_format() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = nn.Linear(3, 5)(torch.randn(2, 3))
        assert gelu(x).dtype == torch.bfloat16
