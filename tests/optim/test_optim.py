import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from saccade.optim import (
    SCHEDULES,
    adagrad,
    adam,
    adamw,
    averaged_momentum,
    clip_grad_norm,
    lamb,
    lars,
    lr_factor,
    momentum,
    nadam,
    nesterov,
    set_learning_rate,
    sgd,
)

steps = st.integers(1, 10_000)
shares = st.floats(0, 1)
warmups = st.integers(0, 5000)


@pytest.mark.parametrize(
    ("step", "progress", "warmup", "decay", "expected"),
    [
        (1, 0.0, 4, "none", 0.25),
        (2, 0.0, 4, "none", 0.5),
        (4, 0.9, 4, "none", 1.0),
        (9, 0.9, 4, "none", 1.0),
        (1, 0.0, 0, "none", 1.0),
        (5, 0.0, 0, "cosine", 1.0),
        (5, 0.5, 0, "cosine", 0.5),
        (5, 1 / 3, 0, "cosine", 0.75),
        (5, 1.0, 0, "cosine", 0.0),
        (5, 0.0, 5, "linear", 1.0),
        (5, 0.25, 5, "linear", 0.75),
        (5, 1.0, 5, "linear", 0.0),
        (2, 0.5, 8, "linear", 0.125),  # warm-up and decay multiply
        (2, 0.5, 8, "cosine", 0.125),
        (2, 0.5, 4, "inverse_sqrt", 0.5),  # it asks for the step alone
        (4, 0.5, 4, "inverse_sqrt", 1.0),
        (16, 0.5, 4, "inverse_sqrt", 0.5),
        (64, 1.0, 4, "inverse_sqrt", 0.25),
        (4, 0.0, 0, "inverse_sqrt", 0.5),  # without a warm-up it falls from the first step on
        (5, -0.1, 0, "linear", 1.0),  # a share beyond its ends is taken as the end
        (5, 1.1, 0, "linear", 0.0),
        (5, 1.1, 0, "cosine", 0.0),
    ],
)
def test_lr_factor_equals_values_computed_by_hand(
    step: int, progress: float, warmup: int, decay: str, expected: float
) -> None:
    assert lr_factor(step, progress, warmup, decay) == pytest.approx(expected, abs=1e-12)


OWN_WAY = {"inverse_sqrt", "one_cycle"}


@given(steps, shares, warmups, st.sampled_from(sorted(SCHEDULES.keys() - OWN_WAY)))
def test_lr_factor_rises_in_the_warmup_and_falls_with_progress(
    step: int, progress: float, warmup: int, decay: str
) -> None:
    here = lr_factor(step, progress, warmup, decay)
    assert 0 <= here <= 1
    assert lr_factor(step + 1, progress, warmup, decay) >= here
    assert lr_factor(step, min(1.0, progress + 0.01), warmup, decay) <= here + 1e-12
    if warmup and step < warmup and progress < 0.9:
        assert lr_factor(step + 1, progress, warmup, decay) > here
    if step >= warmup:
        assert here == lr_factor(step + 1, progress, warmup, decay)


@given(steps, shares, warmups)
def test_inverse_sqrt_equals_the_equation_of_the_paper(
    step: int, progress: float, warmup: int
) -> None:
    warmup = max(warmup, 1)
    paper = min(step**-0.5, step * warmup**-1.5)  # eq. 3 without the width
    assert lr_factor(step, progress, warmup, "inverse_sqrt") == pytest.approx(paper * warmup**0.5)


def test_lr_factor_refuses_an_unknown_schedule() -> None:
    with pytest.raises(
        ValueError,
        match="got schedule 'cosin'; expected one of constant, cosine, inverse_sqrt, linear, none",
    ):
        lr_factor(1, 0.0, 0, "cosin")


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.LayerNorm(4)
        self.table = nn.Embedding(5, 4)
        self.again = nn.Linear(4, 5, bias=False)
        self.again.weight = self.table.weight  # tied: it must be stepped once
        self.gain = nn.Parameter(torch.tensor(1.0))


def test_adamw_decays_matrices_only() -> None:
    model = Small()
    groups = adamw(model, 0.01, 0.3).param_groups
    by_decay = {group["weight_decay"]: group["params"] for group in groups}
    assert set(by_decay) == {0.3, 0.0}
    names = {id(p): name for name, p in model.named_parameters()}
    assert sorted(names[id(p)] for p in by_decay[0.3]) == ["linear.weight", "table.weight"]
    assert sorted(names[id(p)] for p in by_decay[0.0]) == [
        "gain",
        "linear.bias",
        "norm.bias",
        "norm.weight",
    ]
    assert all(group["lr"] == 0.01 and group["betas"] == (0.9, 0.98) for group in groups)


def test_decay_groups_omit_empty_groups() -> None:
    assert len(adamw(nn.Linear(3, 4, bias=False), 0.1, 0.1).param_groups) == 1
    assert len(adamw(nn.LayerNorm(4), 0.1, 0.1).param_groups) == 1


@pytest.mark.parametrize("beta2", [0.98, 0.999])
def test_adamw_steps_equal_the_equation(beta2: float) -> None:
    model = nn.Linear(2, 3).double()
    optimizer = adamw(model, 0.05, 0.2, beta2)
    expected = [p.detach().clone() for p in model.parameters()]
    first = [torch.zeros_like(p) for p in expected]
    second = [torch.zeros_like(p) for p in expected]
    for step in range(1, 5):
        rate = 0.05 / step
        set_learning_rate(optimizer, rate)
        for n, parameter in enumerate(model.parameters()):
            parameter.grad = torch.randn_like(parameter)
            first[n] = 0.9 * first[n] + 0.1 * parameter.grad
            second[n] = beta2 * second[n] + (1 - beta2) * parameter.grad**2
            mean, spread = first[n] / (1 - 0.9**step), second[n] / (1 - beta2**step)
            decay = 0.2 if parameter.dim() == 2 else 0.0
            shrunk = expected[n] * (1 - rate * decay)
            expected[n] = shrunk - rate * mean / (spread.sqrt() + 1e-8)
        optimizer.step()
        for got, values in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(got.detach(), values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "make", [adagrad, adam, adamw, averaged_momentum, lamb, lars, momentum, nadam, nesterov, sgd]
)
def test_optimizer_functions_take_a_module_its_parameters_or_groups(make: Any) -> None:
    weights = []
    for params_of in (
        lambda model: model,
        lambda model: model.parameters(),
        lambda model: [{"params": list(model.parameters())}],
    ):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = make(params_of(model), lr=0.1, weight_decay=0.5)
        assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.0]
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).square().sum().backward()
            optimizer.step()
        weights.append([parameter.detach().clone() for parameter in model.parameters()])
    for other in weights[1:]:
        assert all(map(torch.equal, weights[0], other))


def test_decay_groups_keep_the_options_of_parameter_groups() -> None:
    model = nn.Linear(3, 2)
    groups = [{"params": model.weight, "lr": 0.5}, {"params": [model.bias]}]
    assert [group["lr"] for group in adamw(groups, lr=0.1).param_groups] == [0.5, 0.1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (torch.zeros(2, 3), r"got a tensor of shape \(2, 3\); expected a module"),
        (["weight"], "got str among the parameters"),
    ],
)
def test_optimizer_functions_refuse_other_parameters(params: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        adamw(params, lr=0.1)


def test_set_learning_rate_sets_every_group() -> None:
    optimizer = adamw(Small(), 0.01, 0.3)
    set_learning_rate(optimizer, 0.002)
    assert [group["lr"] for group in optimizer.param_groups] == [0.002, 0.002]


@given(st.floats(0.01, 100), st.integers(0, 2**31))
def test_clip_grad_norm_scales_all_gradients_by_one_factor(max_norm: float, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Linear(3, 4).double()
    before = [torch.randn_like(p) for p in model.parameters()]
    for parameter, grad in zip(model.parameters(), before, strict=True):
        parameter.grad = grad.clone()
    norm = math.sqrt(sum(float(value) ** 2 for grad in before for value in grad.flatten()))
    assert float(clip_grad_norm(model, max_norm)) == pytest.approx(norm, rel=1e-12)
    for parameter, grad in zip(model.parameters(), before, strict=True):
        assert parameter.grad is not None
        if norm < max_norm:
            assert torch.equal(parameter.grad, grad)
        torch.testing.assert_close(
            parameter.grad, grad * min(1, max_norm / norm), rtol=1e-5, atol=1e-12
        )


def test_clip_grad_norm_skips_weights_without_a_gradient() -> None:
    model = nn.Linear(2, 2)
    model.weight.grad = torch.full((2, 2), 2.0)
    assert float(clip_grad_norm(model, 1.0)) == pytest.approx(4)
    assert float(model.weight.grad.norm()) == pytest.approx(1)
    assert model.bias.grad is None
