"""Matrix-product and memory rates of this machine in float32, without a model.

    python benchmarks/machine.py

The other benchmarks report shares of the square product. The other shapes are those of a
Transformer of width 256 on 4096 tokens: where they are slower than the square one, no model built
on them can do better. The copy is the lower bound for memory-bound work (norms, dropout, the
optimiser).
"""

import torch
from timing import Spread, matrix_rate, print_machine, seconds, spread, table

SHAPES = {
    "square, 1024": (1024, 1024, 1024),
    "attention's query or output": (4096, 256, 256),
    "attention's keys and values": (4096, 256, 512),
    "feed-forward, inner": (4096, 256, 1024),
    "feed-forward, outer": (4096, 1024, 256),
    "gradient of the inner weights": (256, 4096, 1024),
    "output projection, 8000 words": (4096, 256, 8000),
}


def copy_rate(megabytes: int = 256) -> Spread:
    """Return the GB/s, reads plus writes, of a copy that is larger than the caches."""
    source = torch.zeros(megabytes << 18)
    target = torch.zeros_like(source)
    times = seconds(lambda: target.copy_(source))
    return spread([2 * megabytes / 1024 / time for time in times])


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    rates = {name: matrix_rate(*shape) for name, shape in SHAPES.items()}
    rates["scores of 256 rows, 4 heads, 16 steps"] = matrix_rate(16, 64, 16, batch=256 * 4)
    peak = rates["square, 1024"].middle
    table(
        ["matrix product", "GFLOP/s", "share of the square one"],
        [[name, rate, f"{rate.middle / peak:.0%}"] for name, rate in rates.items()],
    )
    print()
    table(["memory", "GB/s"], [["copy of 256 MB", copy_rate()]])


if __name__ == "__main__":
    main()
