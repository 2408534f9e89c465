"""Activations against torch, their equations and finite differences."""

import math
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from saccade.errors import ConfigError
from saccade.models.config import MLPConfig
from saccade.models.tabular import MLP
from saccade.nn import activations
from saccade.nn.activations import ACTIVATIONS, gelu, make_activation
from saccade.nn.dropout import AlphaDropout
from saccade.nn.init import gain, init_weight
from saccade.nn.kernels import gelu as gelu_kernel
from saccade.recipes.resolve import resolve_recipe
from saccade.types.names import Activation


@pytest.fixture(params=[True, False], ids=["framework", "own"])
def quick_tanh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with torch's kernel and with our own."""
    monkeypatch.setattr(gelu_kernel, "HAS_FAST_TANH", request.param)


@pytest.mark.usefixtures("quick_tanh")
def test_gelu_matches_equation_with_and_without_gradient() -> None:
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


@pytest.mark.usefixtures("quick_tanh")
@pytest.mark.parametrize("held", [1, 5, 1 << 18])
def test_gelu_gradcheck(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gelu_kernel, "GELU_CHUNK", held)
    x = 3 * torch.randn(4, 6, dtype=torch.float64)
    assert torch.autograd.gradcheck(gelu, x.requires_grad_())
    assert torch.autograd.gradcheck(gelu, x.detach().t().requires_grad_())  # not contiguous


@pytest.mark.usefixtures("quick_tanh")
def test_gelu_matches_torch_in_float32() -> None:
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([-1e4, -1e12, 1e4, 1e12, 0.0])])
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    one, other = gelu(ours), F.gelu(theirs, approximate="tanh")
    assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)
    found = torch.autograd.grad(one.sum(), ours)[0]
    assert torch.allclose(found[:-5], torch.autograd.grad(other.sum(), theirs)[0][:-5], atol=1e-5)
    assert found[-5:].tolist() == [0, 0, 1, 1, 0.5]


@pytest.mark.usefixtures("quick_tanh")
def test_gelu_keeps_dtype_under_autocast() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = nn.Linear(3, 5)(torch.randn(2, 3))
        assert gelu(x).dtype == torch.bfloat16


# --- the others -----------------------------------------------------------------------------------

BY_HAND = {
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "gelu_exact": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_sigmoid": lambda x: x / (1 + math.exp(-1.702 * x)),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "linear": lambda x: x,
    "relu": lambda x: max(0.0, x),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (math.exp(x) - 1)),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": lambda x: (math.exp(x) - math.exp(-x)) / (math.exp(x) + math.exp(-x)),
}


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_activations_match_equations(name: str) -> None:
    x = torch.linspace(-20, 20, 401, dtype=torch.float64)
    expected = torch.tensor([BY_HAND[name](z) for z in x.tolist()], dtype=torch.float64)
    assert torch.allclose(activations.ACTIVATIONS[name](x), expected, rtol=1e-12, atol=1e-14)
    near = (x[::7] + 0.013).requires_grad_()
    assert torch.autograd.gradcheck(activations.ACTIVATIONS[name], near)


def test_activations_all_have_an_equation() -> None:
    assert set(BY_HAND) | {"gelu", "softmax"} == set(activations.ACTIVATIONS)
    assert list(get_args(Activation)) == sorted(activations.ACTIVATIONS)


def test_activations_subgradients_at_kinks() -> None:
    for name, expected in (("relu", 0.0), ("leaky_relu", 0.01), ("elu", 1.0)):
        x = torch.zeros(1, requires_grad=True)
        (slope,) = torch.autograd.grad(activations.ACTIVATIONS[name](x), x)
        assert float(slope) == pytest.approx(expected), name


def test_softmax_matches_equation_over_last_axis() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    for row, found in zip(
        x.view(-1, 4).tolist(), activations.softmax(x).view(-1, 4).tolist(), strict=True
    ):
        whole = sum(math.exp(z) for z in row)
        assert found == pytest.approx([math.exp(z) / whole for z in row], rel=1e-12)
    assert torch.autograd.gradcheck(activations.softmax, x.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(activations.ACTIVATIONS))
def test_activations_are_finite_for_extreme_inputs(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([1e4, -1e4, 300.0, -300.0, 0.0], dtype=dtype, requires_grad=True)
    y = activations.ACTIVATIONS[name](x)
    assert y.dtype == dtype and y.isfinite().all()
    assert torch.autograd.grad(y.sum(), x)[0].isfinite().all()


def test_gelu_approximation_errors() -> None:
    x = torch.linspace(-8, 8, 160_001, dtype=torch.float64)
    exact = activations.gelu_exact(x)
    assert float((gelu(x) - exact).abs().max()) == pytest.approx(4.73e-4, rel=0.01)
    assert float((activations.gelu_sigmoid(x) - exact).abs().max()) == pytest.approx(
        0.0203, rel=0.01
    )


def test_selu_constants_are_the_fixed_point() -> None:
    z = torch.linspace(-12, 12, 2_000_001, dtype=torch.float64)
    density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    y = activations.selu(z)
    mean = torch.trapezoid(y * density, z)
    assert float(mean) == pytest.approx(0, abs=1e-9)
    assert float(torch.trapezoid(y**2 * density, z)) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_alpha_dropout_keeps_mean_and_variance(p: float) -> None:
    dropout = AlphaDropout(p).train()
    x = torch.randn(400_000, dtype=torch.float64)
    y = dropout(x)
    assert float(y.mean()) == pytest.approx(0, abs=0.01)
    assert float(y.var()) == pytest.approx(1, abs=0.02)
    limit = -activations.SELU_SCALE * activations.SELU_ALPHA
    stretch = ((1 - p) * (1 + p * limit**2)) ** -0.5
    dropped = torch.isclose(y, torch.tensor(stretch * limit * (1 - p), dtype=torch.float64))
    assert float(dropped.double().mean()) == pytest.approx(p, abs=0.01)
    assert dropout.eval()(x) is x
    with pytest.raises(ValueError, match="got dropout 1.0; expected a number"):
        AlphaDropout(1.0)


@given(st.floats(0, 3), st.floats(-5, 5))
def test_alpha_of_elu_and_leaky_relu_is_that_of_the_equation(alpha: float, x: float) -> None:
    point = torch.tensor(x, dtype=torch.float64)
    elu = x if x > 0 else alpha * math.expm1(x)
    assert float(make_activation("elu", alpha)(point)) == pytest.approx(elu, abs=1e-12)
    leaky = x if x > 0 else alpha * x
    assert float(make_activation("leaky_relu", alpha)(point)) == pytest.approx(leaky, abs=1e-12)


def test_alpha_of_other_activations_is_refused() -> None:
    assert make_activation("elu") is ACTIVATIONS["elu"]
    with pytest.raises(ValueError, match="got an α of 0.3 for relu; expected one of elu, leaky"):
        make_activation("relu", 0.3)
    with pytest.raises(ConfigError, match="activation_alpha.*tanh has no α; set model.activation"):
        resolve_recipe("table", model="mlp", changes=_settings("tanh"))
    config = resolve_recipe("table", model="mlp", changes=_settings("elu")).recipe.model
    layer = MLP(MLPConfig(**config.model_dump() | {"inputs": 2, "outputs": 1})).hidden[0]
    assert layer.activation(torch.tensor(-1.0)) == pytest.approx(0.3 * math.expm1(-1))


def _settings(activation: str) -> dict[str, Any]:
    return {"model.activation": activation, "model.activation_alpha": 0.3}


@pytest.mark.parametrize("name", ["kaiming", "kaiming_uniform", "depth_scaled"])
def test_initial_weights_follow_alpha(name: str) -> None:
    """The variance of leaky_relu's inputs is kept by the gain √(2 / (1 + α²))."""
    one, two = torch.empty(50, 40), torch.empty(50, 40)
    init_weight(one, name, activation="leaky_relu", generator=torch.Generator().manual_seed(1))
    other = torch.Generator().manual_seed(1)
    init_weight(two, name, activation="leaky_relu", alpha=0.5, generator=other)
    ratio = (2 / (1 + 0.5**2)) ** 0.5 / (2 / (1 + 0.01**2)) ** 0.5
    torch.testing.assert_close(two, one * ratio)
    numeric = gain("elu", 2.0)
    z = torch.randn(400_000, dtype=torch.float64, generator=other)
    values = torch.where(z > 0, z, 2 * z.expm1())
    assert numeric == pytest.approx(float(values.square().mean()) ** -0.5, rel=0.01)
