r"""Activation functions."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.nn.kernels.gelu import fused_gelu, gelu_reference, is_fused_gelu_faster
from saccade.registry import lookup
from saccade.types.names import ACTIVATIONS_WITH_ALPHA

GELU_SIGMOID_SCALE = 1.702
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def gelu(x: Tensor) -> Tensor:
    r"""x Φ(x), by its approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).

    Hendrycks and Gimpel 2016, section 2; the activation of GPT-1 to GPT-3. Training on a CPU
    without AVX-512 uses `saccade.nn.kernels.gelu`.
    """
    return fused_gelu(x) if is_fused_gelu_faster(x) else gelu_reference(x)


def gelu_exact(x: Tensor) -> Tensor:
    r"""x Φ(x) = x/2 (1 + erf(x/√2)) (Hendrycks and Gimpel 2016), the exact GELU."""
    return F.gelu(x)


def gelu_sigmoid(x: Tensor) -> Tensor:
    r"""x σ(1.702 x): the cheaper approximation of x Φ(x) in the same paper."""
    return x * torch.sigmoid(GELU_SIGMOID_SCALE * x)


def identity(x: Tensor) -> Tensor:
    r"""x itself: a stack of linear layers is one linear layer."""
    return x


def sigmoid(x: Tensor) -> Tensor:
    r"""σ(x) = 1 / (1 + exp(-x)); its derivative σ(1 - σ) is at most ¼, and near 0 for large |x|."""
    return x.sigmoid()


def tanh(x: Tensor) -> Tensor:
    r"""(exp(x) - exp(-x)) / (exp(x) + exp(-x)) = 2σ(2x) - 1; its derivative is 1 - tanh² ≤ 1."""
    return x.tanh()


def relu(x: Tensor) -> Tensor:
    r"""max(0, x); the subgradient at 0 is 0."""
    return x.relu()


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    r"""x where x > 0, else α x (Maas et al. 2013); the subgradient at 0 is α."""
    return F.leaky_relu(x, alpha)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    r"""x where x > 0, else α (exp(x) - 1) (Clevert et al. 2016); it tends to -α."""
    return F.elu(x, alpha)


def selu(x: Tensor) -> Tensor:
    r"""λ x where x > 0, else λ α (exp(x) - 1) (Klambauer et al. 2017).

    λ = `SELU_SCALE` and α = `SELU_ALPHA` keep mean 0 and variance 1 for inputs from N(0, 1). Use it
    with LeCun's initialisation and `saccade.nn.dropout.AlphaDropout`, which keep them too.
    """
    return F.selu(x)


def silu(x: Tensor) -> Tensor:
    r"""x σ(x) (Elfwing et al. 2018), also called swish."""
    return F.silu(x)


def softmax(x: Tensor) -> Tensor:
    r"""exp(x_i) / Σ_j exp(x_j), over the last axis: the only one here that is not element-wise."""
    return x.softmax(dim=-1)


ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "elu": elu,
    "gelu": gelu,
    "gelu_exact": gelu_exact,
    "gelu_sigmoid": gelu_sigmoid,
    "leaky_relu": leaky_relu,
    "linear": identity,
    "relu": relu,
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": silu,
    "softmax": softmax,
    "tanh": tanh,
}


def make_activation(name: str, alpha: float | None = None) -> Callable[[Tensor], Tensor]:
    """Return an activation by name, `elu` and `leaky_relu` with this α if it is given."""
    function = lookup(ACTIVATIONS, name, "activation")
    if alpha is None:
        return function
    if name not in ACTIVATIONS_WITH_ALPHA:
        raise ValueError(
            f"got an α of {alpha} for {name}; expected one of "
            f"{', '.join(ACTIVATIONS_WITH_ALPHA)}, which have one."
        )
    return partial(function, alpha=alpha)


class ActivationLayer(nn.Module):
    """An activation as a layer, for `nn.Sequential`."""

    def __init__(self, name: str, alpha: float | None = None):
        super().__init__()
        self.function = make_activation(name, alpha)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the activation."""
        return self.function(x)
