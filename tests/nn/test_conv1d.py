import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.nn.conv1d import (
    Convolution,
    ConvolutionStack,
    ConvState,
    GatedConvolution,
    convolve,
    mask_padding,
    receptive_field,
)
from saccade.types.shapes import select_rows

WIDTH = 3
kernels, dilations = st.integers(1, 4), st.integers(1, 3)
lengths_of = st.lists(st.integers(1, 6), min_size=1, max_size=4)
pieces = st.lists(st.integers(1, 4), min_size=1, max_size=5)
seeds = st.integers(0, 2**31)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def scrambled(module: nn.Module) -> Any:
    """Return the module in float64 with no parameter at zero."""
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def by_loops(layer: Convolution, x: list[list[float]]) -> list[list[float]]:
    """Convolve one row by loops, with zeros outside the row."""
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    kernel = len(weight[0][0])
    reach = (kernel - 1) * layer.dilation
    before = reach if layer.causal else reach // 2
    rows = []
    for t in range(len(x)):
        row = []
        for e, total in enumerate(bias):
            for k in range(kernel):
                position = t - before + k * layer.dilation
                if 0 <= position < len(x):
                    for d, value in enumerate(x[position]):
                        total += weight[e][d][k] * value
            row.append(total)
        rows.append(row)
    return rows


# --- one layer


@settings(max_examples=60)
@given(kernels, dilations, st.booleans(), lengths_of, st.integers(0, 2), seeds)
def test_convolution_matches_equation_and_ignores_padding(
    kernel: int, dilation: int, causal: bool, lengths: list[int], more: int, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = scrambled(Convolution(WIDTH, 2, kernel, dilation, causal))
    x = random(len(lengths), max(lengths) + more, WIDTH)
    for row, length in enumerate(lengths):
        x[row, length:] = math.nan
    y = layer(x, torch.tensor(lengths))
    assert y.shape == (len(lengths), max(lengths) + more, 2)
    for row, length in enumerate(lengths):
        expected = by_loops(layer, x[row, :length].tolist())
        torch.testing.assert_close(y[row, :length], torch.tensor(expected, dtype=torch.float64))


@settings(max_examples=40)
@given(kernels, dilations, st.booleans(), st.integers(1, 7), seeds)
def test_convolution_matches_torch(
    kernel: int, dilation: int, causal: bool, T: int, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = scrambled(Convolution(WIDTH, 2, kernel, dilation, causal))
    reach = (kernel - 1) * dilation
    padding = reach if causal else 0
    theirs: Any = nn.Conv1d(WIDTH, 2, kernel, dilation=dilation, padding=padding).double()
    theirs.load_state_dict(layer.state_dict())
    x = random(2, T, WIDTH).requires_grad_()
    turned = x.transpose(1, 2)
    if causal:  # they pad both ends
        expected = theirs(turned)[:, :, :T]
    else:
        expected = theirs(nn.functional.pad(turned, (reach // 2, reach - reach // 2)))
    y = layer(x)
    torch.testing.assert_close(y, expected.transpose(1, 2))
    slope = torch.randn_like(y)
    mine = torch.autograd.grad(y, [x, layer.weight, layer.bias], slope)
    other = torch.autograd.grad(expected, [x, theirs.weight, theirs.bias], slope.transpose(1, 2))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_convolution_not_causal_matches_torch_same_padding(kernel: int, dilation: int) -> None:
    layer = scrambled(Convolution(WIDTH, 2, kernel, dilation))
    theirs = nn.Conv1d(WIDTH, 2, kernel, dilation=dilation, padding="same").double()
    theirs.load_state_dict(layer.state_dict())
    x = random(2, 6, WIDTH)
    torch.testing.assert_close(layer(x), theirs(x.transpose(1, 2)).transpose(1, 2))


def test_convolve_returns_valid_positions() -> None:
    x, weight, bias = random(2, 7, 3), random(4, 3, 3), random(4)
    y = convolve(x, weight, bias, 2)
    expected = nn.functional.conv1d(x.transpose(1, 2), weight, bias, dilation=2).transpose(1, 2)
    assert y.shape == (2, 3, 4)
    torch.testing.assert_close(y, expected)


@settings(max_examples=40)
@given(kernels, dilations, pieces, seeds)
def test_convolution_steps_match_forward(
    kernel: int, dilation: int, sizes: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    layer = scrambled(Convolution(WIDTH, 2, kernel, dilation, causal=True))
    x = random(2, sum(sizes), WIDTH)
    state, outputs = layer.init_state(2), []
    assert isinstance(state, ConvState)
    for piece in x.split(sizes, dim=1):
        y, state = layer.step(piece, state)
        assert state.inputs.shape == (2, (kernel - 1) * dilation, WIDTH)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, dim=1), layer(x))
    padded = torch.cat([torch.zeros(2, (kernel - 1) * dilation, WIDTH).double(), x], dim=1)
    assert torch.equal(state.inputs, padded[:, x.shape[1] :])


def test_convolution_state_can_be_reused_and_selected() -> None:
    layer = scrambled(Convolution(WIDTH, 2, 3, 2, causal=True))
    x = random(3, 6, WIDTH)
    _, state = layer.step(x[:, :4], layer.init_state(3))
    kept = state.inputs.clone()
    first, _ = layer.step(x[:, 4:], state)
    again, _ = layer.step(x[:, 4:], state)
    assert torch.equal(first, again) and torch.equal(kept, state.inputs)
    rows = torch.tensor([2, 2, 0])
    chosen, _ = layer.step(x[rows, 4:], select_rows(state, rows))
    torch.testing.assert_close(chosen, first[rows])


@pytest.mark.parametrize("causal", [False, True])
def test_convolution_gradcheck(causal: bool) -> None:
    layer, lengths = scrambled(Convolution(2, 2, 3, 2, causal)), torch.tensor([5, 2])

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        values = {"weight": weight, "bias": bias}
        return torch.func.functional_call(layer, values, (x, lengths))

    leaves = (random(2, 5, 2).requires_grad_(), layer.weight, layer.bias)
    assert torch.autograd.gradcheck(run, leaves)
    stack = scrambled(ConvolutionStack(2, 2, 2, causal, dilation_growth=2))
    assert torch.autograd.gradcheck(lambda x: stack(x, lengths), leaves[:1])


def test_convolution_initial_output_variance_is_one() -> None:
    y = Convolution(64, 64, 5)(torch.randn(20, 50, 64))[:, 2:-2]
    assert float(y.detach().std()) == pytest.approx(1, abs=0.1)


# --- a stack


def gated_by_hand(block: GatedConvolution, x: Tensor) -> Tensor:
    """Compute one row by loops: convolution, gate and residual."""
    y = by_loops(block.convolution, x.tolist())
    D = x.shape[1]
    rows = [
        [
            math.sqrt(0.5) * (value + y[t][d] / (1 + math.exp(-y[t][D + d])))
            for d, value in enumerate(row)
        ]
        for t, row in enumerate(x.tolist())
    ]
    return torch.tensor(rows, dtype=torch.float64)


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans(), lengths_of, seeds)
def test_convolution_stack_matches_equation_and_ignores_padding(
    depth: int, kernel: int, dilation_growth: int, causal: bool, lengths: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    stack = scrambled(
        ConvolutionStack(WIDTH, depth, kernel, causal, dilation_growth=dilation_growth)
    )
    assert [layer.convolution.dilation for layer in stack.layers] == [
        dilation_growth**layer for layer in range(depth)
    ]
    x = random(len(lengths), max(lengths) + 1, WIDTH)
    for row, length in enumerate(lengths):
        x[row, length:] = math.nan
    y = stack(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        expected = x[row, :length]
        for block in stack.layers:
            expected = gated_by_hand(block, expected)
        torch.testing.assert_close(y[row, :length], expected)


@settings(max_examples=30)
@given(st.integers(1, 3), kernels, st.integers(1, 3), pieces, seeds)
def test_convolution_stack_steps_match_forward(
    depth: int, kernel: int, dilation_growth: int, sizes: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    stack = scrambled(ConvolutionStack(WIDTH, depth, kernel, True, dilation_growth=dilation_growth))
    x = random(2, sum(sizes), WIDTH)
    state, outputs = stack.init_state(2), []
    for piece in x.split(sizes, dim=1):
        y, state = stack.step(piece, state)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, dim=1), stack(x))


def test_convolution_stack_causal_ignores_future() -> None:
    stack = scrambled(ConvolutionStack(WIDTH, 3, 3, causal=True, dilation_growth=2))
    x = random(2, 9, WIDTH)
    changed = x.clone()
    changed[:, 5:] = random(2, 4, WIDTH)
    assert torch.equal(stack(x)[:, :5], stack(changed)[:, :5])
    assert not torch.allclose(stack(x)[:, 5:], stack(changed)[:, 5:])


@pytest.mark.parametrize("causal", [False, True])
def test_convolution_stack_padding_has_no_gradient(causal: bool) -> None:
    stack = scrambled(ConvolutionStack(WIDTH, 2, 3, causal))
    x, lengths = random(2, 6, WIDTH), torch.tensor([6, 3])
    slope = random(2, 6, WIDTH)
    slope[1, 3:] = 0  # no loss there

    def gradients(x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        leaves = [x, *stack.parameters()]
        return list(torch.autograd.grad(stack(x, lengths), leaves, slope))

    clean = gradients(x)
    assert bool((clean[0][1, 3:] == 0).all()) and bool((clean[0][1, :3] != 0).all())
    x[1, 3:] = math.nan
    for one, two in zip(gradients(x), clean, strict=True):
        assert torch.equal(one, two)


fields = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3)


def seen_by(layers: list[Convolution], T: int, position: int) -> list[int]:
    """Return the inputs on which one output depends, by its gradient."""
    x = torch.ones(1, T, 1, dtype=torch.float64, requires_grad=True)
    y: Tensor = x
    for layer in layers:
        y = layer(y)
    (slope,) = torch.autograd.grad(y[0, position, 0], x)
    return [t for t, value in enumerate(slope[0, :, 0].tolist()) if value != 0]


@settings(max_examples=60)
@given(fields, st.booleans())
def test_receptive_field_bounds_dependence(sizes: list[tuple[int, int]], causal: bool) -> None:
    field = receptive_field([k for k, _ in sizes], [d for _, d in sizes])
    layers = [Convolution(1, 1, k, d, causal).double() for k, d in sizes]
    for layer in layers:
        nn.init.constant_(layer.weight, 1.0)  # all positive: no two ways cancel
    seen = seen_by(layers, 2 * field + 1, field)
    assert seen[-1] - seen[0] + 1 == field
    if causal:
        assert seen[-1] == field  # the newest is the one at the output's own position
    below, whole = 1, True
    for k, d in sizes:
        whole &= k == 1 or d <= below
        below += (k - 1) * d
    if whole:
        assert seen == list(range(seen[0], seen[0] + field))


@pytest.mark.parametrize(
    "depth, kernel, dilation_growth, field",
    [(1, 3, 1, 3), (4, 3, 1, 9), (4, 2, 2, 16), (3, 3, 3, 27)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_receptive_field_of_stack(
    depth: int, kernel: int, dilation_growth: int, field: int, causal: bool
) -> None:
    stack = scrambled(ConvolutionStack(2, depth, kernel, causal, dilation_growth=dilation_growth))
    assert stack.receptive_field == field
    x = random(1, 2 * field + 1, 2).requires_grad_()
    (slope,) = torch.autograd.grad(stack(x)[0, field].sum(), x)
    seen = slope[0].abs().sum(dim=-1).nonzero()[:, 0].tolist()
    assert seen == list(range(seen[0], seen[0] + field))
    if causal:
        assert seen[-1] == field


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_convolution_stack_initial_variance_is_one(dropout: float) -> None:
    stack = ConvolutionStack(64, 12, 3, dropout=dropout)
    y = stack(torch.randn(8, 60, 64))[:, 20:-20]
    assert float(y.detach().std()) == pytest.approx(1, abs=0.25)


def test_gated_convolution_dropout_is_on_the_branch() -> None:
    block, x = scrambled(GatedConvolution(WIDTH, 3, dropout=0.5)), random(2, 5, WIDTH)
    torch.manual_seed(1)
    got = block(x)
    torch.manual_seed(1)
    inside = nn.functional.glu(block.convolution(block.dropout(x)), dim=-1)
    torch.testing.assert_close(got, math.sqrt(0.5) * (x + inside))
    assert not torch.equal(got, block.eval()(x))


def test_mask_padding_keeps_real_positions() -> None:
    x = random(2, 4, 2)
    assert mask_padding(x, None) is x
    blanked = mask_padding(x, torch.tensor([4, 1]))
    assert torch.equal(blanked[0], x[0]) and torch.equal(blanked[1, :1], x[1, :1])
    assert bool((blanked[1, 1:] == 0).all())


# --- refusals


def test_convolution_refuses_invalid_sizes() -> None:
    with pytest.raises(ValueError, match="kernel_size 0; expected 1 or more"):
        Convolution(3, 3, 0)
    with pytest.raises(ValueError, match="dilation -1; expected 1 or more"):
        Convolution(3, 3, 2, dilation=-1)
    with pytest.raises(ValueError, match="depth 0; expected 1 or more"):
        ConvolutionStack(3, 0, 2)
    with pytest.raises(ValueError, match="growth 0; expected 1 or more"):
        ConvolutionStack(3, 2, 2, dilation_growth=0)


def test_convolution_step_requires_causal() -> None:
    layer, stack = Convolution(3, 3, 3), ConvolutionStack(3, 2, 3)
    expected = "depends on later inputs; expected a causal one; try causal=True"
    with pytest.raises(ValueError, match=expected):
        layer.init_state(1)
    with pytest.raises(ValueError, match=expected):
        layer.step(torch.randn(1, 1, 3), ConvState(torch.zeros(1, 2, 3)))
    with pytest.raises(ValueError, match=expected):
        stack.init_state(1)
