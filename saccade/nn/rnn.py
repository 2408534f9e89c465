r"""Stacks of recurrent layers over padded batches, unidirectional or bidirectional.

Padding is at the end of a row. The forward direction reads it after the last real token, and the
backward direction reads each row reversed within its own length, so it reads padding last too: no
real output depends on it, and no packing is needed. On two cores torch's padded GRU is faster from
about 64 rows on, the packed one below (`benchmarks/recurrent.py`).
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
    """The output of a stack at every position, and the last state of each layer.

    The state of an LSTM is its hidden vector and its cell concatenated, so that a state is one
    tensor for every cell. The outputs at padded positions are meaningless.
    """

    outputs: Float[Tensor, "B T D"]
    # L layers (times directions), E = hidden, or 2 · hidden for an LSTM
    last_state: Float[Tensor, "B L E"]


class RNN(nn.Module):
    r"""A stack of recurrent layers with one of the `CELLS`.

    Torch's fused layer is used where it computes the equation of the cell. It has no
    `gru_reset_first` (its GRU is `gru`), which runs step by step. With two directions every layer
    reads the concatenated outputs of the one below.
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
        """Run over every row from its start state (zeros by default) to its own end."""
        ways = 2 if self.bidirectional else 1
        last_state = []
        for index in range(0, len(self.layers), ways):
            if index:
                x = self.dropout(x)
            outputs = []
            for way in range(ways):
                layer_start = None if start is None else start[:, index + way]
                inputs = reverse_sequences(x, lengths) if way else x
                layer = self._run_layer(index + way, inputs, lengths, layer_start)
                outputs.append(reverse_sequences(layer.outputs, lengths) if way else layer.outputs)
                last_state.append(layer.last_state)
            x = torch.cat(outputs, dim=-1) if ways == 2 else outputs[0]
        return RNNOutput(x, torch.stack(last_state, dim=1))

    def layer_outputs(self, x: Hidden, lengths: Lengths | None) -> list[Hidden]:
        """Return the outputs of every layer of a stack in one direction, from zero states."""
        assert not self.bidirectional
        found = []
        for index in range(len(self.layers)):
            x = self._run_layer(index, self.dropout(x) if index else x, lengths, None).outputs
            found.append(x)
        return found

    def _run_layer(
        self, index: int, x: Tensor, lengths: Tensor | None, start: Tensor | None
    ) -> RNNOutput:
        """Run one layer in one direction; `last_state` is the state after the last real token."""
        layer: Any = self.layers[index]
        if isinstance(layer, UnrolledRNN):
            states = layer(x, start)
            last_state = states[:, -1] if lengths is None else gather_last(states, lengths)
            return RNNOutput(states[:, :, : layer.cell.hidden], last_state)
        if CELLS[self.cell].state_vectors == 1:
            outputs, end = layer(x, None if start is None else start[None].contiguous())
            return RNNOutput(outputs, end[0] if lengths is None else gather_last(outputs, lengths))
        lstm_start = None
        if start is not None:
            hidden, memory = start[None].chunk(2, dim=-1)
            lstm_start = (hidden.contiguous(), memory.contiguous())
        if lengths is None:
            # not every CPU has the bfloat16 kernel; the packed one below is float32 under
            # autocast as well
            with torch.autocast(x.device.type, enabled=False):
                outputs, (hidden, memory) = layer(x.to(layer.weight_hh_l0.dtype), lstm_start)
            return RNNOutput(outputs, torch.cat([hidden[0], memory[0]], dim=-1))
        return _packed_lstm(layer, x, lengths, lstm_start)


def _layer(cell: str, width: int, hidden: int) -> nn.Module:
    torch_layer = CELLS[cell].torch_layer
    if torch_layer is None:
        return UnrolledRNN(cell, width, hidden)
    return torch_layer(width, hidden, batch_first=True)


def _packed_lstm(
    layer: nn.Module, x: Tensor, lengths: Tensor, start: tuple[Tensor, Tensor] | None
) -> RNNOutput:
    """Run an LSTM on packed rows: its cell is not an output, so the last one needs packing."""
    packed = nn.utils.rnn.pack_padded_sequence(
        x, lengths.cpu(), batch_first=True, enforce_sorted=False
    )
    outputs, (hidden, memory) = layer(packed, start)
    padded, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    return RNNOutput(padded, torch.cat([hidden[0], memory[0]], dim=-1))


def reverse_sequences(x: Hidden, lengths: Lengths | None) -> Hidden:
    """Reverse the real positions of each row; padding stays at the end."""
    if lengths is None:
        return x.flip(1)
    positions = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths[:, None] - 1 - positions
    index = torch.where(mirrored >= 0, mirrored, positions)
    return x.gather(1, index[:, :, None].expand_as(x))


def gather_last(x: Hidden, lengths: Lengths) -> Float[Tensor, "B D"]:
    """Return the vector at the last real position of each row."""
    return x[torch.arange(x.shape[0], device=x.device), lengths - 1]
