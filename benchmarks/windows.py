"""Cost of sliding-window attention against the length of the sequence.

    python benchmarks/windows.py [max_length] [window]

Causal self-attention of one layer, forward and backward, three ways: dense (attends to all earlier
positions), with a mask only (the kernel computes all products) and in blocks, as `Attention` does
it by default. The last two are checked to be equal before they are timed. The three alternate, so
that other load on the machine affects all. Linear cost doubles the time with the length; quadratic
cost quadruples it. If the blocks were not the fastest from some length on, the choice made by
`saccade/nn/kernels/sliding_window.py` would be wrong.
"""

import sys
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from timing import matrix_rate, print_machine, seconds, spread, table
from torch import Tensor

from saccade.nn import Attention, Mask, ScaledDotScore

ROWS, HEADS, WIDTH = 2, 4, 32
REPEATS, WARMUP = 5, 1


def variants(x: Tensor, window: int) -> dict[str, Callable[[], Tensor]]:
    """Return the three variants of self-attention on x."""
    attention, mask, length = Attention(ScaledDotScore()), Mask.causal_window(window), x.shape[2]

    def masked() -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask.may_see(length, length))

    return {
        "dense": lambda: attention(x, x, x, Mask.causal()),
        "mask only": masked,
        "blocks": lambda: attention(x, x, x, mask),
    }


def forward_backward(run: Callable[[], Tensor]) -> None:
    """Run forward and backward."""
    run().sum().backward()


def milliseconds(runs: dict[str, Callable[[], Tensor]]) -> dict[str, list[float]]:
    """Return the milliseconds of forward and backward, measured in alternation."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(WARMUP + REPEATS):
        for name, run in runs.items():
            took = seconds(partial(forward_backward, run), 1, 0)[0]
            if turn >= WARMUP:
                found[name].append(1e3 * took)
    return found


def main() -> None:
    """Run the benchmark and print the results."""
    max_length = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    window = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    print_machine()
    print(f"Matrix products: {matrix_rate(window, WIDTH, 2 * window, ROWS * HEADS)} GFLOP/s")
    print(f"{ROWS} rows, {HEADS} heads of {WIDTH}, a causal window of {window}")
    rows, length = [], 256
    while length <= max_length:
        x = torch.randn(ROWS, HEADS, length, WIDTH, requires_grad=True)
        runs = variants(x, window)
        torch.testing.assert_close(runs["blocks"](), runs["mask only"](), rtol=1e-4, atol=1e-5)
        took = milliseconds(runs)
        ratios = [
            mask / block for mask, block in zip(took["mask only"], took["blocks"], strict=True)
        ]
        rows.append([length, *(spread(times) for times in took.values()), spread(ratios)])
        length *= 2
    heads = ["length", *(f"{name}, ms" for name in took), "mask only / blocks"]
    table(heads, rows)


if __name__ == "__main__":
    main()
