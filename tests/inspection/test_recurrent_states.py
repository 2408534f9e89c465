"""Gates and states of recurrent layers, against torch and the equations of the cells."""

import pytest
import torch

from saccade.inspection.recurrent_states import (
    capture_recurrent_inputs,
    recurrent_states,
    state_names,
)
from saccade.nn.rnn import CELLS, RNN


@pytest.mark.parametrize("cell", list(CELLS))
def test_states_are_those_of_the_layers_and_follow_from_the_gates(cell: str) -> None:
    torch.manual_seed(0)
    rnn = RNN(cell, 3, 4, depth=2).double().eval()
    x = torch.randn(5, 3, dtype=torch.float64)
    start = torch.randn(1, 2, 4 * CELLS[cell].state_vectors, dtype=torch.float64)
    layers = recurrent_states(rnn, x, start[0])
    assert [tuple(layer) for layer in layers] == [state_names(cell)] * 2
    read = rnn(x[None], None, start)
    torch.testing.assert_close(layers[-1]["hidden"], read.outputs[0])
    for number, layer in enumerate(layers):
        before = torch.cat([start[:, number, :4], layer["hidden"][:-1]])
        if cell.startswith("gru"):
            z = layer["update"]
            torch.testing.assert_close(layer["hidden"], (1 - z) * layer["candidate"] + z * before)
            assert 0 <= float(layer["reset"].min()) and float(layer["reset"].max()) <= 1
        if cell == "lstm":
            m = torch.cat([start[:, number, 4:], layer["cell"][:-1]])
            torch.testing.assert_close(
                layer["cell"], layer["forget"] * m + layer["input"] * layer["candidate"]
            )
            torch.testing.assert_close(layer["hidden"], layer["output"] * layer["cell"].tanh())


def test_capture_records_the_inputs_of_each_stack() -> None:
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"a": RNN("gru", 3, 4), "two_way": RNN("gru", 3, 4, 1, True)})
    x = torch.randn(1, 5, 3)
    with capture_recurrent_inputs(model) as recorder:
        outputs = model["a"](x).outputs
        model["two_way"](x)
    assert list(recorder.calls) == ["a"]
    torch.testing.assert_close(recorder.states()["a"][0]["hidden"], outputs[0])
    model["a"](x)
    assert list(recorder.calls) == ["a"] and not model["a"]._forward_hooks
