r"""Recurrent cells: one step of each, as its equation.

With a = W x + b of the input, and U, c for the state, gate by gate:

    rnn              h' = tanh(a + U h + c)                        Elman 1990
    rnn_relu         h' = max(0, a + U h + c)                      Le et al. 2015
    gru              r, z = σ(a_rz + U_rz h + c_rz)
                     n = tanh(a_n + r ∘ (U_n h + c_n))             Cho et al. 2014, first version
                     h' = (1 - z) ∘ n + z ∘ h
    gru_reset_first  as gru, but n = tanh(a_n + U_n (r ∘ h) + c_n)    the same, as published
    lstm             i, f, o = σ(·), g = tanh(·)                   Hochreiter and Schmidhuber 1997,
                     m' = f ∘ m + i ∘ g, h' = o ∘ tanh(m')         forget gate: Gers et al. 2000

Textbooks apply the reset gate of the GRU before the matrix product, torch's kernels after it, where
U h can be one product for all three gates. The two agree where U_n is diagonal and c_n is 0. z near
1 keeps the old state, as in the paper and in torch; some texts swap z and 1 - z. Gates are in
torch's order (r z n, i f g o).

Le et al. initialise the U of their relu network as the identity; here it is initialised as any
other. There are two biases where the equations need one (b + c), so that weights can be exchanged
with torch; only in `gru` do they differ, since r is between them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from saccade.types.shapes import Hidden


def rnn(
    inputs: Float[Tensor, "B D"],
    state: Float[Tensor, "B D"],
    weight: Float[Tensor, "D D"],
    bias: Float[Tensor, " D"],
) -> Float[Tensor, "B D"]:
    """h' = tanh(a + U h + c)."""
    return (inputs + linear(state, weight, bias)).tanh().to(state.dtype)


def rnn_relu(
    inputs: Float[Tensor, "B D"],
    state: Float[Tensor, "B D"],
    weight: Float[Tensor, "D D"],
    bias: Float[Tensor, " D"],
) -> Float[Tensor, "B D"]:
    """h' = max(0, a + U h + c)."""
    return (inputs + linear(state, weight, bias)).relu().to(state.dtype)


def gru(
    inputs: Float[Tensor, "B G"],
    state: Float[Tensor, "B D"],
    weight: Float[Tensor, "G D"],
    bias: Float[Tensor, " G"],
) -> Float[Tensor, "B D"]:
    """n = tanh(a_n + r ∘ (U_n h + c_n)), h' = n + z ∘ (h - n)."""
    D = state.shape[-1]
    own = linear(state, weight, bias)
    r, z = (inputs[:, : 2 * D] + own[:, : 2 * D]).sigmoid().chunk(2, dim=-1)
    n = torch.addcmul(inputs[:, 2 * D :], r, own[:, 2 * D :]).tanh()
    # under autocast the gates are bfloat16; the state keeps its dtype
    return torch.lerp(n.to(state.dtype), state, z.to(state.dtype))


def gru_reset_first(
    inputs: Float[Tensor, "B G"],
    state: Float[Tensor, "B D"],
    weight: Float[Tensor, "G D"],
    bias: Float[Tensor, " G"],
) -> Float[Tensor, "B D"]:
    """n = tanh(a_n + U_n (r ∘ h) + c_n), h' = n + z ∘ (h - n)."""
    D = state.shape[-1]
    gates = inputs[:, : 2 * D] + linear(state, weight[: 2 * D], bias[: 2 * D])
    r, z = gates.sigmoid().chunk(2, dim=-1)
    n = (inputs[:, 2 * D :] + linear(r * state, weight[2 * D :], bias[2 * D :])).tanh()
    return torch.lerp(n.to(state.dtype), state, z.to(state.dtype))


def lstm(
    inputs: Float[Tensor, "B G"],
    state: Float[Tensor, "B E"],
    weight: Float[Tensor, "G D"],
    bias: Float[Tensor, " G"],
) -> Float[Tensor, "B E"]:
    """m' = f ∘ m + i ∘ g, h' = o ∘ tanh(m'); the state is [h; m]."""
    h, m = state.chunk(2, dim=-1)
    i, f, g, o = (inputs + linear(h, weight, bias)).chunk(4, dim=-1)
    m = f.sigmoid() * m + i.sigmoid() * g.tanh()
    return torch.cat([o.sigmoid() * m.tanh(), m], dim=-1)


class CellSpec(NamedTuple):
    """The properties of a cell."""

    gates: int  # blocks of `hidden` rows in W and U
    state_vectors: int  # concatenated in the state; the first is the output
    advance: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    torch_layer: Callable[..., nn.RNNBase] | None  # the fused layer that computes the same


CELLS = {
    "rnn": CellSpec(1, 1, rnn, nn.RNN),
    "rnn_relu": CellSpec(1, 1, rnn_relu, partial(nn.RNN, nonlinearity="relu")),
    "gru": CellSpec(3, 1, gru, nn.GRU),
    "gru_reset_first": CellSpec(3, 1, gru_reset_first, None),
    "lstm": CellSpec(4, 2, lstm, nn.LSTM),
}


def cell_spec(cell: str) -> CellSpec:
    """Return the properties of a cell by name."""
    if cell not in CELLS:
        raise ValueError(f"got cell {cell!r}; expected one of {', '.join(CELLS)}.")
    return CELLS[cell]


class RNNCell(nn.Module):
    r"""One step of any cell, for a decoder whose input depends on its state.

    `inputs` is the part of the gates that does not, W x + b, computed for all steps together.
    `advance` adds U h + c and returns the next state. Equal to torch's cells.
    """

    def __init__(self, cell: str, width: int, hidden: int):
        super().__init__()
        kind = cell_spec(cell)
        self.cell, self.hidden = cell, hidden
        self.gates = kind.gates * hidden
        self.inputs = nn.Linear(width, self.gates)
        self.recurrence = nn.Linear(hidden, self.gates)
        for part in (self.inputs, self.recurrence):
            init_gates(part.weight, kind.gates)
            nn.init.zeros_(part.bias)

    def advance(
        self, inputs: Float[Tensor, "B G"], state: Float[Tensor, "B E"]
    ) -> Float[Tensor, "B E"]:
        """Return the state after one step."""
        own = self.recurrence
        return CELLS[self.cell].advance(inputs, state, own.weight, own.bias)


class UnrolledRNN(nn.Module):
    """A cell in a loop over all steps, with W x + b computed for all of them together.

    For a cell without a fused layer, and to measure the gain of a fused layer. Initialised as
    torch's layers, biases too.
    """

    def __init__(self, cell: str, width: int, hidden: int):
        super().__init__()
        self.cell = RNNCell(cell, width, hidden)
        self.state_width = cell_spec(cell).state_vectors * hidden
        for part in (self.cell.inputs, self.cell.recurrence):
            nn.init.uniform_(part.bias, -(hidden**-0.5), hidden**-0.5)

    def forward(
        self, x: Hidden, start: Float[Tensor, "B E"] | None = None
    ) -> Float[Tensor, "B T E"]:
        """Return the state after every step, from the start state (zeros by default)."""
        state = start
        if state is None:  # in the dtype of the weights: under autocast x may be bfloat16
            state = self.cell.recurrence.weight.new_zeros(x.shape[0], self.state_width)
        states = []
        for inputs in self.cell.inputs(x).unbind(dim=1):
            state = self.cell.advance(inputs, state)
            states.append(state)
        return torch.stack(states, dim=1)


def init_gates(weight: Tensor, gates: int) -> None:
    """Initialise the matrix of each gate separately."""
    for gate in weight.chunk(gates):
        nn.init.xavier_uniform_(gate)
