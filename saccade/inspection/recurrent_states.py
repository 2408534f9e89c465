r"""Gates and states of recurrent layers, token by token.

The gates are those of `nn.rnn_cells`: r and z of a GRU, i, f and o of an LSTM, with the candidate
n or g. A gate near 1 lets all of a unit's value pass, one near 0 nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from saccade.nn.hooks import thread_hooks
from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import CELLS, UnrolledRNN

LayerStates = dict[str, Tensor]  # (T, D) by name: the gates, then "hidden", of an LSTM "cell" too


def _gru_gates(inputs: Tensor, h: Tensor, weight: Tensor, bias: Tensor) -> LayerStates:
    own = linear(h, weight, bias).chunk(3, dim=-1)
    r, z, n = inputs.chunk(3, dim=-1)
    reset, update = (r + own[0]).sigmoid(), (z + own[1]).sigmoid()
    return {"reset": reset, "update": update, "candidate": (n + reset * own[2]).tanh()}


def _gru_reset_first_gates(inputs: Tensor, h: Tensor, weight: Tensor, bias: Tensor) -> LayerStates:
    found = _gru_gates(inputs, h, weight, bias)
    D = h.shape[-1]
    own = linear(found["reset"] * h, weight[2 * D :], bias[2 * D :])
    return found | {"candidate": (inputs[..., 2 * D :] + own).tanh()}


def _lstm_gates(inputs: Tensor, h: Tensor, weight: Tensor, bias: Tensor) -> LayerStates:
    i, f, g, o = (inputs + linear(h, weight, bias)).chunk(4, dim=-1)
    return {
        "input": i.sigmoid(),
        "forget": f.sigmoid(),
        "candidate": g.tanh(),
        "output": o.sigmoid(),
    }


GATES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], LayerStates]] = {
    "gru": _gru_gates,
    "gru_reset_first": _gru_reset_first_gates,
    "lstm": _lstm_gates,
}


GATE_NAMES = {
    "gru": ("reset", "update", "candidate"),
    "gru_reset_first": ("reset", "update", "candidate"),
    "lstm": ("input", "forget", "candidate", "output"),
}


def state_names(cell: str) -> tuple[str, ...]:
    """Return the names of a cell's gates and states, in the order of `recurrent_states`."""
    states = ("hidden", "cell") if CELLS[cell].state_vectors == 2 else ("hidden",)
    return (*GATE_NAMES.get(cell, ()), *states)


@torch.no_grad()
def recurrent_states(
    rnn: RNN, x: Float[Tensor, "T D"], start: Float[Tensor, "L E"] | None = None
) -> list[LayerStates]:
    """Return the gates and states of every layer of a unidirectional stack, over T inputs."""
    found = []
    for number, layer in enumerate(rnn.layers):
        kind = CELLS[rnn.cell]
        w, u, b, c = _weights(layer)
        hidden = u.shape[1]
        state = (
            u.new_zeros(1, kind.state_vectors * hidden) if start is None else start[None, number]
        )
        steps: list[LayerStates] = []
        for inputs in linear(x, w, b)[:, None]:
            gates = GATES[rnn.cell](inputs, state[:, :hidden], u, c) if rnn.cell in GATES else {}
            state = kind.advance(inputs, state, u, c)
            values = {**gates, "hidden": state[:, :hidden]}
            if kind.state_vectors == 2:
                values["cell"] = state[:, hidden:]
            steps.append(values)
        states = {name: torch.cat([step[name] for step in steps]) for name in steps[0]}
        found.append(states)
        x = states["hidden"]
    return found


def _weights(layer: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return W, U, b, c of a layer."""
    if isinstance(layer, UnrolledRNN):
        of, own = layer.cell.inputs, layer.cell.recurrence
        return of.weight, own.weight, of.bias, own.bias
    return layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0


class RecurrentRecorder:
    """Inputs of the recurrent stacks of a model, by the name of the stack."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[RNN, Tensor, Tensor | None]] = {}

    def states(self) -> dict[str, list[LayerStates]]:
        """Return the states of the first row, by stack and layer."""
        return {
            name: recurrent_states(rnn, x[0], None if start is None else start[0])
            for name, (rnn, x, start) in self.calls.items()
        }


@contextmanager
def capture_recurrent_inputs(model: nn.Module) -> Iterator[RecurrentRecorder]:
    """Record what every unidirectional `RNN` of a model reads inside the `with` block."""
    recorder = RecurrentRecorder()

    def record(name: str, module: Any, inputs: Any, output: Any) -> None:
        x, _, start = (*inputs, None, None)[:3]
        recorder.calls[name] = (module, x.detach(), start)

    found = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, RNN) and not part.bidirectional
    }
    with thread_hooks(found, record):
        yield recorder
