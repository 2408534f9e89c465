"""What does attention through a window cost against the length of the sequence?

    python benchmarks/windows.py [longest] [window]

Causal self-attention of one layer, forward and backward, three ways: dense (every earlier place is
seen), with a mask alone (the kernel is handed the whole table of who may see whom, and makes all
products) and in blocks, as `Attention` does it by itself. The last two are checked to compute the
same before they are timed. The three are measured in turn, so that whatever else the machine does
falls on all. Where a doubled length doubles the time, the cost grows with the window; where it
takes four times as long, with the square of the length. If the blocks were not the quickest from
some length on, `saccade/nn/kernels/sliding_window.py` would choose wrongly.
"""

import sys
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from timing import matrix_rate, say_machine, seconds, spread, table
from torch import Tensor

from saccade.nn import Attention, Mask, ScaledDotScore

ROWS, HEADS, WIDTH = 2, 4, 32
REPEATS, WARMUP = 5, 1


def ways(x: Tensor, window: int) -> dict[str, Callable[[], Tensor]]:
    """The attention of x to itself, three ways."""
    attention, mask, length = Attention(ScaledDotScore()), Mask.causal_window(window), x.shape[2]

    def masked() -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask.may_see(length, length))

    return {
        "dense": lambda: attention(x, x, x, Mask.causal()),
        "mask alone": masked,
        "blocks": lambda: attention(x, x, x, mask),
    }


def there_and_back(run: Callable[[], Tensor]) -> None:
    """Forward and backward."""
    run().sum().backward()


def milliseconds(runs: dict[str, Callable[[], Tensor]]) -> dict[str, list[float]]:
    """Of forward and backward, one way after the other and again."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(WARMUP + REPEATS):
        for name, run in runs.items():
            took = seconds(partial(there_and_back, run), 1, 0)[0]
            if turn >= WARMUP:
                found[name].append(1e3 * took)
    return found


def main() -> None:
    """Measure and print."""
    longest = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    window = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    say_machine()
    print(f"Matrix products: {matrix_rate(window, WIDTH, 2 * window, ROWS * HEADS)} GFLOP/s")
    print(f"{ROWS} rows, {HEADS} heads of {WIDTH}, a causal window of {window}")
    rows, length = [], 256
    while length <= longest:
        x = torch.randn(ROWS, HEADS, length, WIDTH, requires_grad=True)
        runs = ways(x, window)
        torch.testing.assert_close(runs["blocks"](), runs["mask alone"](), rtol=1e-4, atol=1e-5)
        took = milliseconds(runs)
        ratios = [
            mask / block for mask, block in zip(took["mask alone"], took["blocks"], strict=True)
        ]
        rows.append([length, *(spread(times) for times in took.values()), spread(ratios)])
        length *= 2
    heads = ["length", *(f"{name}, ms" for name in took), "mask alone / blocks"]
    table(heads, rows)


if __name__ == "__main__":
    main()
