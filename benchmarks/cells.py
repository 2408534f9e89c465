"""Speed of the framework's fused recurrent layers against the same cells unrolled in a loop.

    python benchmarks/cells.py

One layer of each cell, forward and backward, by the framework and by `UnrolledRNN`, with the same
weights, after a check that both compute the same. The two alternate, so that other load on the
machine affects both, and ratios are of adjacent measurements. Where the ratio is below 1, the loop
is faster and `RNN` should use it. The last rows are the GRU with the reset gate before the product,
which has no fused layer: its cost relative to the fused GRU.
"""

import torch
from timing import print_machine, seconds, spread, table
from torch import Tensor, nn

from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import RNNCell, UnrolledRNN

SIZES = [(1, 20, 128), (16, 20, 256), (64, 20, 256), (64, 100, 128), (256, 20, 256)]
# the cell in a loop, and the cell of the fused layer it is compared with
PAIRS = {"rnn": "rnn", "gru": "gru", "lstm": "lstm", "gru_reset_first": "gru"}
REPEATS, WARMUP = 7, 2


def copy_weights(fused: RNN, unrolled: UnrolledRNN) -> None:
    """Copy the fused layer's weights to the unrolled one."""
    layer, cell = fused.layers[0], unrolled.cell
    assert isinstance(layer, nn.RNNBase) and isinstance(cell, RNNCell)
    names = ("inputs.weight", "recurrence.weight", "inputs.bias", "recurrence.bias")
    weights = zip(names, layer.all_weights[0], strict=True)
    cell.load_state_dict({name: value.detach() for name, value in weights})


def alternate(unrolled: UnrolledRNN, fused: RNN, x: Tensor) -> tuple[list[float], list[float]]:
    """Return the seconds of both, forward and backward, measured in alternation."""

    def loop() -> None:
        unrolled(x)[:, :, : unrolled.cell.hidden].sum().backward()

    def kernel() -> None:
        fused(x).outputs.sum().backward()

    pairs = [(seconds(loop, 1, 0)[0], seconds(kernel, 1, 0)[0]) for _ in range(WARMUP + REPEATS)]
    loops, kernels = zip(*pairs[WARMUP:], strict=True)
    return list(loops), list(kernels)


def main() -> None:
    """Run the benchmark and print the results."""
    print_machine()
    rows = []
    for name, against in PAIRS.items():
        for B, T, width in SIZES:
            unrolled, fused = UnrolledRNN(name, width, width), RNN(against, width, width)
            x = torch.randn(B, T, width, requires_grad=True)
            if name == against:
                copy_weights(fused, unrolled)
                torch.testing.assert_close(unrolled(x)[:, :, :width], fused(x).outputs)
            loops, kernels = alternate(unrolled, fused, x)
            ratios = [loop / kernel for loop, kernel in zip(loops, kernels, strict=True)]
            milliseconds = [spread([1e3 * time for time in times]) for times in (loops, kernels)]
            rows.append([name, B, T, width, *milliseconds, spread(ratios)])
    heads = ["cell", "rows", "steps", "width", "unrolled, ms", "fused, ms", "unrolled / fused"]
    table(heads, rows)


if __name__ == "__main__":
    main()
