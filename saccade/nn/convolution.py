r"""Convolution, pooling and batch normalisation of images: equations by loops, and torch's kernels.

    cross-correlation   y[d,i,j] = b[d] + Σ_{c,u,v} K[d,c,u,v] x[c, s i + δ u - p, s j + δ v - p]
    convolution         the same with the flipped kernel, K[d,c,-u,-v]
    pooling             y[c,i,j] = max, mean or one sample of x[c, s i + u, s j + v] over u, v

s is the stride, p the padding (zeros around the image), δ the dilation. With g groups, the output
channels of a group depend on the input channels of that group only. Networks call the layer that
cross-correlates a convolution, since a learned kernel may as well be learned flipped. Each function
`…_reference` is its equation, number by number; the one without the suffix calls torch.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.kernels.winograd import is_winograd_faster, winograd_convolution
from saccade.seeding import thread_generator
from saccade.types.shapes import Images

Kernel = Float[Tensor, "D E U W"]  # output channels, input channels of one group, height, width

# --- convolution ----------------------------------------------------------------------------------


def cross_correlate(
    x: Images,
    kernel: Kernel,
    bias: Float[Tensor, " D"] | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Float[Tensor, "B D Y2 X2"]:
    """Cross-correlate images with a kernel: the layer that networks call a convolution."""
    return F.conv2d(x, kernel, bias, stride, padding, dilation, groups)


def convolve_images(
    x: Images, kernel: Kernel, bias: Float[Tensor, " D"] | None = None, **geometry: int
) -> Float[Tensor, "B D Y2 X2"]:
    """Convolve images with a kernel: `cross_correlate` with the kernel flipped on both axes."""
    return cross_correlate(x, kernel.flip(-2, -1), bias, **geometry)


def cross_correlate_reference(
    x: Images,
    kernel: Kernel,
    bias: Float[Tensor, " D"] | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Float[Tensor, "B D Y2 X2"]:
    """Compute `cross_correlate` by loops over channels, pixels and taps."""
    D, E, U, W = kernel.shape
    height = convolved_size(x.shape[2], U, stride, padding, dilation)
    width = convolved_size(x.shape[3], W, stride, padding, dilation)
    padded = F.pad(x, (padding, padding, padding, padding))
    y = x.new_zeros(len(x), D, height, width)
    for d, i, j in product(range(D), range(height), range(width)):
        if bias is not None:
            y[:, d, i, j] += bias[d]
        first = d // (D // groups) * E  # channel of the group
        for c, u, w in product(range(E), range(U), range(W)):
            row, column = stride * i + dilation * u, stride * j + dilation * w
            y[:, d, i, j] += kernel[d, c, u, w] * padded[:, first + c, row, column]
    return y


def convolve_images_reference(
    x: Images, kernel: Kernel, *, padding: int = 0
) -> Float[Tensor, "B D Y2 X2"]:
    r"""Compute y[d,i,j] = Σ K[d,c,u,v] x[c, i + U - 1 - u - p, j + W - 1 - v - p] by loops."""
    D, C, U, W = kernel.shape
    height = convolved_size(x.shape[2], U, padding=padding)
    width = convolved_size(x.shape[3], W, padding=padding)
    padded = F.pad(x, (padding, padding, padding, padding))
    y = x.new_zeros(len(x), D, height, width)
    for d, i, j in product(range(D), range(height), range(width)):
        for c, u, w in product(range(C), range(U), range(W)):
            y[:, d, i, j] += kernel[d, c, u, w] * padded[:, c, i + U - 1 - u, j + W - 1 - w]
    return y


def convolved_size(
    size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1
) -> int:
    r"""⌊(size + 2p - δ (kernel - 1) - 1) / s⌋ + 1: pixels of a side after a convolution."""
    span = dilation * (kernel - 1) + 1
    if size + 2 * padding < span:
        raise ValueError(
            f"got {size} pixels and a kernel that spans {span}; expected at least "
            f"{span - 2 * padding} pixels; try padding={(span - size + 1) // 2}."
        )
    return (size + 2 * padding - span) // stride + 1


def convolve_pixels(
    x: Images, weight: Float[Tensor, "D C"], bias: Float[Tensor, " D"] | None = None
) -> Float[Tensor, "B D Y X"]:
    """Apply a dense layer to the channels of each pixel: a convolution with 1 × 1 kernels.

    It mixes channels and no pixels, and changes the number of channels (Lin et al. 2014).
    """
    return F.linear(x.movedim(1, -1), weight, bias).movedim(-1, 1)


PLAIN_3_BY_3 = ((3, 3), (1, 1), (1, 1), (1, 1), 1)  # kernel, stride, padding, dilation, groups


class Conv2d(nn.Conv2d):
    """torch's layer, with 3 × 3 kernels by Winograd's algorithm where that is faster."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        geometry = (self.kernel_size, self.stride, self.padding, self.dilation, self.groups)
        if (
            geometry != PLAIN_3_BY_3
            or self.padding_mode != "zeros"
            or not is_winograd_faster(input, weight)
        ):
            return super()._conv_forward(input, weight, bias)
        y = winograd_convolution(input, weight)
        return y if bias is None else y.add_(bias[:, None, None])


# --- pooling --------------------------------------------------------------------------------------


class StochasticPool2d(nn.Module):
    r"""One sample of each region in training, the expectation in inference.

        p_i = max(a_i, 0) / Σ_k max(a_k, 0)     y = a_l with l ~ p, or in inference y = Σ_i p_i a_i

    Zeiler and Fergus 2013, eqs. 4 to 6, for activations that are not negative (ReLU). A negative
    one is never sampled here, and a region without a positive one gives 0.
    """

    def __init__(self, kernel_size: int, stride: int | None = None):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride or kernel_size

    def forward(self, x: Images) -> Float[Tensor, "B C Y2 X2"]:
        """Pool each channel."""
        size, stride = self.kernel_size, self.stride
        regions = x.unfold(2, size, stride).unfold(3, size, stride).flatten(-2)
        positive = regions.clamp(min=0)
        if not self.training:
            total = positive.sum(-1)
            # the denominator of an empty region is 1, so that its gradient is finite
            return positive.square().sum(-1) / total.masked_fill(total == 0, 1)
        bounds = positive.detach().cumsum(-1)
        draws = torch.empty_like(bounds[..., :1]).uniform_(generator=thread_generator())
        # a draw below the first bound chooses the first element, and so on; a draw that rounding
        # puts at the last bound, and every draw of an empty region, chooses the largest element
        chosen = (bounds <= draws * bounds[..., -1:]).sum(-1, keepdim=True)
        largest = positive.argmax(-1, keepdim=True)
        chosen = torch.where(chosen < regions.shape[-1], chosen, largest)
        return positive.gather(-1, chosen)[..., 0]

    def extra_repr(self) -> str:
        """Return the sizes, for `print(model)`."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}"


POOLINGS: dict[str, Callable[[int], nn.Module]] = {
    "max": nn.MaxPool2d,
    "mean": nn.AvgPool2d,
    "stochastic": StochasticPool2d,
}


def pool_reference(
    x: Images, kind: str, kernel_size: int, stride: int | None = None
) -> Float[Tensor, "B C Y2 X2"]:
    """Compute a pooling of `POOLINGS` by loops; the stochastic one as in inference."""
    stride = stride or kernel_size
    B, C, Y, X = x.shape
    height, width = (convolved_size(size, kernel_size, stride) for size in (Y, X))
    y = x.new_zeros(B, C, height, width)
    for b, c, i, j in product(range(B), range(C), range(height), range(width)):
        region = [
            x[b, c, stride * i + u, stride * j + w].item()
            for u, w in product(range(kernel_size), range(kernel_size))
        ]
        y[b, c, i, j] = _pool_region(region, kind)
    return y


def _pool_region(region: list[float], kind: str) -> float:
    if kind == "max":
        return max(region)
    if kind == "mean":
        return sum(region) / len(region)
    positive = [max(value, 0.0) for value in region]
    total = sum(positive)
    return sum(value / total * value for value in positive) if total else 0.0


def global_mean_pool(x: Images) -> Float[Tensor, "B C"]:
    """Return the mean of each channel (Lin et al. 2014): no weights, for images of any size."""
    return x.mean((2, 3))


def global_max_pool(x: Images) -> Float[Tensor, "B C"]:
    """Return the largest value of each channel, wherever in the image it is."""
    return x.amax((2, 3))


# --- batch normalisation --------------------------------------------------------------------------


class RunningStatistics(NamedTuple):
    """The running mean and variance of each channel, which inference uses."""

    mean: Float[Tensor, " C"]
    variance: Float[Tensor, " C"]


def normalise_channels(
    x: Images,
    gain: Float[Tensor, " C"],
    bias: Float[Tensor, " C"],
    running: RunningStatistics,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Images, RunningStatistics]:
    r"""Return γ (x - μ) / √(σ² + ε) + β channel by channel, and the new running statistics.

    Ioffe and Szegedy 2015, algorithms 1 and 2. In training, μ and σ² are the mean and the biased
    variance of a channel over the images and pixels of the batch, and r ← (1 - m) r + m μ with the
    momentum m, for the variance with the unbiased one of the batch. In inference they are the
    running ones. The layer `nn.BatchNorm2d` keeps them as buffers and computes the same.
    """
    mean, variance = running
    if training:
        axes, count = (0, 2, 3), x.numel() // x.shape[1]
        mean = x.mean(axes)
        variance = (x - mean[:, None, None]).square().mean(axes)
        unbiased = variance * count / (count - 1)
        running = RunningStatistics(
            (1 - momentum) * running.mean + momentum * mean,
            (1 - momentum) * running.variance + momentum * unbiased,
        )
    scale = gain / (variance + eps).sqrt()
    shifted = x - mean[:, None, None]
    return scale[:, None, None] * shifted + bias[:, None, None], running
