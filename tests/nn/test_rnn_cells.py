import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import one_hot

from saccade.nn import rnn as recurrent_file
from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import CELLS, RNNCell, UnrolledRNN

WIDTH, HIDDEN = 3, 4
PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
FUSED = [name for name, kind in CELLS.items() if kind.torch_layer is not None]
names = st.sampled_from(sorted(CELLS))
lengths_of = st.lists(st.integers(1, 4), min_size=1, max_size=3)
seeds = st.integers(0, 2**31)

Vector = list[float]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def state_width(name: str) -> int:
    return CELLS[name].state_vectors * HIDDEN


def scrambled(module: nn.Module) -> Any:
    """Return the module in float64 with no parameter at zero."""
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.7)
    return module


def weights_of(layer: Any) -> list[Tensor]:
    """Return W, U, b and c of a cell, of an unrolled layer, or of torch's layer or cell."""
    if isinstance(layer, UnrolledRNN):
        layer = layer.cell
    if isinstance(layer, RNNCell):
        inputs, own = layer.inputs, layer.recurrence
        return [inputs.weight, own.weight, inputs.bias, own.bias]
    end = "_l0" if isinstance(layer, nn.RNNBase) else ""
    return [getattr(layer, part + end) for part in PARTS]


def give(to: Any, weights: list[Tensor]) -> Any:
    with torch.no_grad():
        for own, other in zip(weights_of(to), weights, strict=True):
            own.copy_(other)
    return to


# --- the equations, one number at a time


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def times(matrix: Tensor, vector: Vector, bias: Tensor) -> Vector:
    rows = zip(matrix.tolist(), bias.tolist(), strict=True)
    return [sum(w * v for w, v in zip(row, vector, strict=True)) + c for row, c in rows]


def step_by_loops(name: str, weights: list[Tensor], x: Vector, state: Vector) -> Vector:
    """Return the state after one step, from the equations in `rnn_cells.py`."""
    W, U, b, c = weights
    D = U.shape[1]
    h = state[:D]
    a, own = times(W, x, b), times(U, h, c)
    if name == "rnn":
        return [math.tanh(a[d] + own[d]) for d in range(D)]
    if name == "rnn_relu":
        return [max(0.0, a[d] + own[d]) for d in range(D)]
    if name == "lstm":
        hidden, memory = [], []
        for d in range(D):
            i, f, g, o = (a[k * D + d] + own[k * D + d] for k in range(4))
            memory.append(sigma(f) * state[D + d] + sigma(i) * math.tanh(g))
            hidden.append(sigma(o) * math.tanh(memory[-1]))
        return hidden + memory
    r = [sigma(a[d] + own[d]) for d in range(D)]
    z = [sigma(a[D + d] + own[D + d]) for d in range(D)]
    if name == "gru":
        n = [math.tanh(a[2 * D + d] + r[d] * own[2 * D + d]) for d in range(D)]
    else:
        held_back = [r[d] * h[d] for d in range(D)]
        again = times(U[2 * D :], held_back, c[2 * D :])
        n = [math.tanh(a[2 * D + d] + again[d]) for d in range(D)]
    return [(1 - z[d]) * n[d] + z[d] * h[d] for d in range(D)]


def layer_by_loops(
    name: str, weights: list[Tensor], xs: list[Vector], state: Vector
) -> list[Vector]:
    states = []
    for x in xs:
        state = step_by_loops(name, weights, x, state)
        states.append(state)
    return states


def stack_by_loops(
    stack: RNN, xs: list[Vector], start: list[Vector]
) -> tuple[list[Vector], list[Vector]]:
    """Return outputs and last states of one row by loops over layers and directions."""
    last_state: list[Vector] = []
    ways = 2 if stack.bidirectional else 1
    for index in range(0, len(stack.layers), ways):
        weights = [weights_of(layer) for layer in stack.layers[index : index + ways]]
        sides = []
        for way in range(ways):
            inputs = xs[::-1] if way else xs
            states = layer_by_loops(stack.cell, weights[way], inputs, start[index + way])
            last_state.append(states[-1])
            hidden = [state[:HIDDEN] for state in states]
            sides.append(hidden[::-1] if way else hidden)
        xs = [sum(parts, []) for parts in zip(*sides, strict=True)]
    return xs, last_state


@pytest.mark.parametrize("name", CELLS)
def test_cells_match_equations(name: str) -> None:
    layer = scrambled(UnrolledRNN(name, WIDTH, HIDDEN))
    x, start = random(1, 6, WIDTH), random(1, state_width(name))
    expected = layer_by_loops(name, weights_of(layer), x[0].tolist(), start[0].tolist())
    torch.testing.assert_close(layer(x, start)[0], torch.tensor(expected, dtype=torch.float64))
    from_zeros = layer_by_loops(name, weights_of(layer), x[0].tolist(), [0.0] * state_width(name))
    torch.testing.assert_close(layer(x)[0], torch.tensor(from_zeros, dtype=torch.float64))


@settings(max_examples=30)
@given(names, st.booleans(), st.integers(1, 2), lengths_of, st.integers(0, 2), seeds)
def test_cells_stack_matches_equations_and_ignores_padding(
    name: str, both: bool, depth: int, lengths: list[int], more: int, seed: int
) -> None:
    torch.manual_seed(seed)
    stack = scrambled(RNN(name, WIDTH, HIDDEN, depth, bidirectional=both))
    B, T, L = len(lengths), max(lengths) + more, depth * (2 if both else 1)
    x, start = random(B, T, WIDTH), random(B, L, state_width(name))
    for row, length in enumerate(lengths):
        x[row, length:] = math.nan  # whatever touches padding shows it
    read = stack(x, torch.tensor(lengths), start)
    for row, length in enumerate(lengths):
        outputs, last_state = stack_by_loops(stack, x[row, :length].tolist(), start[row].tolist())
        got = read.outputs[row, :length]
        torch.testing.assert_close(got, torch.tensor(outputs, dtype=torch.float64))
        torch.testing.assert_close(
            read.last_state[row], torch.tensor(last_state, dtype=torch.float64)
        )


# --- the framework's


@settings(max_examples=40)
@given(st.sampled_from(FUSED), st.integers(1, 4), seeds)
def test_cells_match_torch(name: str, B: int, seed: int) -> None:
    torch.manual_seed(seed)
    ours = scrambled(RNNCell(name, WIDTH, HIDDEN))
    theirs: Any = {
        "rnn": lambda: nn.RNNCell(WIDTH, HIDDEN),
        "rnn_relu": lambda: nn.RNNCell(WIDTH, HIDDEN, nonlinearity="relu"),
        "gru": lambda: nn.GRUCell(WIDTH, HIDDEN),
        "lstm": lambda: nn.LSTMCell(WIDTH, HIDDEN),
    }[name]().double()
    give(theirs, weights_of(ours))
    x, state = random(B, WIDTH), random(B, state_width(name))
    if name == "lstm":
        expected = torch.cat(theirs(x, tuple(state.chunk(2, dim=-1))), dim=-1)
    else:
        expected = theirs(x, state)
    torch.testing.assert_close(ours.advance(ours.inputs(x), state), expected)


@pytest.mark.parametrize("name", FUSED)
def test_unrolled_rnn_matches_fused_layer(name: str) -> None:
    fused = scrambled(RNN(name, WIDTH, HIDDEN))
    assert not isinstance(fused.layers[0], UnrolledRNN)
    written = give(UnrolledRNN(name, WIDTH, HIDDEN).double(), weights_of(fused.layers[0]))
    x, start = random(2, 7, WIDTH).requires_grad_(), random(2, state_width(name)).requires_grad_()
    states, read = written(x, start), fused(x, start=start[:, None])
    torch.testing.assert_close(states[:, :, :HIDDEN], read.outputs)
    torch.testing.assert_close(states[:, -1], read.last_state[:, 0])
    slope, last_slope = torch.randn_like(read.outputs), torch.randn_like(read.last_state[:, 0])
    slopes = (slope, last_slope)
    mine = torch.autograd.grad(
        (states[:, :, :HIDDEN], states[:, -1]), [x, start, *weights_of(written)], slopes
    )
    other = torch.autograd.grad(
        (read.outputs, read.last_state[:, 0]), [x, start, *weights_of(fused.layers[0])], slopes
    )
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", ["rnn", "rnn_relu"])
def test_rnn_with_depth_matches_torch(name: str, both: bool) -> None:
    stack = scrambled(RNN(name, WIDTH, HIDDEN, 3, bidirectional=both))
    kind: Any = CELLS[name].torch_layer
    theirs = kind(WIDTH, HIDDEN, 3, batch_first=True, bidirectional=both).double()
    assert isinstance(theirs, nn.RNN)
    own, ways = dict(theirs.named_parameters()), 2 if both else 1
    for index, layer in enumerate(stack.layers):
        end = f"_l{index // ways}" + ("_reverse" if index % ways else "")
        for part, value in zip(PARTS, weights_of(layer), strict=True):
            own[part + end].data.copy_(value)
    x, start = random(2, 5, WIDTH), random(2, 3 * ways, HIDDEN)
    outputs, last_state = theirs(x, start.transpose(0, 1).contiguous())
    read = stack(x, start=start)
    torch.testing.assert_close(read.outputs, outputs)
    torch.testing.assert_close(read.last_state, last_state.transpose(0, 1))


def test_gru_variants_agree_for_diagonal_candidate_matrix() -> None:
    # U (r ∘ h) = r ∘ (U h) when U is diagonal
    after = scrambled(RNN("gru", WIDTH, HIDDEN))
    weights = weights_of(after.layers[0])
    with torch.no_grad():
        weights[1][2 * HIDDEN :] = torch.diag(random(HIDDEN))
        weights[3][2 * HIDDEN :] = 0
    before = RNN("gru_reset_first", WIDTH, HIDDEN).double()
    assert isinstance(before.layers[0], UnrolledRNN)
    give(before.layers[0], weights)
    theirs = give(nn.GRU(WIDTH, HIDDEN, batch_first=True).double(), weights)
    x = random(3, 8, WIDTH)
    torch.testing.assert_close(before(x).outputs, after(x).outputs)
    torch.testing.assert_close(before(x).outputs, theirs(x)[0])
    with torch.no_grad():
        weights[1][2 * HIDDEN, 1] += 0.5
        give(before.layers[0], weights)
    assert not torch.allclose(before(x).outputs[:, 1:], after(x).outputs[:, 1:], atol=1e-3)


# --- invariants


@pytest.mark.parametrize("name", ["gru", "gru_reset_first"])
def test_gru_update_gate_keeps_or_replaces_state(name: str) -> None:
    cell = scrambled(RNNCell(name, WIDTH, HIDDEN))
    x, state = random(2, WIDTH), random(2, HIDDEN)
    with torch.no_grad():
        cell.inputs.bias[HIDDEN : 2 * HIDDEN] = 100
        torch.testing.assert_close(cell.advance(cell.inputs(x), state), state)
        cell.inputs.bias[HIDDEN : 2 * HIDDEN] = -100  # and a closed reset gate hides the state
        cell.inputs.bias[:HIDDEN] = -100
        new = cell.inputs(x)[:, 2 * HIDDEN :]
        if name == "gru_reset_first":
            new = new + cell.recurrence.bias[2 * HIDDEN :]
        torch.testing.assert_close(cell.advance(cell.inputs(x), state), new.tanh())


@pytest.mark.parametrize("name", CELLS)
def test_cells_one_hot_input_is_a_lookup(name: str) -> None:
    stack = scrambled(RNN(name, 7, HIDDEN))
    ids = torch.randint(7, (2, 5))
    W, U, b, c = weights_of(stack.layers[0])
    looked_up = nn.functional.embedding(ids, W.T)
    pass_on = give(UnrolledRNN(name, len(W), HIDDEN).double(), [torch.eye(len(W)), U, b, c])
    expected = pass_on(looked_up)
    read = stack(one_hot(ids, 7).double())
    torch.testing.assert_close(read.outputs, expected[:, :, :HIDDEN])
    torch.testing.assert_close(read.last_state[:, 0], expected[:, -1])


@pytest.mark.parametrize("name", CELLS)
def test_unrolled_rnn_in_two_parts_matches_whole(name: str) -> None:
    stack = scrambled(RNN(name, WIDTH, HIDDEN, 2))
    x = random(2, 7, WIDTH)
    whole, first = stack(x), stack(x[:, :3])
    second = stack(x[:, 3:], start=first.last_state)
    torch.testing.assert_close(torch.cat([first.outputs, second.outputs], dim=1), whole.outputs)
    torch.testing.assert_close(second.last_state, whole.last_state)


def test_unrolled_rnn_projects_inputs_in_one_product() -> None:
    layer = UnrolledRNN("gru_reset_first", WIDTH, HIDDEN)
    shapes = []
    layer.cell.inputs.register_forward_hook(lambda m, given, out: shapes.append(given[0].shape))
    layer(torch.randn(2, 9, WIDTH))
    assert shapes == [(2, 9, WIDTH)]


def test_unrolled_rnn_dropout_is_between_layers() -> None:
    x = random(2, 5, WIDTH)
    single = RNN("gru_reset_first", WIDTH, HIDDEN, 1, dropout=0.5).double()
    assert torch.equal(single(x).outputs, single.eval()(x).outputs)
    double = RNN("gru_reset_first", WIDTH, HIDDEN, 2, dropout=0.5).double()
    torch.manual_seed(1)
    got = double(x).outputs
    torch.manual_seed(1)
    torch.testing.assert_close(got, double.layers[1](double.dropout(double.layers[0](x))))
    assert not torch.equal(got, double.eval()(x).outputs)


@pytest.mark.parametrize("name", CELLS)
def test_cells_gradcheck(name: str) -> None:
    cell = scrambled(RNNCell(name, 2, 2))
    x, state = random(2, 2), random(2, 2 * CELLS[name].state_vectors)
    leaves = (x.requires_grad_(), state.requires_grad_(), *weights_of(cell))

    def advance(x: Tensor, state: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return CELLS[name].advance(nn.functional.linear(x, W, b), state, U, c)

    assert torch.autograd.gradcheck(advance, leaves)
    torch.testing.assert_close(advance(*leaves), cell.advance(cell.inputs(x), state))
    stack, lengths = scrambled(RNN(name, 2, 2, 2, bidirectional=True)), torch.tensor([3, 1])
    start = random(2, 4, 2 * CELLS[name].state_vectors).requires_grad_()

    def run(x: Tensor, start: Tensor) -> Tensor:
        return stack(x, lengths, start).last_state

    assert torch.autograd.gradcheck(run, (random(2, 3, 2).requires_grad_(), start))


@pytest.mark.parametrize("name", CELLS)
def test_cells_state_keeps_dtype_under_autocast(name: str) -> None:
    layer = UnrolledRNN(name, WIDTH, HIDDEN)
    x, state = torch.randn(5, 3, WIDTH), torch.randn(5, state_width(name))
    exact = layer(x, state)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded, from_zeros = layer(x, state), layer(x.bfloat16())
    assert rounded.dtype == from_zeros.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", CELLS)
def test_unrolled_rnn_initialises_gates_separately(name: str) -> None:
    for module in (RNN(name, 32, 64).layers[0], UnrolledRNN(name, 32, 64), RNNCell(name, 32, 64)):
        W, U, *biases = weights_of(module)
        for matrix in (W, U):
            for gate in matrix.detach().chunk(CELLS[name].gates):
                assert gate.shape == (64, matrix.shape[1])
                bound = math.sqrt(6 / sum(gate.shape))
                assert 0.98 * bound < float(gate.abs().max()) <= bound
        for bias in biases:
            maximum = float(bias.detach().abs().max())
            assert maximum == 0 if isinstance(module, RNNCell) else 0.1 < maximum <= 0.125


def test_cells_are_importable_from_rnn() -> None:
    assert recurrent_file.RNNCell is RNNCell
    assert recurrent_file.CELLS is CELLS


@pytest.mark.parametrize("made", [RNNCell, UnrolledRNN, RNN])
def test_cells_refuse_unknown_name(made: Any) -> None:
    expected = "got cell 'mgu'; expected one of rnn, rnn_relu, gru, gru_reset_first, lstm"
    with pytest.raises(ValueError, match=expected):
        made("mgu", 3, 4)
