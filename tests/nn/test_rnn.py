import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from saccade.nn import RNN, RNNCell
from saccade.nn.rnn import gather_last, reverse_sequences
from saccade.nn.rnn_cells import CELLS as EVERY_CELL

# those that came first; every cell is tried in test_cells.py
CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}
WIDTH, HIDDEN = 3, 4
PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
cells = st.sampled_from(sorted(CELLS))
lengths_of = st.lists(st.integers(1, 6), min_size=1, max_size=4)
seeds = st.integers(0, 2**31)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def state_width(cell: str) -> int:
    return 2 * HIDDEN if cell == "lstm" else HIDDEN


def theirs(ours: RNN, depth: int) -> nn.GRU | nn.LSTM:
    """Return torch's stack with our weights."""
    ways = 2 if ours.bidirectional else 1
    stack = CELLS[ours.cell](
        WIDTH, HIDDEN, depth, batch_first=True, bidirectional=ours.bidirectional
    ).double()
    own = dict(stack.named_parameters())
    for index, layer in enumerate(ours.layers):
        end = f"_l{index // ways}" + ("_reverse" if index % ways else "")
        for part in PARTS:
            own[part + end].data.copy_(getattr(layer, f"{part}_l0"))
    return stack


def read_by_theirs(
    stack: nn.GRU | nn.LSTM, x: Tensor, lengths: Tensor | None, start: Tensor | None
) -> tuple[Tensor, Tensor]:
    initial: Any = None
    if start is not None:
        layers = start.transpose(0, 1)
        initial = layers.contiguous()
        if isinstance(stack, nn.LSTM):
            initial = tuple(part.contiguous() for part in layers.chunk(2, dim=-1))
    given_in: Any = x
    if lengths is not None:
        given_in = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, last_state = stack(given_in, initial)
    if lengths is not None:
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    if isinstance(last_state, tuple):
        last_state = torch.cat(last_state, dim=-1)
    return outputs, last_state.transpose(0, 1)


@settings(max_examples=60)
@given(cells, st.booleans(), st.integers(1, 3), lengths_of, st.integers(0, 2), st.booleans(), seeds)
def test_rnn_matches_torch_packed(
    cell: str, both: bool, depth: int, lengths: list[int], more: int, started: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    ours = RNN(cell, WIDTH, HIDDEN, depth, bidirectional=both).double()
    stack = theirs(ours, depth)
    B, T = len(lengths), max(lengths) + more
    x, long = random(B, T, WIDTH).requires_grad_(), torch.tensor(lengths)
    start = None
    if started:
        start = random(B, depth * (2 if both else 1), state_width(cell)).requires_grad_()
    read = ours(x, long, start)
    outputs, last_state = read_by_theirs(stack, x, long, start)
    real = (torch.arange(T) < long[:, None])[:, :, None]
    torch.testing.assert_close(read.outputs * real, outputs * real)
    torch.testing.assert_close(read.last_state, last_state)
    leaves = [x] if start is None else [x, start]
    slope, last_slope = torch.randn_like(outputs) * real, torch.randn_like(last_state)
    mine = torch.autograd.grad((read.outputs, read.last_state), leaves, (slope, last_slope))
    other = torch.autograd.grad((outputs, last_state), leaves, (slope, last_slope))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("both", [False, True])
def test_rnn_without_lengths_uses_all_positions(cell: str, both: bool) -> None:
    ours = RNN(cell, WIDTH, HIDDEN, 2, bidirectional=both).double()
    x, start = random(3, 5, WIDTH), random(3, 4 if both else 2, state_width(cell))
    read = ours(x, None, start)
    outputs, last_state = read_by_theirs(theirs(ours, 2), x, None, start)
    torch.testing.assert_close(read.outputs, outputs)
    torch.testing.assert_close(read.last_state, last_state)
    full = ours(x, torch.full((3,), 5), start)
    torch.testing.assert_close(full.outputs, read.outputs)
    torch.testing.assert_close(full.last_state, read.last_state)


@settings(max_examples=40)
@given(cells, st.booleans(), st.integers(1, 3), lengths_of, st.integers(0, 3), seeds)
def test_rnn_is_invariant_to_padding_and_batch(
    cell: str, both: bool, depth: int, lengths: list[int], more: int, seed: int
) -> None:
    torch.manual_seed(seed)
    stack = RNN(cell, WIDTH, HIDDEN, depth, bidirectional=both).double()
    B, T = len(lengths), max(lengths) + more
    x = random(B, T, WIDTH)
    for row, length in enumerate(lengths):
        x[row, length:] = math.nan  # whatever touches padding shows it
    together = stack(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone = stack(x[row : row + 1, :length])
        torch.testing.assert_close(together.outputs[row : row + 1, :length], alone.outputs)
        torch.testing.assert_close(together.last_state[row : row + 1], alone.last_state)


@pytest.mark.parametrize("cell", CELLS)
def test_rnn_in_two_parts_matches_whole(cell: str) -> None:
    stack = RNN(cell, WIDTH, HIDDEN, 2).double()
    x = random(2, 7, WIDTH)
    whole, first = stack(x), stack(x[:, :3])
    second = stack(x[:, 3:], start=first.last_state)
    torch.testing.assert_close(torch.cat([first.outputs, second.outputs], dim=1), whole.outputs)
    torch.testing.assert_close(second.last_state, whole.last_state)


@given(cells, st.integers(1, 4), seeds)
def test_rnn_cell_matches_torch(cell: str, B: int, seed: int) -> None:
    torch.manual_seed(seed)
    ours = RNNCell(cell, WIDTH, HIDDEN).double()
    for linear in (ours.inputs, ours.recurrence):
        nn.init.normal_(linear.bias)
    other = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}[cell](WIDTH, HIDDEN).double()
    pairs = zip(
        PARTS,
        (ours.inputs.weight, ours.recurrence.weight, ours.inputs.bias, ours.recurrence.bias),
        strict=True,
    )
    other.load_state_dict({name: value.detach() for name, value in pairs})
    x, state = random(B, WIDTH), random(B, state_width(cell))
    got = ours.advance(ours.inputs(x), state)
    if cell == "gru":
        expected = other(x, state)
    else:
        expected = torch.cat(other(x, tuple(state.chunk(2, dim=-1))), dim=-1)
    torch.testing.assert_close(got, expected)


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gates_by_loops(
    cell: RNNCell, x: list[float], h: list[float]
) -> tuple[list[float], list[float]]:
    """Compute W x + b and U h + c by loops."""
    halves = []
    for linear, vector in ((cell.inputs, x), (cell.recurrence, h)):
        rows = zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
        halves.append(
            [sum(w * v for w, v in zip(row, vector, strict=True)) + bias for row, bias in rows]
        )
    return halves[0], halves[1]


def test_gru_step_matches_equation() -> None:
    cell = RNNCell("gru", WIDTH, HIDDEN).double()
    for parameter in cell.parameters():
        nn.init.normal_(parameter)
    x, h = random(1, WIDTH), random(1, HIDDEN)
    a, c = gates_by_loops(cell, x[0].tolist(), h[0].tolist())
    expected = []
    for d, before in enumerate(h[0].tolist()):
        r = sigma(a[d] + c[d])
        z = sigma(a[HIDDEN + d] + c[HIDDEN + d])
        n = math.tanh(a[2 * HIDDEN + d] + r * c[2 * HIDDEN + d])
        expected.append((1 - z) * n + z * before)
    assert cell.advance(cell.inputs(x), h)[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_lstm_step_matches_equation() -> None:
    cell = RNNCell("lstm", WIDTH, HIDDEN).double()
    for parameter in cell.parameters():
        nn.init.normal_(parameter)
    x, state = random(1, WIDTH), random(1, 2 * HIDDEN)
    a, c = gates_by_loops(cell, x[0].tolist(), state[0, :HIDDEN].tolist())
    hidden, memory = [], []
    for d, before in enumerate(state[0, HIDDEN:].tolist()):
        i, f, g, o = (a[k * HIDDEN + d] + c[k * HIDDEN + d] for k in range(4))
        memory.append(sigma(f) * before + sigma(i) * math.tanh(g))
        hidden.append(sigma(o) * math.tanh(memory[-1]))
    got = cell.advance(cell.inputs(x), state)[0].tolist()
    assert got == pytest.approx(hidden + memory, abs=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_rnn_cells_match_layer(name: str) -> None:
    cell, layer = RNNCell(name, WIDTH, HIDDEN).double(), RNN(name, WIDTH, HIDDEN).double()
    own: Any = layer.layers[0]
    with torch.no_grad():
        cell.inputs.weight.copy_(own.weight_ih_l0)
        cell.inputs.bias.copy_(own.bias_ih_l0)
        cell.recurrence.weight.copy_(own.weight_hh_l0)
        cell.recurrence.bias.copy_(own.bias_hh_l0)
    x, state = random(2, 6, WIDTH), random(2, state_width(name))
    read = layer(x, start=state[:, None])
    inputs = cell.inputs(x)
    for t in range(6):
        state = cell.advance(inputs[:, t], state)
        torch.testing.assert_close(state[:, :HIDDEN], read.outputs[:, t])
    torch.testing.assert_close(state, read.last_state[:, 0])


@pytest.mark.parametrize("name", CELLS)
def test_rnn_gradcheck(name: str) -> None:
    cell = RNNCell(name, 2, 2).double()
    x, state = random(2, 2), random(2, 4 if name == "lstm" else 2)
    inputs = (x.requires_grad_(), state.requires_grad_())
    assert torch.autograd.gradcheck(lambda x, s: cell.advance(cell.inputs(x), s), inputs)
    stack = RNN(name, 2, 2, 2, bidirectional=True).double()
    lengths = torch.tensor([3, 1])

    def run(x: Tensor) -> Tensor:
        return stack(x, lengths).last_state

    assert torch.autograd.gradcheck(run, (random(2, 3, 2).requires_grad_(),))


@pytest.mark.parametrize("name", CELLS)
def test_rnn_state_keeps_dtype_under_autocast(name: str) -> None:
    cell = RNNCell(name, WIDTH, HIDDEN)
    x, state = torch.randn(5, WIDTH), torch.randn(5, state_width(name))
    exact = cell.advance(cell.inputs(x), state)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = cell.advance(cell.inputs(x), state)
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)


@given(lengths_of, st.integers(0, 3))
def test_reverse_sequences_is_an_involution(lengths: list[int], more: int) -> None:
    B, T = len(lengths), max(lengths) + more
    x, long = random(B, T, 2), torch.tensor(lengths)
    turned = reverse_sequences(x, long)
    for row, length in enumerate(lengths):
        assert torch.equal(turned[row, :length], x[row, :length].flip(0))
        assert torch.equal(turned[row, length:], x[row, length:])
        assert torch.equal(gather_last(x, long)[row], x[row, length - 1])
    assert torch.equal(reverse_sequences(turned, long), x)
    assert torch.equal(reverse_sequences(x, None), x.flip(1))


@pytest.mark.parametrize("cell", CELLS)
def test_rnn_dropout_is_between_layers(cell: str) -> None:
    x = random(2, 5, WIDTH)
    single = RNN(cell, WIDTH, HIDDEN, 1, dropout=0.5).double()
    assert torch.equal(single(x).outputs, single.eval()(x).outputs)
    double = RNN(cell, WIDTH, HIDDEN, 2, dropout=0.5).double()
    torch.manual_seed(1)
    got = double(x).outputs
    torch.manual_seed(1)
    below = double.dropout(double.layers[0](x)[0])
    torch.testing.assert_close(got, double.layers[1](below)[0])
    assert not torch.equal(got, double.eval()(x).outputs)


def test_rnn_initialises_each_gate_separately() -> None:
    for module, gates in ((RNN("gru", 32, 64), 3), (RNNCell("lstm", 32, 64), 4)):
        for matrix in (p for p in module.parameters() if p.dim() == 2):
            for gate in matrix.detach().chunk(gates):
                bound = math.sqrt(6 / sum(gate.shape))
                assert 0.98 * bound < float(gate.abs().max()) <= bound


@pytest.mark.parametrize("lengths", [None, torch.tensor([5, 3])], ids=["whole rows", "padded"])
@pytest.mark.parametrize("cell", EVERY_CELL)
def test_rnn_every_cell_runs_under_bfloat16(cell: str, lengths: torch.Tensor | None) -> None:
    stack = RNN(cell, 8, 8, depth=2)
    x = torch.randn(2, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        half = stack(x, lengths).outputs.float()
    half.sum().backward()
    torch.testing.assert_close(half, stack(x, lengths).outputs, atol=0.05, rtol=0.05)
