"""Which kernels does a GPT learn by faster on this processor, the framework's or ours?

    python benchmarks/kernels.py [threads]

Forward and backward of causal attention, in blocks (`saccade/nn/kernels/causal_attention.py`) and fused, and of GELU,
with its slope on the way forward (`saccade/nn/activations.py`) and the framework's; both ways in
turn. Where ours is slower than the framework's on a kind of processor, `FEWEST` or `HAS_QUICK_TANH`
is wrong for it.
"""

import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from timing import say_machine, seconds, table
from torch import Tensor

from saccade.nn import activations
from saccade.nn.kernels.causal_attention import blockwise_causal_attention
from saccade.training.device import tune_malloc

HEADS, REPEATS, WARMUP = 4, 25, 5
SHAPES = [(48, 16, 32), (12, 64, 32), (12, 128, 64), (12, 256, 64), (4, 512, 64)]
NUMBERS = [768 * 512, 3072 * 1536]


def compared(ours: Callable[[], Tensor], theirs: Callable[[], Tensor], onto: Tensor) -> list[str]:
    """Milliseconds of each there and back, and how many times as fast ours is."""
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(WARMUP + REPEATS):
        for run, times in zip((ours, theirs), found, strict=True):
            took = seconds(partial(lambda run: run().backward(onto), run), 1, 0)[0]
            if turn >= WARMUP:
                times.append(1e3 * took)
    one, other = map(median, found)
    return [f"{one:.2f}", f"{other:.2f}", f"{other / one:.2f}"]


def attention(rows: int, steps: int, width: int) -> list[str]:
    """Heads that lie beside each other, as a projection leaves them."""
    joined = torch.randn(rows, steps, 3, HEADS, width).permute(2, 0, 3, 1, 4)
    q, k, v = (part.detach().requires_grad_() for part in joined)
    onto = torch.randn(rows, steps, HEADS, width).transpose(1, 2)
    fused = partial(F.scaled_dot_product_attention, q, k, v, is_causal=True)
    return compared(partial(blockwise_causal_attention, q, k, v), fused, onto)


def gelu(count: int) -> list[str]:
    """As many numbers as a feed-forward layer has of them."""
    x, onto = torch.randn(count, requires_grad=True), torch.randn(count)
    theirs = partial(F.gelu, x, approximate="tanh")
    return compared(lambda: activations._Gelu.apply(x), theirs, onto)


def main() -> None:
    """Measure and print."""
    say_machine()
    if len(sys.argv) > 1:
        torch.set_num_threads(int(sys.argv[1]))
    tune_malloc()
    print(f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    rows = [
        [f"attention, {B} rows, {HEADS} heads of {K}, {T} places", *attention(B, T, K)]
        for B, T, K in SHAPES
    ]
    rows += [[f"GELU of {count:,} numbers", *gelu(count)] for count in NUMBERS]
    table(["", "ours, ms", "the framework's, ms", "ours is so many times as fast"], rows)


if __name__ == "__main__":
    main()
