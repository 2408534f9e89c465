r"""Forward and backward pass of a multilayer perceptron by hand, without autograd.

    a_0 = x,   z_l = W_l a_{l-1} + b_l,   a_l = f(z_l),   and z_L is the output

    δ_L = ∂ℓ/∂z_L,   ∂ℓ/∂a_l = W_{l+1}ᵀ δ_{l+1},   δ_l = ∂ℓ/∂a_l ∘ f'(z_l)
    ∂ℓ/∂W_l = δ_l a_{l-1}ᵀ,   ∂ℓ/∂b_l = δ_l

Rumelhart, Hinton and Williams 1986. The backward pass uses the results of the forward pass: z_l for
the derivative, a_{l-1} for the weights. ℓ is summed over the rows of a batch, and so are the
gradients of weights and biases.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.nn.activations import GELU_SIGMOID_SCALE, SELU_ALPHA, SELU_SCALE, make_activation
from saccade.nn.kernels.gelu import GELU_CUBIC, GELU_LINEAR
from saccade.nn.losses import MAX_EXP_MARGIN
from saccade.registry import lookup


class Affine(NamedTuple):
    """The weights of one affine layer."""

    weight: Float[Tensor, "F D"]
    bias: Float[Tensor, " F"]


class ForwardTrace(NamedTuple):
    """The results of the forward pass, layer by layer."""

    outputs: list[Float[Tensor, "B _"]]  # a_0 … a_{L-1}: the input of each layer
    pre_activations: list[Float[Tensor, "B _"]]  # z_1 … z_L


class BackwardTrace(NamedTuple):
    """The gradients, layer by layer."""

    outputs: list[Float[Tensor, "B _"]]  # ∂ℓ/∂a_0 … ∂ℓ/∂a_{L-1}
    pre_activations: list[Float[Tensor, "B _"]]  # δ_1 … δ_L
    weights: list[Float[Tensor, "_ _"]]  # ∂ℓ/∂W_1 … ∂ℓ/∂W_L
    biases: list[Float[Tensor, " _"]]


def mlp_forward(
    x: Float[Tensor, "B D"],
    layers: Sequence[Affine],
    activation: str,
    alpha: float | None = None,
) -> ForwardTrace:
    r"""z_l = W_l a_{l-1} + b_l and a_l = f(z_l), from the first layer to the last."""
    f = make_activation(activation, alpha)
    outputs, pre_activations = [x], []
    for weight, bias in layers:
        pre_activations.append(outputs[-1] @ weight.T + bias)
        outputs.append(f(pre_activations[-1]))
    return ForwardTrace(outputs[:-1], pre_activations)  # the output is z_L, for every f


def mlp_backward(
    trace: ForwardTrace,
    layers: Sequence[Affine],
    activation: str,
    last_delta: Float[Tensor, "B V"],
    alpha: float | None = None,
) -> BackwardTrace:
    r"""Return all gradients, from δ_L of the last layer to the first."""
    derivative = lookup(ACTIVATION_DERIVATIVES, activation, "derivative of an activation")
    if alpha is not None:
        derivative = partial(derivative, alpha=alpha)
    outputs: list[Tensor] = []
    pre_activations = [last_delta]
    for layer_index in reversed(range(len(layers))):
        outputs.insert(0, pre_activations[0] @ layers[layer_index].weight)
        if layer_index:
            delta = outputs[0] * derivative(trace.pre_activations[layer_index - 1])
            pre_activations.insert(0, delta)
    weights = [delta.T @ a for delta, a in zip(pre_activations, trace.outputs, strict=True)]
    return BackwardTrace(
        outputs, pre_activations, weights, [delta.sum(0) for delta in pre_activations]
    )


# --- gradient of the loss -------------------------------------------------------------------------


def output_gradient(
    loss: str, output: Float[Tensor, "B V"], target: Tensor, label_smoothing: float = 0.0
) -> Float[Tensor, "B V"]:
    r"""δ_L = ∂ℓ/∂z_L for the losses of `saccade.nn.losses`, by name; z is (B, 1) in regression.

    squared_error 2r, absolute_error sign r, huber r clamped to [-1, 1], with r = z - y;
    cross_entropy softmax(z) - q; hinge -[m < 1] and exponential -exp(-m) times ∂m/∂z = ±y, with
    the margin m = y (z_1 - z_0) and y = ±1.
    """
    return lookup(LOSS_GRADIENTS, loss, "loss")(output, target, label_smoothing)


def _regression(
    derivative: Callable[[Tensor], Tensor],
) -> Callable[[Tensor, Tensor, float], Tensor]:
    def gradient_of_loss(output: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
        return derivative(output - target[:, None])

    return gradient_of_loss


def _margin(derivative: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, float], Tensor]:
    def gradient_of_loss(output: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
        sign = (2 * target - 1).to(output.dtype)
        gradient = derivative(sign * (output[:, 1] - output[:, 0])) * sign
        return torch.stack([-gradient, gradient], dim=1)

    return gradient_of_loss


def _cross_entropy(output: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
    count = output.shape[1]
    smoothed = torch.full_like(output, label_smoothing / count)
    smoothed[torch.arange(len(target)), target] += 1 - label_smoothing
    return output.softmax(dim=1) - smoothed


LOSS_GRADIENTS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "absolute_error": _regression(torch.sign),
    "cross_entropy": _cross_entropy,
    "exponential": _margin(lambda m: -(-m).clamp(max=MAX_EXP_MARGIN).exp()),
    "hinge": _margin(lambda m: -(m < 1).to(m.dtype)),
    "huber": _regression(lambda r: r.clamp(-1, 1)),
    "squared_error": _regression(lambda r: 2 * r),
}


# --- derivatives of activations -------------------------------------------------------------------


def _gelu(x: Tensor) -> Tensor:
    # x σ(u), u = 2√(2/π) (x + 0.044715 x³)
    s = torch.sigmoid(GELU_LINEAR * (x + GELU_CUBIC * x**3))
    return s + x * s * (1 - s) * GELU_LINEAR * (1 + 3 * GELU_CUBIC * x**2)


def _gelu_exact(x: Tensor) -> Tensor:
    # x Φ(x): Φ(x) + x φ(x)
    cdf = torch.special.ndtr(x)
    return cdf + x * torch.exp(-(x**2) / 2) / (2 * torch.pi) ** 0.5


def _gelu_sigmoid(x: Tensor) -> Tensor:
    s = torch.sigmoid(GELU_SIGMOID_SCALE * x)
    return s + GELU_SIGMOID_SCALE * x * s * (1 - s)


def _silu(x: Tensor) -> Tensor:
    s = x.sigmoid()
    return s + x * s * (1 - s)


def _elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.where(x > 0, 1.0, alpha * x.clamp(max=0).exp())


def _leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    return torch.where(x > 0, 1.0, alpha)


ACTIVATION_DERIVATIVES: dict[str, Callable[..., Tensor]] = {
    "elu": _elu,
    "gelu": _gelu,
    "gelu_exact": _gelu_exact,
    "gelu_sigmoid": _gelu_sigmoid,
    "leaky_relu": _leaky_relu,
    "linear": torch.ones_like,
    "relu": lambda x: (x > 0).to(x.dtype),
    "selu": lambda x: SELU_SCALE * torch.where(x > 0, 1.0, SELU_ALPHA * x.clamp(max=0).exp()),
    "sigmoid": lambda x: x.sigmoid() * (1 - x.sigmoid()),
    "silu": _silu,
    "tanh": lambda x: 1 - x.tanh() ** 2,
}
