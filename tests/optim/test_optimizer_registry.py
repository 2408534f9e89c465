"""Every registered optimizer, compared step by step with its equation in NumPy and with torch."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from saccade.errors import ConfigError
from saccade.nn.losses import weight_penalty
from saccade.optim import (
    FULL_BATCH,
    OPTIMIZERS,
    OptimizerSettings,
    make_optimizer,
    set_learning_rate,
)

STEPS, DECAY, MOMENTUM, BETA1 = 50, 0.1, 0.8, 0.9
SEARCHING = {"lbfgs", "newton"}  # these ask for the loss: `test_newton`

Kept = dict[str, Any]
ByHand = Callable[[Any, Any, Kept, float, int], Any]


@pytest.fixture(autouse=True)
def in_double() -> Iterator[None]:
    """Keep torch's scalar state (step count, nadam's product) in float64 too."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def gradients(net: nn.Module, step: int) -> list[torch.Tensor]:
    """Random gradients, large and small in turn."""
    generator = torch.Generator().manual_seed(step)
    size = 10.0 ** (step % 3 - 1)
    return [size * torch.randn(p.shape, generator=generator) for p in net.parameters()]


def rate_at(step: int) -> float:
    return 0.05 / step**0.5


def fifty_steps(net: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[int]:
    """Yield fifty steps, each with a different learning rate."""
    for step in range(1, STEPS + 1):
        set_learning_rate(optimizer, rate_at(step))
        for weight, slope in zip(net.parameters(), gradients(net, step), strict=True):
            weight.grad = slope
        optimizer.step()
        yield step


# --- straight from the equations ------------------------------------------------------------------


def plain(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    return w - rate * g


def momentum(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    kept["v"] = MOMENTUM * kept.get("v", 0.0) + g
    return w - rate * kept["v"]


def averaged_momentum(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    kept["v"] = MOMENTUM * kept.get("v", 0.0) + (1 - MOMENTUM) * g
    return w - rate * kept["v"]


def nesterov(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    kept["v"] = MOMENTUM * kept.get("v", 0.0) + g
    return w - rate * (g + MOMENTUM * kept["v"])


def nesterov_lookahead(u: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    """u = w - α m is where the gradient is taken."""
    kept["m"] = MOMENTUM * kept.get("m", 0.0) + (1 - MOMENTUM) * g
    kept["w"] = kept.get("w", u) - rate * kept["m"]
    return kept["w"] - rate * kept["m"]


def nadam_lookahead(u: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    mean, square = moments(g, kept, 0.999, t)
    step = rate * mean / (np.sqrt(square) + 1e-8)
    kept["w"] = kept.get("w", u) - step
    return kept["w"] - step


def adagrad(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    kept["s"] = kept.get("s", 0.0) + g**2
    return w - rate * g / (np.sqrt(kept["s"]) + 1e-10)


def rmsprop(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    kept["s"] = 0.99 * kept.get("s", 0.0) + 0.01 * g**2
    return w - rate * g / (np.sqrt(kept["s"]) + 1e-8)


def adadelta(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    kept["s"] = 0.9 * kept.get("s", 0.0) + 0.1 * g**2
    u = g * np.sqrt(kept.get("d", 0.0) + 1e-6) / np.sqrt(kept["s"] + 1e-6)
    kept["d"] = 0.9 * kept.get("d", 0.0) + 0.1 * u**2
    return w - rate * u


def moments(g: Any, kept: Kept, beta2: float, t: int) -> tuple[Any, Any]:
    kept["m"] = BETA1 * kept.get("m", 0.0) + (1 - BETA1) * g
    kept["s"] = beta2 * kept.get("s", 0.0) + (1 - beta2) * g**2
    return kept["m"] / (1 - BETA1**t), kept["s"] / (1 - beta2**t)


def adam(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    mean, square = moments(g, kept, 0.999, t)
    return w - rate * mean / (np.sqrt(square) + 1e-8)


def nadam(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    _, square = moments(g, kept, 0.999, t)
    now, after = (BETA1 * (1 - 0.96 ** (0.004 * i) / 2) for i in (t, t + 1))
    kept["p"] = kept.get("p", 1.0) * now
    mean = after * kept["m"] / (1 - kept["p"] * after) + (1 - now) * g / (1 - kept["p"])
    return w - rate * mean / (np.sqrt(square) + 1e-8)


def adamw(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    decay = DECAY if w.ndim > 1 else 0.0
    mean, square = moments(g, kept, 0.98, t)
    return w - rate * (mean / (np.sqrt(square) + 1e-8) + decay * w)


def lars(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
    local = 1.0
    if w.ndim > 1:
        size, slope = np.linalg.norm(w), np.linalg.norm(g)
        local = 0.001 * size / (slope + DECAY * size)
        g = g + DECAY * w
    kept["v"] = MOMENTUM * kept.get("v", 0.0) + rate * local * g
    return w - kept["v"]


def lamb(w: Any, g: Any, kept: Kept, rate: float, t: int, clamp: float = 10.0) -> Any:
    mean, square = moments(g, kept, 0.999, t)
    move, ratio = mean / (np.sqrt(square) + 1e-6), 1.0
    if w.ndim > 1:
        move = move + DECAY * w
        ratio = min(np.linalg.norm(w), clamp) / np.linalg.norm(move)
    return w - rate * ratio * move


def penalised(rule: ByHand) -> ByHand:
    """Add the gradient of λ/2 ‖w‖² of matrices."""

    def by_hand(w: Any, g: Any, kept: Kept, rate: float, t: int) -> Any:
        return rule(w, g + DECAY * w if w.ndim > 1 else g, kept, rate, t)

    return by_hand


BY_HAND: dict[str, ByHand] = {
    "adadelta": penalised(adadelta),
    "adagrad": penalised(adagrad),
    "adam": penalised(adam),
    "adamw": adamw,
    "averaged_momentum": penalised(averaged_momentum),
    FULL_BATCH: penalised(plain),
    "lamb": lamb,
    "lamb_unclamped": lambda w, g, kept, rate, t: lamb(w, g, kept, rate, t, clamp=np.inf),
    "lars": lars,
    "momentum": penalised(momentum),
    "nadam": penalised(nadam),
    "nadam_lookahead": penalised(nadam_lookahead),
    "nesterov": penalised(nesterov),
    "nesterov_lookahead": penalised(nesterov_lookahead),
    "rmsprop": penalised(rmsprop),
    "sgd": penalised(plain),
}


def test_every_optimizer_has_an_equation_here() -> None:
    assert BY_HAND.keys() | SEARCHING == OPTIMIZERS.keys()


@pytest.mark.parametrize("name", BY_HAND)
def test_optimizer_steps_equal_the_equation(name: str) -> None:
    net = network()
    if name.startswith("lamb"):
        nn.init.constant_(net[0].weight, 4.0)  # its norm is 13.9: the clamp has something to do
    optimizer = make_optimizer(name, net, OptimizerSettings(0.05, DECAY, MOMENTUM))
    expected = [weight.detach().numpy().copy() for weight in net.parameters()]
    kept: list[Kept] = [{} for _ in expected]
    for step in fifty_steps(net, optimizer):
        for index, gradient in enumerate(gradients(net, step)):
            expected[index] = BY_HAND[name](
                expected[index], gradient.numpy(), kept[index], rate_at(step), step
            )
        for weight, values in zip(net.parameters(), expected, strict=True):
            np.testing.assert_allclose(weight.detach().numpy(), values, rtol=1e-9, atol=1e-12)


# --- torch's own, one tensor at a time ------------------------------------------------------------

ONE_BY_ONE = {"lr": 1.0, "foreach": False}
THEIRS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adadelta": lambda p: torch.optim.Adadelta(p, **ONE_BY_ONE),
    "adagrad": lambda p: torch.optim.Adagrad(p, **ONE_BY_ONE),
    "adam": lambda p: torch.optim.Adam(p, **ONE_BY_ONE),
    "adamw": lambda p: torch.optim.AdamW(p, **ONE_BY_ONE, betas=(BETA1, 0.98)),
    "gradient_descent": lambda p: torch.optim.SGD(p, **ONE_BY_ONE),
    "momentum": lambda p: torch.optim.SGD(p, **ONE_BY_ONE, momentum=MOMENTUM),
    "nadam": lambda p: torch.optim.NAdam(p, **ONE_BY_ONE),
    "nesterov": lambda p: torch.optim.SGD(p, **ONE_BY_ONE, momentum=MOMENTUM, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, **ONE_BY_ONE),
    "sgd": lambda p: torch.optim.SGD(p, **ONE_BY_ONE),
}


def groups_of(net: nn.Module) -> list[dict[str, Any]]:
    """Matrices decay, vectors do not."""
    weights = list(net.parameters())
    return [
        {"params": [w for w in weights if w.dim() > 1], "weight_decay": DECAY},
        {"params": [w for w in weights if w.dim() == 1], "weight_decay": 0.0},
    ]


def assert_same_steps(net: nn.Module, ours: Any, other: nn.Module, theirs: Any) -> None:
    for _ in zip(fifty_steps(net, ours), fifty_steps(other, theirs), strict=True):
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", THEIRS)
def test_optimizer_steps_equal_torch(name: str) -> None:
    net, other = network(), network()
    ours = make_optimizer(name, net, OptimizerSettings(1.0, DECAY, MOMENTUM))
    assert_same_steps(net, ours, other, THEIRS[name](groups_of(other)))


def test_averaged_momentum_equals_momentum_with_a_scaled_learning_rate() -> None:
    net, other = network(), network()
    ours = make_optimizer("averaged_momentum", net, OptimizerSettings(1.0, DECAY, MOMENTUM))
    theirs = torch.optim.SGD(groups_of(other), 1.0, momentum=MOMENTUM)

    def part_of_the_rate() -> Iterator[int]:
        for step in range(1, STEPS + 1):
            set_learning_rate(theirs, (1 - MOMENTUM) * rate_at(step))
            for weight, slope in zip(other.parameters(), gradients(other, step), strict=True):
                weight.grad = slope
            theirs.step()
            yield step

    for _ in zip(fifty_steps(net, ours), part_of_the_rate(), strict=True):
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-13)


def test_torch_dampening_differs_from_averaged_momentum_in_the_first_step() -> None:
    net, other = network(), network()
    before = [w.detach().clone() for w in net.parameters()]
    ours = make_optimizer("averaged_momentum", net, OptimizerSettings(1.0, 0.0, MOMENTUM))
    theirs = torch.optim.SGD(other.parameters(), 1.0, momentum=MOMENTUM, dampening=MOMENTUM)
    next(fifty_steps(net, ours))
    next(fifty_steps(other, theirs))
    for start, a, b in zip(before, net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a - start, (1 - MOMENTUM) * (b - start))


# --- weight decay: penalty or decoupled -----------------------------------------------------------


def trained(net: nn.Module, optimizer: torch.optim.Optimizer, strength: float = 0.0) -> list[Any]:
    """Train ten steps on one batch, with an L2 penalty in the loss if `strength` is not 0."""
    x, y = torch.ones(2, 3), torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    matrices = [weight for weight in net.parameters() if weight.dim() > 1]
    for _ in range(10):
        optimizer.zero_grad()
        loss = (net(x) - y).square().sum()
        (loss + weight_penalty(matrices, strength)).backward()
        optimizer.step()
    return [weight.detach().clone() for weight in net.parameters()]


def assert_equal(some: list[Any], others: list[Any]) -> None:
    for one, other in zip(some, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_weight_decay_equals_an_l2_penalty(name: str) -> None:
    net, other = network(), network()
    inside = trained(net, make_optimizer(name, net, OptimizerSettings(0.01, DECAY)))
    in_loss = trained(other, make_optimizer(name, other, OptimizerSettings(0.01)), DECAY)
    assert_equal(inside, in_loss)


def test_decoupled_weight_decay_equals_the_penalty_for_sgd_only() -> None:
    one, other = network(), network()
    inside = trained(one, make_optimizer("sgd", one, OptimizerSettings(0.01, DECAY)))
    optimizer = make_optimizer("sgd", other, OptimizerSettings(0.01))
    optimizer.register_step_pre_hook(lambda *_: _shrink(other, 1 - 0.01 * DECAY))
    assert_equal(inside, trained(other, optimizer))

    adamw_net, adam_net = network(), network()
    same = {"lr": 0.01, "weight_decay": DECAY, "beta2": 0.99}
    decoupled = trained(adamw_net, make_optimizer("adamw", adamw_net, OptimizerSettings(**same)))
    coupled = trained(adam_net, make_optimizer("adam", adam_net, OptimizerSettings(**same)))
    assert float((decoupled[0] - coupled[0]).abs().max()) > 1e-4
    without = {**same, "weight_decay": 0.0}
    one, other = network(), network()
    assert_equal(
        trained(one, make_optimizer("adamw", one, OptimizerSettings(**without))),
        trained(other, make_optimizer("adam", other, OptimizerSettings(**without))),
    )


def test_adam_and_adamw_first_steps_in_closed_form() -> None:
    # from m = s = 0, m̂ / √ŝ is the sign of g: what a penalty adds to a larger slope is divided away
    rate, decay = 0.01, 0.3
    start = torch.tensor([[2.0, -3.0, 0.5]], dtype=torch.float64)
    slope = torch.tensor([[5.0, 5.0, 1e-3]], dtype=torch.float64)  # the last below λ |w|
    after = {}
    for name in ("adam", "adamw"):
        net = nn.Linear(3, 1, bias=False).double()
        with torch.no_grad():
            net.weight.copy_(start)
        optimizer = make_optimizer(name, net, OptimizerSettings(rate, decay))
        (net.weight * slope).sum().backward()
        optimizer.step()
        after[name] = net.weight.detach()
    coupled = start - rate * (slope + decay * start).sign()
    torch.testing.assert_close(after["adam"], coupled, atol=1e-7, rtol=0)
    decoupled = start - rate * slope.sign() - rate * decay * start
    torch.testing.assert_close(after["adamw"], decoupled, atol=1e-6, rtol=0)
    assert torch.equal(coupled, start - rate * slope.sign())  # as if there were no penalty


def _shrink(net: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for weight in net.parameters():
            if weight.dim() > 1:
                weight *= factor


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weight_decay_applies_to_matrices_only(name: str) -> None:
    net = network()
    optimizer = make_optimizer(name, net, OptimizerSettings(0.1, 0.3))
    assert {id(w) for group in optimizer.param_groups for w in group["params"]} == {
        id(w) for w in net.parameters()
    }
    if name == "lbfgs":  # it knows one group only: `test_newton`
        return
    decays = {id(w): g["weight_decay"] for g in optimizer.param_groups for w in g["params"]}
    assert [decays[id(w)] for w in net.parameters()] == [0.3, 0.0, 0.0, 0.0, 0.3, 0.0]
    assert all(group["lr"] == 0.1 for group in optimizer.param_groups)


def test_beta2_setting_reaches_the_optimizers() -> None:
    def group(name: str, beta2: float | None) -> dict[str, Any]:
        return make_optimizer(name, network(), OptimizerSettings(0.1, beta2=beta2)).param_groups[0]

    for name, own in {"adam": 0.999, "adamw": 0.98, "lamb": 0.999, "nadam": 0.999}.items():
        assert group(name, None)["betas"] == (0.9, own)
        assert group(name, 0.5)["betas"] == (0.9, 0.5)
    assert (group("rmsprop", None)["alpha"], group("rmsprop", 0.5)["alpha"]) == (0.99, 0.5)
    assert (group("adadelta", None)["rho"], group("adadelta", 0.5)["rho"]) == (0.9, 0.5)


def test_make_optimizer_suggests_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="no optimizer 'adma'. Did you mean 'adam'"):
        make_optimizer("adma", network(), OptimizerSettings(0.1))


def test_look_ahead_takes_the_gradient_at_w_minus_alpha_m() -> None:
    curvature, optimum = torch.tensor([3.0, 0.2]).double(), torch.tensor([1.0, -2.0]).double()
    weights = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer = make_optimizer(
        "nesterov_lookahead", [weights], OptimizerSettings(0.1, 0.0, MOMENTUM)
    )
    w, m = torch.zeros(2).double(), torch.zeros(2).double()
    for _ in range(30):
        torch.testing.assert_close(weights.detach(), w - 0.1 * m)
        optimizer.zero_grad()
        (curvature * (weights - optimum) ** 2 / 2).sum().backward()
        optimizer.step()
        g = curvature * (w - 0.1 * m - optimum)  # as the equation has it
        m = MOMENTUM * m + (1 - MOMENTUM) * g
        w = w - 0.1 * m
