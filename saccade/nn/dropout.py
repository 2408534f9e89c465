r"""Dropout with a quarter of the random numbers, and alpha dropout for selu."""

import torch
from torch import Tensor, nn

from saccade.nn.activations import SELU_ALPHA, SELU_SCALE
from saccade.seeding import thread_generator


class Dropout(nn.Module):
    r"""x ∘ m / (1 - p) with m ~ Bernoulli(1 - p) while training (Srivastava et al. 2014).

    On a CPU most of the cost of dropout is one random number for each element. Here each 64-bit
    number serves four elements, 16 bits each, so p is rounded to the nearest 1/65536 (and the scale
    is that of the rounded p). On other devices it is torch's.
    """

    def __init__(self, p: float = 0.0):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"got dropout {p}; expected a number in [0, 1).")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements while training; otherwise x itself."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return nn.functional.dropout(x, self.p)
        dropped = min(round(self.p * 65536), 65535)  # p is below 1, so not all are dropped
        if dropped == 0:
            return x
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
        draws.random_(-(2**63), None, generator=thread_generator())
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        scale = 65536 / (65536 - dropped)
        return x * (bits >= dropped - 32768).to(x.dtype).mul_(scale)

    def extra_repr(self) -> str:
        """Return the probability, for `print(model)`."""
        return f"p={self.p}"


class AlphaDropout(Dropout):
    r"""Dropout that keeps mean 0 and variance 1 (Klambauer et al. 2017, section 3).

    Dropped elements become -λα, the limit of selu for x → -∞, and all are then scaled and shifted:
    a (x m - λα (1 - m)) + b with a = ((1 - p)(1 + p λ²α²))^{-1/2}, b = a p λα.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements while training; otherwise x itself."""
        if not self.training or self.p == 0:
            return x
        kept = torch.empty_like(x).bernoulli_(1 - self.p, generator=thread_generator())
        limit = -SELU_SCALE * SELU_ALPHA
        scale = ((1 - self.p) * (1 + self.p * limit**2)) ** -0.5
        return scale * (x * kept + limit * (1 - kept)) - scale * self.p * limit
