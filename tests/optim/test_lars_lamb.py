"""LARS and LAMB, compared step by step with their equations in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from saccade.optim import LAMB, LARS

STEPS = 50


def model() -> nn.Module:
    """Two layers, one of which is initialised to zero."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()
    nn.init.zeros_(net[1].weight)
    return net


def gradients(net: nn.Module, step: int) -> list[torch.Tensor]:
    """Random gradients; None for the first layer in some steps."""
    generator = torch.Generator().manual_seed(step)
    found = [
        torch.randn(p.shape, generator=generator, dtype=torch.float64) * 10 ** (step % 3)
        for p in net.parameters()
    ]
    if step % 7 == 0:
        found[0] = torch.zeros_like(found[0])
    return found


def assert_steps_equal(net: nn.Module, optimizer: torch.optim.Optimizer, by_hand: Any) -> None:
    """Compare fifty steps, each with a different learning rate."""
    expected = [p.detach().numpy().copy() for p in net.parameters()]
    kept: list[dict[str, Any]] = [{} for _ in expected]
    for step in range(1, STEPS + 1):
        rate = 0.1 / step**0.5
        for group in optimizer.param_groups:
            group["lr"] = rate
        given = gradients(net, step)
        for parameter, gradient in zip(net.parameters(), given, strict=True):
            parameter.grad = gradient
        optimizer.step()
        for index, gradient in enumerate(given):
            expected[index] = by_hand(expected[index], gradient.numpy(), kept[index], rate, step)
        for parameter, values in zip(net.parameters(), expected, strict=True):
            np.testing.assert_allclose(parameter.detach().numpy(), values, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lars_equals_its_equation(decay: float) -> None:
    def by_hand(w: Any, g: Any, kept: dict[str, Any], rate: float, step: int) -> Any:
        size, slope = np.sqrt((w**2).sum()), np.sqrt((g**2).sum())
        local = 0.02 * size / (slope + decay * size) if size > 0 and slope > 0 else 1.0
        kept["v"] = 0.8 * kept.get("v", 0.0) + rate * local * (g + decay * w)
        return w - kept["v"]

    net = model()
    optimizer = LARS(
        net.parameters(), 1.0, momentum=0.8, weight_decay=decay, trust_coefficient=0.02
    )
    assert_steps_equal(net, optimizer, by_hand)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clamp", [None, 0.5, 10.0])
def test_lamb_equals_its_equation(decay: float, clamp: float | None) -> None:
    def by_hand(w: Any, g: Any, kept: dict[str, Any], rate: float, step: int) -> Any:
        kept["m"] = 0.9 * kept.get("m", 0.0) + 0.1 * g
        kept["v"] = 0.99 * kept.get("v", 0.0) + 0.01 * g**2
        mean, square = kept["m"] / (1 - 0.9**step), kept["v"] / (1 - 0.99**step)
        move = mean / (np.sqrt(square) + 1e-6) + decay * w
        size, length = np.sqrt((w**2).sum()), np.sqrt((move**2).sum())
        held = size if clamp is None else min(size, clamp)
        ratio = held / length if size > 0 and length > 0 else 1.0
        return w - rate * ratio * move

    net = model()
    optimizer = LAMB(net.parameters(), 1.0, betas=(0.9, 0.99), weight_decay=decay, clamp=clamp)
    assert_steps_equal(net, optimizer, by_hand)


def test_lamb_without_trust_ratio_equals_adam() -> None:
    one, other = model(), model()
    ours = LAMB([{"params": list(one.parameters()), "use_trust_ratio": False}], 0.05, eps=1e-8)
    theirs = torch.optim.Adam(other.parameters(), 0.05)
    for step in range(1, STEPS + 1):
        for net in (one, other):
            for parameter, gradient in zip(net.parameters(), gradients(net, step), strict=True):
                parameter.grad = gradient
        ours.step()
        theirs.step()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [LARS, LAMB])
def test_lars_and_lamb_resume_bit_exactly_from_their_state(kind: Any) -> None:
    def steps(net: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> None:
        for step in numbers:
            for parameter, gradient in zip(net.parameters(), gradients(net, step), strict=True):
                parameter.grad = gradient
            optimizer.step()

    whole, cut = model(), model()
    uninterrupted, before = kind(whole.parameters(), 0.05), kind(cut.parameters(), 0.05)
    steps(whole, uninterrupted, range(1, 9))
    steps(cut, before, range(1, 5))
    after = kind(cut.parameters(), 0.05)
    after.load_state_dict(before.state_dict())
    steps(cut, after, range(5, 9))
    for a, b in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", [LARS, LAMB])
def test_lars_and_lamb_skip_weights_without_a_gradient(kind: Any) -> None:
    net = model()
    before = [p.detach().clone() for p in net.parameters()]
    kind(net.parameters(), 0.1).step()
    net[0].weight.grad = torch.ones_like(net[0].weight)
    kind(net.parameters(), 0.1).step(lambda: 1.0)
    assert not torch.equal(net[0].weight, before[0])
    for parameter, stays in zip(list(net.parameters())[1:], before[1:], strict=True):
        assert torch.equal(parameter, stays)
