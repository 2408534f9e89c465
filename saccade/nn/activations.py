r"""Functions of one number, applied to many."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from saccade.registry import lookup

GELU_CHUNK = (
    1 << 18
)  # numbers that are taken the whole way at once, while a processor's cache has them
GELU_LINEAR = 2 * (2 / torch.pi) ** 0.5
GELU_CUBIC = 0.044715
GELU_SIGMOID_SCALE = 1.702
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
HAS_FAST_TANH = torch.backends.cpu.get_cpu_capability() == "AVX512"  # in the framework's kernel


def gelu(x: Tensor) -> Tensor:
    r"""x Φ(x), by its approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).

    Hendrycks and Gimpel 2016, section 2; what GPT-1 to GPT-3 compute. On a processor without
    AVX-512 that is to learn it is computed as x σ(2√(2/π) (x + 0.044715 x³)), which is the same
    number (`benchmarks/kernels.py` has the times).
    """
    learning = torch.is_grad_enabled() and x.requires_grad and not torch.compiler.is_compiling()
    plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    if learning and plain and not HAS_FAST_TANH:
        gelu_by_parts: Tensor = _Gelu.apply(x)
        return gelu_by_parts
    return F.gelu(x, approximate="tanh")


class _Gelu(torch.autograd.Function):
    r"""With s = σ(a (x + b x³)): y = x s, and y' = s + 3ab (y - y s) (x² + 1/3b).

    Both are found on the way forward, while the cache has x, and the way back only scales. There
    is no second derivative.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """y, and y' for the way back."""
        x = x.contiguous()
        y, slope = torch.empty_like(x), torch.empty_like(x)
        for x_, y_, s_ in _held(x, y, slope):
            square = x_ * x_
            torch.addcmul(x_, square, x_, value=GELU_CUBIC, out=s_).mul_(GELU_LINEAR).sigmoid_()
            torch.mul(x_, s_, out=y_)
            rest = torch.addcmul(y_, y_, s_, value=-1)
            s_.addcmul_(rest, square.add_(1 / (3 * GELU_CUBIC)), value=3 * GELU_CUBIC * GELU_LINEAR)
        ctx.save_for_backward(slope)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """y' times the gradient."""
        (slope,) = ctx.saved_tensors
        return gradient * slope


def _held(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    return zip(*(tensor.view(-1).split(GELU_CHUNK) for tensor in tensors), strict=True)


def gelu_exact(x: Tensor) -> Tensor:
    r"""x Φ(x) = x/2 (1 + erf(x/√2)) (Hendrycks and Gimpel 2016): what `gelu` comes near to."""
    return F.gelu(x)


def gelu_sigmoid(x: Tensor) -> Tensor:
    r"""x σ(1.702 x): the cheaper approximation of x Φ(x), by the same paper."""
    return x * torch.sigmoid(GELU_SIGMOID_SCALE * x)


def identity(x: Tensor) -> Tensor:
    r"""x itself: layers upon layers of it are one layer."""
    return x


def sigmoid(x: Tensor) -> Tensor:
    r"""σ(x) = 1 / (1 + exp(-x)); its slope σ(1 - σ) is ¼ at most, and near 0 for large |x|."""
    return x.sigmoid()


def tanh(x: Tensor) -> Tensor:
    r"""(exp(x) - exp(-x)) / (exp(x) + exp(-x)) = 2σ(2x) - 1; its slope is 1 - tanh², 1 at most."""
    return x.tanh()


def relu(x: Tensor) -> Tensor:
    r"""max(0, x); the subgradient at 0 is 0."""
    return x.relu()


def leaky_relu(x: Tensor) -> Tensor:
    r"""x where x > 0, else 0.01 x (Maas et al. 2013); the subgradient at 0 is 0.01."""
    return F.leaky_relu(x, 0.01)


def elu(x: Tensor) -> Tensor:
    r"""x where x > 0, else exp(x) - 1 (Clevert et al. 2016)."""
    return F.elu(x)


def selu(x: Tensor) -> Tensor:
    r"""λ x where x > 0, else λ α (exp(x) - 1) (Klambauer et al. 2017).

    λ = `SELU_SCALE` and α = `SELU_ALPHA` are those for which a number drawn from N(0, 1) comes out
    with mean 0 and variance 1 again. Weights are to start as LeCun's, and what is dropped is to
    keep both: `saccade.nn.dropout.AlphaDropout`.
    """
    return F.selu(x)


def silu(x: Tensor) -> Tensor:
    r"""x σ(x) (Elfwing et al. 2018), also called swish."""
    return F.silu(x)


def softmax(x: Tensor) -> Tensor:
    r"""exp(x_i) / Σ_j exp(x_j), over the last axis: the one here that is not number by number."""
    return x.softmax(dim=-1)


Activation = Literal[  # the names, for settings
    "elu",
    "gelu",
    "gelu_exact",
    "gelu_sigmoid",
    "leaky_relu",
    "linear",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
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


class ActivationLayer(nn.Module):
    """One of them as a layer of its own, for `nn.Sequential`."""

    def __init__(self, name: str):
        super().__init__()
        self.function = lookup(ACTIVATIONS, name, "activation")

    def forward(self, x: Tensor) -> Tensor:
        """Number by number, unless it is softmax."""
        return self.function(x)
