r"""Recurrent cells written out: one step of each, as its equation.

With a = W x + b, what comes from the input, and U, c for the state, gate by gate:

    rnn              h' = tanh(a + U h + c)                        Elman 1990
    rnn_relu         h' = max(0, a + U h + c)                      Le et al. 2015
    gru              r, z = σ(a_rz + U_rz h + c_rz)
                     n = tanh(a_n + r ∘ (U_n h + c_n))             Cho et al. 2014, first version
                     h' = (1 - z) ∘ n + z ∘ h
    gru_reset_first  as gru, but n = tanh(a_n + U_n (r ∘ h) + c_n)    the same, as published
    lstm             i, f, o = σ(·), g = tanh(·)                   Hochreiter and Schmidhuber 1997,
                     m' = f ∘ m + i ∘ g, h' = o ∘ tanh(m')         forget gate: Gers et al. 2000

Books give the GRU with its reset gate before the product, the frameworks' kernels apply it after,
where U h can be one product for all three gates. The two agree where U_n is diagonal and c_n is 0.
z near 1 keeps the old state, as in the paper and the framework; some texts have z and 1 - z the
other way round. Gates stand in the framework's order (r z n, i f g o).

Le et al. start the U of their relu network at the identity; here it starts as any other. There
are two biases where the equations need one (b + c), so that weights can be exchanged with the
framework's; only in `gru` do they differ, since r stands between them.
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
    # under autocast the gates come in bfloat16; the state keeps the format it was given in
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
    """m' = f ∘ m + i ∘ g, h' = o ∘ tanh(m'); the state is h and m side by side."""
    h, m = state.chunk(2, dim=-1)
    i, f, g, o = (inputs + linear(h, weight, bias)).chunk(4, dim=-1)
    m = f.sigmoid() * m + i.sigmoid() * g.tanh()
    return torch.cat([o.sigmoid() * m.tanh(), m], dim=-1)


class CellSpec(NamedTuple):
    """What tells one cell from another."""

    gates: int  # W and U have so many blocks of `hidden` rows
    state_vectors: int  # of the state, side by side; the first is the output
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
    """The cell of that name."""
    if cell not in CELLS:
        raise ValueError(f"there is no cell {cell!r}; there are {', '.join(CELLS)}.")
    return CELLS[cell]


class RNNCell(nn.Module):
    r"""One step of any of them, for a decoder whose input depends on its state.

    `inputs` is the part of the gates that does not: W x + b, for all steps at once. `advance` adds
    what comes from the state, U h + c, and moves on. Equal to the framework's cells.
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
        """The state after one step."""
        own = self.recurrence
        return CELLS[self.cell].advance(inputs, state, own.weight, own.bias)


class UnrolledRNN(nn.Module):
    """A cell over all steps, in a loop: W x + b for all of them at once, the rest in turn.

    For a cell that no fused layer computes, and to measure what a fused layer gains. Starts as
    the framework's layers do, biases too.
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
        """The state after every step, from the start state (zeros if there is none)."""
        state = start
        if state is None:  # in the weights' format: under autocast x may have a shorter one
            state = self.cell.recurrence.weight.new_zeros(x.shape[0], self.state_width)
        states = []
        for inputs in self.cell.inputs(x).unbind(dim=1):
            state = self.cell.advance(inputs, state)
            states.append(state)
        return torch.stack(states, dim=1)


def init_gates(weight: Tensor, gates: int) -> None:
    """Each gate's matrix starts by itself."""
    for gate in weight.chunk(gates):
        nn.init.xavier_uniform_(gate)
