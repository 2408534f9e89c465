"""Adam, then SGD: the steps of both by torch, the estimated learning rate, and the state."""

from typing import Any, get_args

import pytest
import torch
from torch import nn

from saccade.errors import ConfigError
from saccade.optim import (
    SWITCHES,
    OptimizerSettings,
    SwitchingOptimizer,
    make_switching_optimizer,
    set_learning_rate,
)
from saccade.types.names import SwitchName

STEPS, SWITCH, DECAY, MOMENTUM, LR = 12, 5, 0.1, 0.8, 0.01
SETTINGS = OptimizerSettings(LR, DECAY, MOMENTUM)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Linear(3, 2).double()


def rate_at(step: int) -> float:
    return LR / step**0.5


def set_gradients(net: nn.Module, step: int) -> None:
    """The gradients of a loss with noise that depends on the step."""
    noise = torch.Generator().manual_seed(step)
    x = torch.randn(8, 3, generator=noise, dtype=torch.float64)
    net.zero_grad()
    (net(x) - x[:, :2]).square().sum().backward()


def train(net: nn.Module, optimizer: SwitchingOptimizer, first: int = 1) -> list[torch.Tensor]:
    weights = []
    for step in range(first, STEPS + 1):
        set_learning_rate(optimizer, rate_at(step))
        set_gradients(net, step)
        optimizer.step()
        weights.append(net.weight.detach().clone())
    return weights


def groups(net: Any, decay: float) -> list[dict[str, Any]]:
    return [
        {"params": [net.weight], "weight_decay": decay},
        {"params": [net.bias], "weight_decay": 0.0},
    ]


def by_hand(net: Any, name: str, factor: float, adam: Any, decay: float) -> list[torch.Tensor]:
    """Train with torch's Adam or AdamW, then with its SGD at `factor` times the rate."""
    options = {"sgd": {}, "momentum": {"momentum": MOMENTUM}, "nesterov": {"momentum": MOMENTUM}}
    later = torch.optim.SGD(groups(net, decay), 1.0, **options[name], nesterov=name == "nesterov")
    weights = []
    for step in range(1, STEPS + 1):
        optimizer = adam if step <= SWITCH else later
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step) * (1 if step <= SWITCH else factor)
        set_gradients(net, step)
        optimizer.step()
        weights.append(net.weight.detach().clone())
    return weights


@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov"])
def test_switched_steps_equal_those_of_two_torch_optimizers(name: str) -> None:
    net, other = network(), network()
    ours = train(net, make_switching_optimizer(("adam", name), SWITCH, net, SETTINGS, 20 * LR))
    adam = torch.optim.Adam(groups(other, DECAY), LR)
    theirs = by_hand(other, name, 20.0, adam, DECAY)
    for one, another in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, another, rtol=1e-10, atol=1e-12)
    assert float((ours[-1] - ours[SWITCH]).abs().max()) > 0.01


@pytest.mark.parametrize(("name", "length"), [("sgd", 1.0), ("momentum", 1 - MOMENTUM)])
def test_decoupled_decay_shrinks_weights_as_before(name: str, length: float) -> None:
    net, other = network(), network()
    ours = train(net, make_switching_optimizer(("adamw", name), SWITCH, net, SETTINGS, 20 * LR))
    adamw = torch.optim.AdamW(groups(other, DECAY), LR, betas=(0.9, 0.98))
    theirs = by_hand(other, name, 20.0, adamw, DECAY * length / 20)
    for one, another in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, another, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SWITCHES)
def test_estimated_learning_rate_equals_the_projection_by_hand(name: str) -> None:
    net, other = network(), network()
    optimizer = make_switching_optimizer(("adam", name), SWITCH, net, SETTINGS)
    adam = torch.optim.Adam(groups(other, DECAY), LR)
    squares = products = 0.0
    for step in range(1, SWITCH + 1):
        set_learning_rate(adam, rate_at(step))
        set_gradients(other, step)
        before = torch.cat([w.detach().flatten() for w in other.parameters()])
        g = torch.cat([w.grad.flatten() for w in other.parameters() if w.grad is not None])
        adam.step()
        p = torch.cat([w.detach().flatten() for w in other.parameters()]) - before
        weight = 0.99 ** (SWITCH - step)
        squares += weight * float(p @ p) / rate_at(step) ** 2
        products += weight * float(-p @ g) / rate_at(step)
    train(net, optimizer)
    length = 1 - MOMENTUM if name in ("momentum", "nesterov") else 1.0
    (group, *_) = optimizer.param_groups
    assert group["lr_factor"] == pytest.approx(squares / products * length, rel=1e-9)
    assert group["lr"] == pytest.approx(rate_at(STEPS) * group["lr_factor"], rel=1e-12)


def test_estimated_step_has_the_step_of_adam_as_its_projection() -> None:
    net = network()
    before = net.weight.detach().clone(), net.bias.detach().clone()
    optimizer = make_switching_optimizer(("adam", "sgd"), 1, net, OptimizerSettings(LR))
    set_gradients(net, 1)
    g = torch.cat([w.grad.flatten() for w in net.parameters() if w.grad is not None])
    optimizer.step()
    pairs = zip(net.parameters(), before, strict=True)
    p = torch.cat([(w.detach() - old).flatten() for w, old in pairs])
    step = -optimizer.param_groups[0]["lr"] * g
    torch.testing.assert_close(p * (step @ p) / (p @ p), p)
    assert optimizer.active is optimizer.second and not optimizer.first.state


def test_factor_is_1_where_the_gradients_are_0() -> None:
    net = network()
    optimizer = make_switching_optimizer(("adam", "sgd"), 1, net, OptimizerSettings(LR))
    for weight in net.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert [group["lr_factor"] for group in optimizer.param_groups] == [1.0, 1.0]


@pytest.mark.parametrize("at", [2, SWITCH, SWITCH + 3])
@pytest.mark.parametrize("name", ["momentum", "sgd"])
def test_state_dict_restores_an_optimizer_at_any_step(name: str, at: int) -> None:
    net = network()
    whole = train(net, make_switching_optimizer(("adamw", name), SWITCH, net, SETTINGS))
    cut = network()
    optimizer = make_switching_optimizer(("adamw", name), SWITCH, cut, SETTINGS)
    for step in range(1, at + 1):
        set_learning_rate(optimizer, rate_at(step))
        set_gradients(cut, step)
        optimizer.step()
    fresh = make_switching_optimizer(("adamw", name), SWITCH, cut, SETTINGS)
    fresh.load_state_dict(optimizer.state_dict())
    assert fresh.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    assert all(
        torch.equal(one, other)
        for one, other in zip(train(cut, fresh, at + 1), whole[at:], strict=True)
    )


def test_switches_are_the_names_of_the_setting() -> None:
    assert set(SWITCHES) == set(get_args(SwitchName))
    with pytest.raises(ConfigError, match="no optimizer to switch to 'sdg'. Did you mean 'sgd'"):
        make_switching_optimizer(("adam", "sdg"), 3, network(), SETTINGS)
