"""Speed of our training kernels for attention, GELU and convolution against the framework's.

    python benchmarks/kernels.py [threads]

Forward and backward of causal attention, blockwise (`saccade/nn/kernels/causal_attention.py`) and
fused; of GELU, with its derivative computed in the forward pass (`saccade/nn/kernels/gelu.py`) and
the framework's; and of 3 × 3 convolutions, by Winograd's algorithm
(`saccade/nn/kernels/winograd.py`) and the framework's, on images that are channels last; in
alternation. Where ours is slower on a kind of processor, the conditions in those modules that
select our kernel are wrong for it.
"""

import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from timing import print_machine, seconds, table
from torch import Tensor

from saccade.nn.kernels.causal_attention import blockwise_causal_attention
from saccade.nn.kernels.gelu import fused_gelu
from saccade.nn.kernels.winograd import winograd_convolution
from saccade.training.device import tune_malloc

HEADS, REPEATS, WARMUP = 4, 25, 5
SHAPES = [(48, 16, 32), (12, 64, 32), (12, 128, 64), (12, 256, 64), (4, 512, 64)]
NUMBERS = [768 * 512, 3072 * 1536]
# images, channels and side: the stages of a ResNet-18 for small images, and the smallest ones
CONVOLUTIONS = [(32, 64, 32), (32, 128, 16), (32, 256, 8), (32, 512, 4), (16, 64, 16)]


def compare(ours: Callable[[], Tensor], theirs: Callable[[], Tensor], onto: Tensor) -> list[str]:
    """Return the milliseconds of both, forward and backward, and the speed-up of ours."""
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(WARMUP + REPEATS):
        for run, times in zip((ours, theirs), found, strict=True):
            took = seconds(partial(lambda run: run().backward(onto), run), 1, 0)[0]
            if turn >= WARMUP:
                times.append(1e3 * took)
    own, peer = map(median, found)
    return [f"{own:.2f}", f"{peer:.2f}", f"{peer / own:.2f}"]


def attention(rows: int, steps: int, width: int) -> list[str]:
    """Compare causal attention on the memory layout that a projection returns."""
    joined = torch.randn(rows, steps, 3, HEADS, width).permute(2, 0, 3, 1, 4)
    q, k, v = (part.detach().requires_grad_() for part in joined)
    onto = torch.randn(rows, steps, HEADS, width).transpose(1, 2)
    fused = partial(F.scaled_dot_product_attention, q, k, v, is_causal=True)
    return compare(partial(blockwise_causal_attention, q, k, v), fused, onto)


def gelu(count: int) -> list[str]:
    """Compare GELU on the activations of a feed-forward layer."""
    x, onto = torch.randn(count, requires_grad=True), torch.randn(count)
    theirs = partial(F.gelu, x, approximate="tanh")
    return compare(lambda: fused_gelu(x), theirs, onto)


def convolution(count: int, channels: int, side: int) -> list[str]:
    """Compare a 3 × 3 convolution that keeps the number of channels."""
    form = {"memory_format": torch.channels_last}
    x = torch.randn(count, channels, side, side).contiguous(**form).requires_grad_()
    kernel = torch.randn(channels, channels, 3, 3, requires_grad=True)
    onto = torch.randn(count, channels, side, side).contiguous(**form)
    theirs = partial(F.conv2d, x, kernel, padding=1)
    return compare(partial(winograd_convolution, x, kernel), theirs, onto)


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    tune_malloc()
    print(f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    rows = [
        [f"attention, {B} rows, {HEADS} heads of {K}, {T} positions", *attention(B, T, K)]
        for B, T, K in SHAPES
    ]
    rows += [[f"GELU of {count:,} numbers", *gelu(count)] for count in NUMBERS]
    rows += [
        [f"convolution, {B} images of {side} × {side}, {C} channels", *convolution(B, C, side)]
        for B, C, side in CONVOLUTIONS
    ]
    table(["", "ours, ms", "the framework's, ms", "speed-up"], rows)


if __name__ == "__main__":
    main()
