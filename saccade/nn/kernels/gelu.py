r"""GELU for training on a CPU without a vectorised tanh.

The tanh approximation equals a sigmoid, x/2 (1 + tanh(u/2)) = x σ(u), which is faster there
(`benchmarks/kernels.py` has the times).
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

GELU_CHUNK = 1 << 18  # elements processed at a time, while they are in the cache of the CPU
GELU_LINEAR = 2 * (2 / torch.pi) ** 0.5
GELU_CUBIC = 0.044715
HAS_FAST_TANH = torch.backends.cpu.get_cpu_capability() == "AVX512"  # in torch's kernel


def gelu_reference(x: Tensor) -> Tensor:
    r"""x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    return F.gelu(x, approximate="tanh")


def is_fused_gelu_faster(x: Tensor) -> bool:
    """Return True where `fused_gelu` is faster than torch's kernel."""
    is_training = torch.is_grad_enabled() and x.requires_grad and not torch.compiler.is_compiling()
    is_supported = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return is_training and is_supported and not HAS_FAST_TANH


def fused_gelu(x: Tensor) -> Tensor:
    r"""Compute x σ(2√(2/π) (x + 0.044715 x³)) and its derivative together, chunk by chunk."""
    result: Tensor = _Gelu.apply(x)
    return result


class _Gelu(torch.autograd.Function):
    r"""With s = σ(a (x + b x³)): y = x s, and y' = s + 3ab (y - y s) (x² + 1/3b).

    Both are computed in the forward pass, while x is in the cache; the backward pass only scales.
    There is no second derivative.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return y, and save y' for the backward pass."""
        x = x.contiguous()
        y, slope = torch.empty_like(x), torch.empty_like(x)
        for x_, y_, s_ in _chunks(x, y, slope):
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
        """Return y' times the gradient."""
        (slope,) = ctx.saved_tensors
        return gradient * slope


def _chunks(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    return zip(*(tensor.view(-1).split(GELU_CHUNK) for tensor in tensors), strict=True)
