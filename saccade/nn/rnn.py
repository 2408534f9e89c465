r"""Stacks of recurrent layers over padded batches, in one direction or two.

Padding stands at the end of a row. The forward direction meets it after the last real token, and
the backward direction reads each row reversed within its own length, so it too meets padding
last: no real output depends on it, and no packing is needed. On two cores the framework's padded
GRU is the quicker one from about 64 rows on, the packed one below (`benchmarks/recurrent.py`).
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.dropout import Dropout
from saccade.nn.rnn_cells import CELLS, RNNCell, UnrolledRNN, cell_spec, init_gates
from saccade.types.shapes import Hidden, Lengths

__all__ = ["CELLS", "RNNCell", "RNNOutput", "RNN", "gather_last", "reverse_sequences"]


class RNNOutput(NamedTuple):
    """What a stack gives back: an output for every place, and each layer's last state.

    An LSTM's state is its hidden vector and its cell side by side, so that a state is one tensor
    whatever the cell. Outputs at padded places are not meant to be used.
    """

    outputs: Float[Tensor, "B T D"]
    last_state: Float[
        Tensor, "B L E"
    ]  # L layers (times directions), E = hidden, or 2 · hidden for an LSTM


class RNN(nn.Module):
    r"""Layers of one of the `CELLS`, one on the other.

    The framework's fused layer is used where it computes the cell's equation. `gru_reset_first` it
    does not know (its own GRU is `gru`), so that one runs step by step.
    With two directions every layer reads the concatenated outputs of the one below.
    """

    def __init__(
        self,
        cell: str,
        width: int,
        hidden: int,
        depth: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        kind = cell_spec(cell)
        self.cell, self.bidirectional = cell, bidirectional
        self.dropout = Dropout(dropout)
        ways = 2 if bidirectional else 1
        self.layers = nn.ModuleList(
            _layer(cell, width if layer == 0 else ways * hidden, hidden)
            for layer in range(depth)
            for _ in range(ways)
        )
        for parameter in self.parameters():
            if parameter.dim() == 2:
                init_gates(parameter, kind.gates)

    def forward(
        self,
        x: Hidden,
        lengths: Lengths | None = None,
        start: Float[Tensor, "B L E"] | None = None,
    ) -> RNNOutput:
        """Read every row from its start state (zeros if there is none) to its own end."""
        ways = 2 if self.bidirectional else 1
        last_state = []
        for index in range(0, len(self.layers), ways):
            if index:
                x = self.dropout(x)
            outputs = []
            for way in range(ways):
                begin = None if start is None else start[:, index + way]
                read = self._one(
                    index + way, reverse_sequences(x, lengths) if way else x, lengths, begin
                )
                outputs.append(reverse_sequences(read.outputs, lengths) if way else read.outputs)
                last_state.append(read.last_state)
            x = torch.cat(outputs, dim=-1) if ways == 2 else outputs[0]
        return RNNOutput(x, torch.stack(last_state, dim=1))

    def _one(
        self, index: int, x: Tensor, lengths: Tensor | None, start: Tensor | None
    ) -> RNNOutput:
        """One layer in one direction; `last` is what it held after each row's last real token."""
        layer: Any = self.layers[index]
        if isinstance(layer, UnrolledRNN):
            states = layer(x, start)
            last_state = states[:, -1] if lengths is None else gather_last(states, lengths)
            return RNNOutput(states[:, :, : layer.cell.hidden], last_state)
        if CELLS[self.cell].state_vectors == 1:
            outputs, end = layer(x, None if start is None else start[None].contiguous())
            return RNNOutput(outputs, end[0] if lengths is None else gather_last(outputs, lengths))
        begin = None
        if start is not None:
            hidden, memory = start[None].chunk(2, dim=-1)
            begin = (hidden.contiguous(), memory.contiguous())
        if lengths is None:
            # the CPU's kernel for bfloat16 is not there on every processor; the packed one below
            # is float32 under autocast as well
            with torch.autocast(x.device.type, enabled=False):
                outputs, (hidden, memory) = layer(x.to(layer.weight_hh_l0.dtype), begin)
            return RNNOutput(outputs, torch.cat([hidden[0], memory[0]], dim=-1))
        return _lstm_to_each_end(layer, x, lengths, begin)


def _layer(cell: str, width: int, hidden: int) -> nn.Module:
    torch_layer = CELLS[cell].torch_layer
    if torch_layer is None:
        return UnrolledRNN(cell, width, hidden)
    return torch_layer(width, hidden, batch_first=True)


def _lstm_to_each_end(
    layer: nn.Module, x: Tensor, lengths: Tensor, begin: tuple[Tensor, Tensor] | None
) -> RNNOutput:
    """The cell of an LSTM is not among its outputs, so rows of unequal length have to be packed."""
    packed = nn.utils.rnn.pack_padded_sequence(
        x, lengths.cpu(), batch_first=True, enforce_sorted=False
    )
    outputs, (hidden, memory) = layer(packed, begin)
    padded, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    return RNNOutput(padded, torch.cat([hidden[0], memory[0]], dim=-1))


def reverse_sequences(x: Hidden, lengths: Lengths | None) -> Hidden:
    """Each row's real places in reverse order; padding stays where it is."""
    if lengths is None:
        return x.flip(1)
    places = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths[:, None] - 1 - places
    index = torch.where(mirrored >= 0, mirrored, places)
    return x.gather(1, index[:, :, None].expand_as(x))


def gather_last(x: Hidden, lengths: Lengths) -> Float[Tensor, "B D"]:
    """What stands at each row's last real place."""
    return x[torch.arange(x.shape[0], device=x.device), lengths - 1]
