r"""Functions of one number, applied to many."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

HELD = 1 << 18  # numbers that are taken the whole way at once, while a processor's cache has them
LINEAR = 2 * (2 / torch.pi) ** 0.5
CUBIC = 0.044715
HAS_QUICK_TANH = torch.backends.cpu.get_cpu_capability() == "AVX512"  # in the framework's kernel


def gelu(x: Tensor) -> Tensor:
    r"""x Φ(x), by its approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).

    Hendrycks and Gimpel 2016, section 2; what GPT-1 to GPT-3 compute. On a processor without
    AVX-512 that is to learn it is computed as x σ(2√(2/π) (x + 0.044715 x³)), which is the same
    number (`benchmarks/kernels.py` has the times).
    """
    learning = torch.is_grad_enabled() and x.requires_grad and not torch.compiler.is_compiling()
    plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    if learning and plain and not HAS_QUICK_TANH:
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
            torch.addcmul(x_, square, x_, value=CUBIC, out=s_).mul_(LINEAR).sigmoid_()
            torch.mul(x_, s_, out=y_)
            rest = torch.addcmul(y_, y_, s_, value=-1)
            s_.addcmul_(rest, square.add_(1 / (3 * CUBIC)), value=3 * CUBIC * LINEAR)
        ctx.save_for_backward(slope)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """y' times the gradient."""
        (slope,) = ctx.saved_tensors
        return gradient * slope


def _held(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    return zip(*(tensor.view(-1).split(HELD) for tensor in tensors), strict=True)


def relu(x: Tensor) -> Tensor:
    r"""max(0, x)."""
    return x.relu()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": gelu, "relu": relu}
