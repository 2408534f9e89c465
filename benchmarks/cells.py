"""What does the framework's fused recurrent layer gain over the same cell written out in a loop?

    python benchmarks/cells.py

One layer of each cell, forward and backward, by the framework and by `Unrolled`, with the same
weights, after a check that both compute the same. The two are measured in turn, so that whatever
else the machine does falls on both, and the ratio is that of neighbours. Where it is below 1, the
loop is quicker, and `Recurrent` should use it. The last rows are of the GRU whose reset gate comes
before the product, for which there is no fused layer: what choosing it costs against the fused GRU.
"""

import torch
from timing import say_machine, seconds, spread, table
from torch import Tensor, nn

from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import RNNCell, UnrolledRNN

SIZES = [(1, 20, 128), (16, 20, 256), (64, 20, 256), (64, 100, 128), (256, 20, 256)]
# the cell in a loop, and the cell of the fused layer beside it
PAIRS = {"rnn": "rnn", "gru": "gru", "lstm": "lstm", "gru_reset_first": "gru"}
REPEATS, WARMUP = 7, 2


def alike(fused: RNN, written: UnrolledRNN) -> None:
    """Give the loop the fused layer's weights."""
    layer, cell = fused.layers[0], written.cell
    assert isinstance(layer, nn.RNNBase) and isinstance(cell, RNNCell)
    names = ("inputs.weight", "recurrence.weight", "inputs.bias", "recurrence.bias")
    weights = zip(names, layer.all_weights[0], strict=True)
    cell.load_state_dict({name: value.detach() for name, value in weights})


def in_turn(written: UnrolledRNN, fused: RNN, x: Tensor) -> tuple[list[float], list[float]]:
    """Seconds of both, forward and backward, one after the other and again."""

    def loop() -> None:
        written(x)[:, :, : written.cell.hidden].sum().backward()

    def kernel() -> None:
        fused(x).outputs.sum().backward()

    pairs = [(seconds(loop, 1, 0)[0], seconds(kernel, 1, 0)[0]) for _ in range(WARMUP + REPEATS)]
    loops, kernels = zip(*pairs[WARMUP:], strict=True)
    return list(loops), list(kernels)


def main() -> None:
    """Measure and print."""
    say_machine()
    rows = []
    for name, against in PAIRS.items():
        for B, T, width in SIZES:
            written, fused = UnrolledRNN(name, width, width), RNN(against, width, width)
            x = torch.randn(B, T, width, requires_grad=True)
            if name == against:
                alike(fused, written)
                torch.testing.assert_close(written(x)[:, :, :width], fused(x).outputs)
            loops, kernels = in_turn(written, fused, x)
            ratios = [loop / kernel for loop, kernel in zip(loops, kernels, strict=True)]
            milliseconds = [spread([1e3 * time for time in times]) for times in (loops, kernels)]
            rows.append([name, B, T, width, *milliseconds, spread(ratios)])
    heads = ["cell", "rows", "steps", "width", "written out, ms", "fused, ms", "written / fused"]
    table(heads, rows)


if __name__ == "__main__":
    main()
