r"""Dropout, with a quarter of the random numbers; and the kind that goes with selu."""

import torch
from torch import Tensor, nn

from saccade.nn.activations import SELU_ALPHA, SELU_SCALE
from saccade.seeding import thread_generator


class Dropout(nn.Module):
    r"""x ∘ m / (1 - p) with m ~ Bernoulli(1 - p) while training (Srivastava et al. 2014).

    On the CPU, drawing one random number for each element is what dropout costs most. Here each
    64-bit draw serves four elements, 16 bits each, so p is rounded to the nearest 1/65536 (and
    the scale is that of the rounded p). Elsewhere it is the framework's.
    """

    def __init__(self, p: float = 0.0):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout is {p}; it must be at least 0 and below 1.")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements while training; otherwise x itself."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return nn.functional.dropout(x, self.p)
        dropped = min(round(self.p * 65536), 65535)  # p is below 1: something must remain
        if dropped == 0:
            return x
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
        draws.random_(-(2**63), None, generator=thread_generator())
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        scale = 65536 / (65536 - dropped)
        return x * (bits >= dropped - 32768).to(x.dtype).mul_(scale)

    def extra_repr(self) -> str:
        """For printing a model."""
        return f"p={self.p}"


class AlphaDropout(Dropout):
    r"""Dropout that keeps mean 0 and variance 1 (Klambauer et al. 2017, section 3).

    What is dropped becomes -λα, selu's limit for x → -∞, and all is then stretched and shifted:
    a (x m - λα (1 - m)) + b with a = ((1 - p)(1 + p λ²α²))^{-1/2}, b = a p λα.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements while training; otherwise x itself."""
        if not self.training or self.p == 0:
            return x
        kept = torch.empty_like(x).bernoulli_(1 - self.p, generator=thread_generator())
        least = -SELU_SCALE * SELU_ALPHA
        stretch = ((1 - self.p) * (1 + self.p * least**2)) ** -0.5
        return stretch * (x * kept + least * (1 - kept)) - stretch * self.p * least
