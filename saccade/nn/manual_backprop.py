r"""A network of affine layers forward and backward, written out: no autograd.

    a_0 = x,   z_l = W_l a_{l-1} + b_l,   a_l = f(z_l),   and z_L is the answer

    δ_L = ∂ℓ/∂z_L,   ∂ℓ/∂a_l = W_{l+1}ᵀ δ_{l+1},   δ_l = ∂ℓ/∂a_l ∘ f'(z_l)
    ∂ℓ/∂W_l = δ_l a_{l-1}ᵀ,   ∂ℓ/∂b_l = δ_l

Rumelhart, Hinton and Williams 1986. What the way forward has found is used again on the way back:
z_l for the slope, a_{l-1} for the weights. ℓ is summed over the rows of a batch, and so are the
gradients of weights and biases.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.nn.activations import (
    ACTIVATIONS,
    GELU_CUBIC,
    GELU_LINEAR,
    GELU_SIGMOID_SCALE,
    SELU_ALPHA,
    SELU_SCALE,
)
from saccade.nn.losses import MAX_EXP_MARGIN
from saccade.registry import lookup


class Affine(NamedTuple):
    """One layer."""

    weight: Float[Tensor, "F D"]
    bias: Float[Tensor, " F"]


class ForwardTrace(NamedTuple):
    """What is found on the way forward, layer by layer."""

    outputs: list[Float[Tensor, "B _"]]  # a_0 … a_{L-1}: what each layer reads
    pre_activations: list[Float[Tensor, "B _"]]  # z_1 … z_L


class BackwardTrace(NamedTuple):
    """The gradients, layer by layer."""

    outputs: list[Float[Tensor, "B _"]]  # ∂ℓ/∂a_0 … ∂ℓ/∂a_{L-1}
    pre_activations: list[Float[Tensor, "B _"]]  # δ_1 … δ_L
    weights: list[Float[Tensor, "_ _"]]  # ∂ℓ/∂W_1 … ∂ℓ/∂W_L
    biases: list[Float[Tensor, " _"]]


def mlp_forward(x: Float[Tensor, "B D"], layers: Sequence[Affine], activation: str) -> ForwardTrace:
    r"""z_l = W_l a_{l-1} + b_l and a_l = f(z_l), from the first layer to the last."""
    f = lookup(ACTIVATIONS, activation, "activation")
    outputs, pre_activations = [x], []
    for weight, bias in layers:
        pre_activations.append(outputs[-1] @ weight.T + bias)
        outputs.append(f(pre_activations[-1]))
    return ForwardTrace(outputs[:-1], pre_activations)  # the answer is z_L, whatever f


def mlp_backward(
    trace: ForwardTrace, layers: Sequence[Affine], activation: str, last_delta: Float[Tensor, "B V"]
) -> BackwardTrace:
    r"""Every gradient from δ_L on, from the last layer to the first."""
    slope = lookup(ACTIVATION_DERIVATIVES, activation, "slope of an activation")
    outputs: list[Tensor] = []
    pre_activations = [last_delta]
    for layer_index in reversed(range(len(layers))):
        outputs.insert(0, pre_activations[0] @ layers[layer_index].weight)
        if layer_index:
            pre_activations.insert(0, outputs[0] * slope(trace.pre_activations[layer_index - 1]))
    weights = [delta.T @ a for delta, a in zip(pre_activations, trace.outputs, strict=True)]
    return BackwardTrace(
        outputs, pre_activations, weights, [delta.sum(0) for delta in pre_activations]
    )


# --- where it begins ------------------------------------------------------------------------------


def output_gradient(
    loss: str, output: Float[Tensor, "B V"], target: Tensor, label_smoothing: float = 0.0
) -> Float[Tensor, "B V"]:
    r"""δ_L = ∂ℓ/∂z_L for the losses of `saccade.nn.losses`, by name; z has one place for a number.

    square 2r, absolute sign r, huber r held between -1 and 1, with r = z - y;
    cross_entropy softmax(z) - q; hinge -[m < 1] and exponential -exp(-m) times ∂m/∂z = ±y, with
    the margin m = y (z_1 - z_0) and y = ±1.
    """
    return lookup(LOSS_GRADIENTS, loss, "loss")(output, target, label_smoothing)


def _of_numbers(slope: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, float], Tensor]:
    def gradient_of_loss(output: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
        return slope(output - target[:, None])

    return gradient_of_loss


def _of_margins(slope: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, float], Tensor]:
    def gradient_of_loss(output: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
        side = (2 * target - 1).to(output.dtype)
        more = slope(side * (output[:, 1] - output[:, 0])) * side
        return torch.stack([-more, more], dim=1)

    return gradient_of_loss


def _of_classes(output: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
    count = output.shape[1]
    wanted = torch.full_like(output, label_smoothing / count)
    wanted[torch.arange(len(target)), target] += 1 - label_smoothing
    return output.softmax(dim=1) - wanted


LOSS_GRADIENTS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "absolute_error": _of_numbers(torch.sign),
    "cross_entropy": _of_classes,
    "exponential": _of_margins(lambda m: -(-m).clamp(max=MAX_EXP_MARGIN).exp()),
    "hinge": _of_margins(lambda m: -(m < 1).to(m.dtype)),
    "huber": _of_numbers(lambda r: r.clamp(-1, 1)),
    "squared_error": _of_numbers(lambda r: 2 * r),
}


# --- slopes ---------------------------------------------------------------------------------------


def _gelu(x: Tensor) -> Tensor:
    # x σ(u), u = 2√(2/π) (x + 0.044715 x³)
    s = torch.sigmoid(GELU_LINEAR * (x + GELU_CUBIC * x**3))
    return s + x * s * (1 - s) * GELU_LINEAR * (1 + 3 * GELU_CUBIC * x**2)


def _gelu_exact(x: Tensor) -> Tensor:
    # x Φ(x): Φ(x) + x φ(x)
    below = torch.special.ndtr(x)
    return below + x * torch.exp(-(x**2) / 2) / (2 * torch.pi) ** 0.5


def _gelu_sigmoid(x: Tensor) -> Tensor:
    s = torch.sigmoid(GELU_SIGMOID_SCALE * x)
    return s + GELU_SIGMOID_SCALE * x * s * (1 - s)


def _silu(x: Tensor) -> Tensor:
    s = x.sigmoid()
    return s + x * s * (1 - s)


ACTIVATION_DERIVATIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": lambda x: torch.where(x > 0, 1.0, x.clamp(max=0).exp()),
    "gelu": _gelu,
    "gelu_exact": _gelu_exact,
    "gelu_sigmoid": _gelu_sigmoid,
    "leaky_relu": lambda x: torch.where(x > 0, 1.0, 0.01),
    "linear": torch.ones_like,
    "relu": lambda x: (x > 0).to(x.dtype),
    "selu": lambda x: SELU_SCALE * torch.where(x > 0, 1.0, SELU_ALPHA * x.clamp(max=0).exp()),
    "sigmoid": lambda x: x.sigmoid() * (1 - x.sigmoid()),
    "silu": _silu,
    "tanh": lambda x: 1 - x.tanh() ** 2,
}
