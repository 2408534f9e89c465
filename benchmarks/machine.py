"""How fast is this machine, before any model? Matrix products and memory, in float32.

    python benchmarks/machine.py

The square product is what the other benchmarks' shares are shares of. The other shapes are those
of a Transformer of width 256 on 4096 tokens: where they fall short of the square one, no code
above them can do better. The copy tells what work that only touches memory (norms, dropout, the
optimiser) can cost at best.
"""

import torch
from timing import Spread, matrix_rate, say_machine, seconds, spread, table

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
    """GB/s read and written together, copying what fits in no cache."""
    source = torch.zeros(megabytes << 18)
    target = torch.zeros_like(source)
    times = seconds(lambda: target.copy_(source))
    return spread([2 * megabytes / 1024 / time for time in times])


def main() -> None:
    """Measure and print."""
    say_machine()
    rates = {name: matrix_rate(*shape) for name, shape in SHAPES.items()}
    rates["scores of 256 rows, 4 heads, 16 steps"] = matrix_rate(16, 64, 16, batch=256 * 4)
    peak = rates["square, 1024"].middle
    table(
        ["matrix product", "GFLOP/s", "of the square one"],
        [[name, rate, f"{rate.middle / peak:.0%}"] for name, rate in rates.items()],
    )
    print()
    table(["memory", "GB/s"], [["copy of 256 MB", copy_rate()]])


if __name__ == "__main__":
    main()
