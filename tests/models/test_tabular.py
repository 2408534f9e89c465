"""The first networks, against loops from their equations."""

import math

import pytest
import torch
from pydantic import ValidationError

from saccade.errors import ConfigError
from saccade.models.config import LinearRegressionConfig, MLPConfig, SoftmaxRegressionConfig
from saccade.models.tabular import MLP, LinearRegression, SoftmaxRegression
from saccade.nn.dropout import AlphaDropout
from saccade.recipes.resolve import resolve_recipe


def test_tabular_linear_and_softmax_start_at_zero() -> None:
    x = torch.randn(5, 3)
    for model, outputs in (
        (LinearRegression(LinearRegressionConfig(inputs=3)), 1),
        (SoftmaxRegression(SoftmaxRegressionConfig(inputs=3, outputs=4)), 4),
    ):
        assert not model(x).any()
        torch.nn.init.normal_(model.output.weight)
        torch.nn.init.normal_(model.output.bias)
        found = model(x)
        assert found.shape == (5, outputs)
        for n in range(5):
            for v in range(outputs):
                terms = [float(model.output.weight[v, d].detach() * x[n, d]) for d in range(3)]
                expected = sum(terms) + float(model.output.bias[v].detach())
                assert float(found[n, v].detach()) == pytest.approx(expected, abs=1e-5)


def test_tabular_mlp_equals_equation() -> None:
    model = MLP(MLPConfig(inputs=2, outputs=3, hidden=(4, 5), activation="tanh"))
    x = torch.randn(2)
    a = x.tolist()
    *hidden, (weight, bias) = [tuple(part.tolist() for part in layer) for layer in model.layers()]
    for w, b in hidden:
        a = [
            math.tanh(sum(wi * ai for wi, ai in zip(row, a, strict=True)) + bj)
            for row, bj in zip(w, b, strict=True)
        ]
    expected = [
        sum(wi * ai for wi, ai in zip(row, a, strict=True)) + bj
        for row, bj in zip(weight, bias, strict=True)
    ]
    torch.testing.assert_close(model(x[None])[0], torch.tensor(expected))


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_tabular_norm_precedes_activation(norm: str) -> None:
    model = MLP(MLPConfig(inputs=3, outputs=2, hidden=(6,), norm=norm, activation="sigmoid"))
    x = 10 * torch.randn(8, 3)
    layer = model.hidden[0]
    z = layer.linear(x)
    axis = 0 if norm == "batch" else 1
    even = (z - z.mean(axis, keepdim=True)) / (
        z.var(axis, keepdim=True, unbiased=False) + 1e-5
    ).sqrt()
    torch.testing.assert_close(layer(x), even.sigmoid(), atol=1e-5, rtol=1e-4)


def test_tabular_accepts_rms_norm() -> None:
    model = MLP(MLPConfig(inputs=3, outputs=2, hidden=(6,), norm="rms", activation="sigmoid"))
    layer = model.hidden[0]
    z = layer.linear(x := 10 * torch.randn(8, 3))
    even = z / (z.square().mean(1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(layer(x), even.sigmoid(), atol=1e-5, rtol=1e-4)


def test_tabular_selu_uses_alpha_dropout() -> None:
    model = MLP(MLPConfig(inputs=3, outputs=1, activation="selu", dropout=0.1))
    assert type(model.hidden[0].dropout) is AlphaDropout
    assert model.eval()(torch.ones(2, 3)).shape == (2, 1)


def test_tabular_mlp_hidden_widths_are_parsed() -> None:
    for typed in (8, "8", [8], (8,)):
        assert MLPConfig(hidden=typed).hidden == (8,)
    assert MLPConfig(hidden="16,8").hidden == (16, 8)
    for wrong in ((), (0,), "a"):
        with pytest.raises(ValidationError):
            MLPConfig(hidden=wrong)
    with pytest.raises(ConfigError, match="no activation of single numbers 'softmax'"):
        MLP(MLPConfig(inputs=1, outputs=1, activation="softmax"))
    with pytest.raises(ConfigError, match="model.activation is 'rleu': .*Did you mean 'relu'"):
        resolve_recipe("table", changes={"model.activation": "rleu"})
