"""Weight initialisation against torch, the equations, and its effect on training."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from saccade.errors import ConfigError
from saccade.nn import init
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.init import INITS, fans, gain, init_weight

SHAPES = st.sampled_from([(3, 5), (40, 7), (6, 4, 3), (5, 2, 3, 3)])
THEIRS = {
    "constant": lambda w, seeded: nn.init.constant_(w, 0.1),
    "kaiming": lambda w, seeded: nn.init.kaiming_normal_(w, nonlinearity="relu", generator=seeded),
    "kaiming_out": lambda w, seeded: nn.init.kaiming_normal_(
        w, mode="fan_out", nonlinearity="relu", generator=seeded
    ),
    "kaiming_uniform": lambda w, seeded: nn.init.kaiming_uniform_(
        w, nonlinearity="relu", generator=seeded
    ),
    "lecun": lambda w, seeded: nn.init.kaiming_normal_(w, nonlinearity="linear", generator=seeded),
    "normal": lambda w, seeded: nn.init.normal_(w, generator=seeded),
    "orthogonal": lambda w, seeded: nn.init.orthogonal_(w, generator=seeded),
    "xavier": lambda w, seeded: nn.init.xavier_uniform_(w, generator=seeded),
    "xavier_normal": lambda w, seeded: nn.init.xavier_normal_(w, generator=seeded),
    "zero": lambda w, seeded: nn.init.zeros_(w),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_init_every_method_has_a_reference() -> None:
    assert set(THEIRS) | {"depth_scaled"} == set(INITS)


@given(st.sampled_from(sorted(THEIRS)), SHAPES, st.integers(0, 2**31))
def test_init_matches_torch(name: str, shape: tuple[int, ...], seed: int) -> None:
    ours, theirs = torch.empty(shape), torch.empty(shape)
    before = torch.random.get_rng_state()
    assert init_weight(ours, name, activation="relu", generator=seeded(seed)) is ours
    assert torch.equal(torch.random.get_rng_state(), before)  # nothing global is drawn from
    THEIRS[name](theirs, seeded(seed))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


# --- the equations --------------------------------------------------------------------------------


@given(SHAPES)
def test_fans_match_count(shape: tuple[int, ...]) -> None:
    out, into, *kernel = shape
    kernel_size = 1
    for side in kernel:
        kernel_size *= side
    assert fans(torch.empty(shape)) == (into * kernel_size, out * kernel_size)


IN, OUT = 300, 500
VARIANCES = {
    "depth_scaled": 2 / IN / 9,
    "kaiming": 2 / IN,
    "kaiming_out": 2 / OUT,
    "kaiming_uniform": 2 / IN,
    "lecun": 1 / IN,
    "normal": 1.0,
    "xavier": 2 / (IN + OUT),
    "xavier_normal": 2 / (IN + OUT),
}
BOUNDS = {"kaiming_uniform": math.sqrt(6 / IN), "xavier": math.sqrt(6 / (IN + OUT))}


@pytest.mark.parametrize("name", VARIANCES)
def test_init_variance_matches_equation(name: str) -> None:
    weight = torch.empty(OUT, IN, dtype=torch.float64)
    init_weight(weight, name, activation="relu", layers=9, generator=seeded())
    # five deviations of what N draws give: 2/N of the square for a normal, 4/5 of that for uniform
    assert float(weight.square().mean()) == pytest.approx(
        VARIANCES[name], rel=5 * math.sqrt(2 / weight.numel())
    )
    assert abs(float(weight.mean())) < 5 * math.sqrt(VARIANCES[name] / weight.numel())
    if name in BOUNDS:
        maximum = float(weight.abs().max())
        assert 0.999 * BOUNDS[name] < maximum <= BOUNDS[name]


@pytest.mark.parametrize(("rows", "columns"), [(20, 20), (30, 12), (12, 30)])
def test_init_orthogonal_keeps_norms(rows: int, columns: int) -> None:
    weight = init.orthogonal(torch.empty(rows, columns, dtype=torch.float64), seeded())
    singular = np.linalg.svd(weight.numpy(), compute_uv=False)
    np.testing.assert_allclose(singular, 1, atol=1e-12)


def test_init_depth_scaled_divides_by_root_of_layers() -> None:
    weight = torch.randn(4, 3, dtype=torch.float64)
    scaled = init.depth_scaled(weight.clone(), 16)
    torch.testing.assert_close(scaled, weight / 4)
    layer = nn.Linear(3, 4)
    assert init.depth_scaled(layer.weight, 2) is layer.weight and layer.weight.requires_grad


# --- gains ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - {"softmax"}))
def test_gain_matches_torch_or_keeps_mean_square(name: str) -> None:
    if name in init.TORCH_GAINS:
        assert gain(name) == nn.init.calculate_gain(name, 0.01)
    if name not in ("tanh", "sigmoid", "selu"):  # there the framework's is another
        z = torch.randn(2_000_000, dtype=torch.float64, generator=seeded())
        kept = ACTIVATIONS[name](z).square().mean()  # a unit that gets N(0, 1) hands on so much
        assert float(gain(name) ** 2 * kept) == pytest.approx(1, rel=0.01)


def test_gain_of_relu_and_leaky_relu() -> None:
    assert gain("relu") == pytest.approx(math.sqrt(2))
    assert gain("leaky_relu") == pytest.approx(math.sqrt(2 / (1 + 0.01**2)))
    assert gain("linear") == 1


def test_init_error_messages() -> None:
    with pytest.raises(ConfigError, match="There is no init 'xaveir'. Did you mean 'xavier'?"):
        init_weight(torch.empty(2, 2), "xaveir")
    with pytest.raises(ConfigError, match="no activation 'rellu'. Did you mean 'relu'?"):
        init_weight(torch.empty(2, 2), "kaiming", activation="rellu")
    with pytest.raises(ValueError, match="softmax has no gain: got an activation"):
        init_weight(torch.empty(2, 2), "kaiming", activation="softmax")
    with pytest.raises(ValueError, match=r"shape \(3,\); expected two axes or more"):
        init.lecun(torch.empty(3))
    with pytest.raises(ValueError, match="got 0 residual layers; expected 1 or more"):
        init.depth_scaled(torch.empty(2, 2), 0)


# --- why not zero, why not a constant -------------------------------------------------------------


def trained(name: str, activation: str, steps: int = 30) -> tuple[list[torch.Tensor], list[float]]:
    """Return the hidden weight and the loss after each step of fitting a sine."""
    first, second = nn.Linear(4, 16).double(), nn.Linear(16, 1).double()
    for layer in (first, second):
        init_weight(layer.weight, name, activation=activation, generator=seeded(1))
        nn.init.zeros_(layer.bias)
    x = torch.randn(64, 4, dtype=torch.float64, generator=seeded(2))
    y = torch.sin(x.sum(dim=1, keepdim=True)) + 0.5 * x[:, :1]
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    weights, losses = [first.weight.detach().clone()], []
    for _ in range(steps):
        loss = (second(ACTIVATIONS[activation](first(x))) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        weights.append(first.weight.detach().clone())
        losses.append(loss.item())
    return weights, losses


@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid"])
@pytest.mark.parametrize("name", ["zero", "constant"])
def test_init_constant_keeps_units_equal(name: str, activation: str) -> None:
    weights, _ = trained(name, activation)
    for weight in weights:
        assert torch.equal(weight, weight[:1].expand_as(weight))  # to the bit
    if name == "constant":
        assert not torch.equal(weights[0], weights[-1])  # though they learn


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_init_zero_has_zero_gradients(activation: str) -> None:
    weights, _ = trained("zero", activation)
    assert not weights[-1].any()


def test_init_random_units_differ_and_train_further() -> None:
    weights, losses = trained("xavier", "tanh", steps=200)
    assert len(torch.unique(weights[-1], dim=0)) == 16
    assert losses[-1] < 0.7 * trained("constant", "tanh", steps=200)[1][-1]


@settings(max_examples=5)
@given(st.integers(0, 1000))
def test_init_modifies_parameters_directly(seed: int) -> None:
    layer = nn.Linear(6, 5)
    init_weight(layer.weight, "kaiming", activation="gelu", generator=seeded(seed))
    assert layer.weight.is_leaf and layer.weight.requires_grad and layer.weight.grad is None
