"""Backpropagation by hand against autograd and against loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import ConfigError
from saccade.nn import losses
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.manual_backprop import (
    ACTIVATION_DERIVATIVES,
    LOSS_GRADIENTS,
    Affine,
    mlp_backward,
    mlp_forward,
    output_gradient,
)

OF_NUMBERS = ("absolute_error", "huber", "squared_error")


def network(widths: list[int]) -> list[Affine]:
    draw = torch.Generator().manual_seed(len(widths))
    return [
        Affine(
            torch.randn(after, before, generator=draw, dtype=torch.float64, requires_grad=True),
            torch.randn(after, generator=draw, dtype=torch.float64, requires_grad=True),
        )
        for before, after in zip(widths, widths[1:], strict=False)
    ]


def loss_of(name: str, answer: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if name in OF_NUMBERS:
        loss = {
            "absolute_error": losses.l1_loss,
            "huber": losses.huber_loss,
            "squared_error": losses.mse_loss,
        }[name]
        return loss(answer[:, 0], target, reduction="sum")
    if name == "cross_entropy":
        return losses.cross_entropy(answer, target, label_smoothing=0.1, reduction="sum")
    margin = (answer[:, 1] - answer[:, 0]) * (2 * target - 1)
    return losses.MARGIN_LOSSES[name](margin, reduction="sum")


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sampled_from(sorted(ACTIVATION_DERIVATIVES)),
    st.sampled_from(sorted(LOSS_GRADIENTS)),
    st.integers(1, 4),
)
def test_mlp_backward_matches_autograd(
    widths: list[int], activation: str, loss: str, rows: int
) -> None:
    layers = network([*widths, 1 if loss in OF_NUMBERS else 2])
    x = torch.randn(rows, widths[0], dtype=torch.float64, requires_grad=True)
    target = torch.randn(rows, dtype=torch.float64)
    if loss not in OF_NUMBERS:
        target = (target > 0).long()
    a, read, pre_activations = x, [], []
    for weight, bias in layers:
        read.append(a)
        pre_activations.append(a @ weight.T + bias)
        a = ACTIVATIONS[activation](pre_activations[-1])
    total = loss_of(loss, pre_activations[-1], target)
    weights, biases = zip(*layers, strict=True)
    expected = torch.autograd.grad(total, [*read, *pre_activations, *weights, *biases])
    with torch.no_grad():
        found = mlp_forward(x, layers, activation)
        back = mlp_backward(
            found, layers, activation, output_gradient(loss, found.pre_activations[-1], target, 0.1)
        )
    for one, other in zip(
        [*found.outputs, *found.pre_activations], [*read, *pre_activations], strict=True
    ):
        torch.testing.assert_close(one, other.detach())
    every = [*back.outputs, *back.pre_activations, *back.weights, *back.biases]
    for one, other in zip(every, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_mlp_forward_and_backward_match_loops() -> None:
    """Compare with loops: δ2 = ∂ℓ/∂z2, δ1 = (W2ᵀ δ2) f'(z1), ∂ℓ/∂W = δ aᵀ."""
    layers = network([3, 4, 1])
    (w1, b1), (w2, b2) = ([part.detach().numpy() for part in layer] for layer in layers)
    x, y = np.array([0.3, -1.2, 0.7]), 0.4
    z1 = [sum(w1[j][i] * x[i] for i in range(3)) + b1[j] for j in range(4)]
    a1 = [1 / (1 + math.exp(-z)) for z in z1]
    z2 = sum(w2[0][j] * a1[j] for j in range(4)) + b2[0]
    d2 = 2 * (z2 - y)
    d1 = [w2[0][j] * d2 * a1[j] * (1 - a1[j]) for j in range(4)]
    there = mlp_forward(
        torch.tensor(x)[None],
        [Affine(*map(torch.tensor, p)) for p in ((w1, b1), (w2, b2))],
        "sigmoid",
    )
    last = output_gradient(
        "squared_error", there.pre_activations[-1], torch.tensor([y], dtype=torch.float64)
    )
    found = mlp_backward(
        there, [Affine(*(p.detach() for p in layer)) for layer in layers], "sigmoid", last
    )
    np.testing.assert_allclose(found.pre_activations[0][0], d1)
    np.testing.assert_allclose(found.weights[0], [[d * v for v in x] for d in d1])
    np.testing.assert_allclose(found.weights[1][0], [d2 * a for a in a1])
    np.testing.assert_allclose(
        found.outputs[0][0], [sum(w1[j][i] * d1[j] for j in range(4)) for i in range(3)]
    )


def test_activation_derivatives_cover_elementwise_activations() -> None:
    assert set(ACTIVATION_DERIVATIVES) == set(ACTIVATIONS) - {"softmax"}
    with pytest.raises(ConfigError, match="no derivative of an activation 'softmax'"):
        mlp_backward(mlp_forward(torch.ones(1, 1), [], "softmax"), [], "softmax", torch.ones(1, 1))


@pytest.mark.parametrize("activation", ["elu", "leaky_relu"])
def test_mlp_backward_with_alpha_matches_autograd(activation: str) -> None:
    torch.manual_seed(3)
    weights = [torch.randn(4, 3), torch.randn(4), torch.randn(2, 4), torch.randn(2)]
    weights = [weight.double().requires_grad_() for weight in weights]
    layers = [Affine(*weights[:2]), Affine(*weights[2:])]
    x, slope = torch.randn(5, 3).double(), torch.randn(5, 2).double()
    trace = mlp_forward(x, layers, activation, 0.3)
    expected = torch.autograd.grad(trace.pre_activations[-1], weights, slope)
    with torch.no_grad():
        back = mlp_backward(trace, layers, activation, slope, 0.3)
    found = [part for pair in zip(back.weights, back.biases, strict=True) for part in pair]
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two)
