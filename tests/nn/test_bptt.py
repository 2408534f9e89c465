import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.nn.bptt import (
    StepFn,
    bptt_chunks,
    gradients_by_distance,
    jacobians_by_distance,
    no_truncation,
    random_truncation,
    scale_gradient,
    truncate_every,
    unroll,
)
from saccade.nn.conv1d import ConvolutionStack
from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import CELLS
from saccade.seeding import generator

WIDTH, HIDDEN = 2, 3


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


class Problem(NamedTuple):
    """A recurrent network with a target at every step."""

    step: StepFn
    start: Tensor
    inputs: Tensor
    targets: Tensor
    leaves: list[Tensor]  # what gradients are taken by: the start and every weight


def problem(cell: str = "rnn", steps: int = 6, rows: int = 2, depth: int = 1) -> Problem:
    stack = RNN(cell, WIDTH, HIDDEN, depth).double()
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.6)
    start = random(rows, depth, CELLS[cell].state_vectors * HIDDEN).requires_grad_()

    def step(x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        read = stack(x, start=state)
        return read.outputs, read.last_state

    inputs, targets = random(rows, steps, WIDTH), random(rows, steps, HIDDEN)
    return Problem(step, start, inputs, targets, [start, *stack.parameters()])


def gradient(given: Problem, gates: Sequence[float]) -> Tensor:
    """Return the gradient of a loss at every step, by every leaf, as one vector."""
    outputs, _ = unroll(given.step, given.start, given.inputs, gates)
    loss = (outputs - given.targets).pow(2).sum()
    found = torch.autograd.grad(loss, given.leaves, materialize_grads=True)
    return torch.cat([one.flatten() for one in found])


def every_outcome(steps: int, keep: float) -> list[tuple[float, tuple[float, ...]]]:
    """Enumerate all outcomes with their probabilities."""
    return [
        (math.prod(keep if xi else 1 - keep for xi in gates), gates)
        for gates in product((0.0, 1 / keep), repeat=steps - 1)
    ]


def mean_and_variance(given: Problem, keep: float) -> tuple[Tensor, float]:
    """Return the exact moments over all outcomes; the variance is summed over all leaves."""
    outcomes = every_outcome(given.inputs.shape[1], keep)
    found = [(p, gradient(given, gates)) for p, gates in outcomes]
    mean = torch.stack([p * g for p, g in found]).sum(0)
    return mean, sum(p * float((g - mean).pow(2).sum()) for p, g in found)


# --- the three ways


@given(st.integers(1, 9), st.integers(1, 12))
def test_truncate_every_closes_every_window(steps: int, window: int) -> None:
    assert no_truncation(steps) == (1.0,) * (steps - 1)
    gates = truncate_every(steps, window)
    assert len(gates) == steps - 1
    assert [t for t, xi in enumerate(gates, 1) if xi == 0] == list(range(window, steps, window))
    assert set(gates) <= {0.0, 1.0}
    if window >= steps:
        assert gates == no_truncation(steps)


@given(st.integers(1, 9), st.floats(0.05, 1), st.integers(0, 2**31))
def test_random_truncation_gates_are_zero_or_inverse_probability(
    steps: int, keep: float, seed: int
) -> None:
    gates = random_truncation(steps, keep, generator(seed, "truncation"))
    assert gates == random_truncation(steps, keep, generator(seed, "truncation"))
    assert len(gates) == steps - 1 and set(gates) <= {0.0, 1 / keep}
    assert random_truncation(steps, 1.0, generator(seed, "truncation")) == no_truncation(steps)


@pytest.mark.parametrize("keep", [0.3, 0.8])
def test_random_truncation_gates_have_mean_one_and_are_independent(keep: float) -> None:
    gates = np.array(random_truncation(100_001, keep, generator(1, "truncation")))
    deviation = math.sqrt((1 - keep) / keep / len(gates))
    assert gates.mean() == pytest.approx(1, abs=5 * deviation)
    assert abs(np.corrcoef(gates[:-1], gates[1:])[0, 1]) < 0.02


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(CELLS)),
    st.lists(st.sampled_from([0.0, 1.0, 2.5]), max_size=5),
    st.integers(1, 2),
)
def test_unroll_outputs_do_not_depend_on_gates(cell: str, gates: list[float], depth: int) -> None:
    given_ = problem(cell, len(gates) + 1, depth=depth)
    whole, last_state = given_.step(given_.inputs, given_.start)
    outputs, state = unroll(given_.step, given_.start, given_.inputs, gates)
    torch.testing.assert_close(outputs, whole)
    torch.testing.assert_close(state, last_state)


@pytest.mark.parametrize("cell", CELLS)
def test_unroll_without_truncation_matches_autograd(cell: str) -> None:
    given_ = problem(cell)
    outputs, _ = given_.step(given_.inputs, given_.start)
    loss = (outputs - given_.targets).pow(2).sum()
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, given_.leaves)])
    torch.testing.assert_close(gradient(given_, no_truncation(6)), expected)
    for window in (6, 7):
        assert torch.equal(
            gradient(given_, truncate_every(6, window)), gradient(given_, no_truncation(6))
        )
    for window in (1, 3, 5):
        assert not torch.allclose(gradient(given_, truncate_every(6, window)), expected, rtol=1e-3)


def slope_by_recursion(w: float, x: list[float], xi: Sequence[float]) -> float:
    """d(Σ h_t)/dw for h_t = w h_{t-1} + x_t from h_0 = 0.7, straight from the equation."""
    h, slope, total = 0.7, 0.0, 0.0
    for t, value in enumerate(x):
        through = 1.0 if t == 0 else xi[t - 1]
        slope = h + through * w * slope
        h = w * h + value
        total += slope
    return total


@settings(max_examples=40)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), max_size=6), st.floats(-1.5, 1.5))
def test_unroll_gate_scales_gradient(gates: list[float], w: float) -> None:
    weight = torch.tensor(w, dtype=torch.float64, requires_grad=True)
    x = random(1, len(gates) + 1)

    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for value in x.unbind(1):
            h = weight * h + value
            found.append(h)
        return torch.stack(found, dim=1), h

    outputs, _ = unroll(step, torch.tensor([0.7], dtype=torch.float64), x, gates)
    (slope,) = torch.autograd.grad(outputs.sum(), weight)
    expected = slope_by_recursion(w, x[0].tolist(), gates)
    assert float(slope) == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_unroll_truncated_matches_detached_state(cell: str) -> None:
    given_ = problem(cell, steps=7)
    state, loss = given_.start, torch.zeros((), dtype=torch.float64)
    for start_step in (0, 3, 6):
        piece = slice(start_step, start_step + 3)
        outputs, state = given_.step(given_.inputs[:, piece], state)
        loss = loss + (outputs - given_.targets[:, piece]).pow(2).sum()
        state = state.detach()
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, given_.leaves)])
    torch.testing.assert_close(gradient(given_, truncate_every(7, 3)), expected)


def test_bptt_chunks_backward_one_at_a_time() -> None:
    given_ = problem(steps=7)
    expected = gradient(given_, truncate_every(7, 3))
    start_step, lengths = 0, []
    for outputs, _ in bptt_chunks(given_.step, given_.start, given_.inputs, truncate_every(7, 3)):
        end = start_step + outputs.shape[1]
        (outputs - given_.targets[:, start_step:end]).pow(2).sum().backward()
        lengths.append(outputs.shape[1])
        start_step = end
    assert lengths == [
        3,
        3,
        1,
    ]  # open borders are not stopped at: a fused layer reads them together
    got = torch.cat([leaf.grad.flatten() for leaf in given_.leaves if leaf.grad is not None])
    torch.testing.assert_close(got, expected)


def test_unroll_gradcheck() -> None:
    given_ = problem("gru", steps=4)

    def run(start: Tensor, inputs: Tensor) -> Tensor:
        return unroll(given_.step, start, inputs, no_truncation(4))[0]

    inputs = given_.inputs.requires_grad_()
    assert torch.autograd.gradcheck(run, (given_.start, inputs))


# --- random truncation: right on average, and what that costs


@pytest.mark.parametrize("keep", [0.25, 0.6, 0.9])
@pytest.mark.parametrize("cell", ["rnn", "gru_reset_first", "lstm"])
def test_random_truncation_is_unbiased(cell: str, keep: float) -> None:
    given_ = problem(cell, steps=5)
    mean, variance = mean_and_variance(given_, keep)
    torch.testing.assert_close(mean, gradient(given_, no_truncation(5)), rtol=1e-10, atol=1e-10)
    assert variance > 0


def test_random_truncation_variance_grows_as_keep_decreases() -> None:
    given_ = problem(steps=5)
    spread = [mean_and_variance(given_, keep)[1] for keep in (1.0, 0.9, 0.6, 0.3)]
    assert spread[0] < 1e-20
    assert 0 < spread[1] < spread[2] < spread[3]


@pytest.mark.parametrize("keep", [0.3, 0.7])
def test_random_truncation_variance_grows_exponentially_with_distance(keep: float) -> None:
    # ∂h_T/∂h_0 = wᵀ crosses T - 1 borders, and E[ξ²] = 1/keep at each
    w, start = 0.9, torch.ones(1, dtype=torch.float64, requires_grad=True)

    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        for _ in range(x.shape[1]):
            h = w * h
        return h[:, None].expand(x.shape), h

    for T in (1, 3, 6):
        mean = square = 0.0
        for p, gates in every_outcome(T, keep):
            _, last_state = unroll(step, start, random(1, T), gates)
            total = (
                last_state + 0 * start
            ).sum()  # where a border is closed, `last` has no gradient
            slope = float(torch.autograd.grad(total, start)[0])
            mean, square = mean + p * slope, square + p * slope**2
        assert mean == pytest.approx(w**T, rel=1e-12)
        variance = w ** (2 * T) * (keep ** -(T - 1) - 1)
        assert square - mean**2 == pytest.approx(variance, rel=1e-10, abs=1e-14)


def test_random_truncation_samples_match_exact_moments() -> None:
    given_, keep, times = problem(steps=4, rows=1), 0.7, 5000
    mean, variance = mean_and_variance(given_, keep)
    of = {gates: gradient(given_, gates) for _, gates in every_outcome(4, keep)}
    draw = generator(3, "truncation")
    drawn = torch.stack([of[random_truncation(4, keep, draw)] for _ in range(times)])
    assert float((drawn.mean(0) - mean).norm()) < 4 * math.sqrt(variance / times)
    assert float((drawn - mean).pow(2).sum(1).mean()) == pytest.approx(variance, rel=0.1)


# --- states


class Pair(NamedTuple):
    numbers: Tensor
    rest: tuple[Tensor, int]


def test_scale_gradient_keeps_structure_and_values() -> None:
    a, b = random(2, 3).requires_grad_(), random(2).requires_grad_()
    for through in (0.0, 0.5, 1.0, 4.0):
        carried = scale_gradient(Pair(a, (b, 7)), through)
        assert isinstance(carried, Pair) and carried.rest[1] == 7
        assert torch.equal(carried.numbers, a) and torch.equal(carried.rest[0], b)
        found: Any = (None, None)
        if through:
            found = torch.autograd.grad(carried.numbers.sum() + carried.rest[0].sum(), [a, b])
            assert torch.equal(found[0], torch.full_like(a, through))
            assert torch.equal(found[1], torch.full_like(b, through))
        else:
            assert not carried.numbers.requires_grad and not carried.rest[0].requires_grad
    assert scale_gradient(a, 1.0) is a
    assert not scale_gradient(a).requires_grad
    assert scale_gradient(None) is None


# --- what arrives, by distance


@pytest.mark.parametrize("size", [0.5, 1.0, 1.6])
def test_jacobians_by_distance_are_matrix_powers_for_linear_rnn(size: float) -> None:
    shrink = torch.tensor([1, 0.9, 0.7, 0.2], dtype=torch.float64)
    W = size * torch.linalg.qr(random(4, 4))[0] * shrink  # ‖W‖ is `size`

    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = h @ W.T + x[:, 0]
        return h[:, None], h

    x, start, u = random(2, 7, 4), random(2, 4), random(4)
    found = jacobians_by_distance(step, start, x)
    gradients = gradients_by_distance(step, start, x, lambda last_state: last_state @ u)
    assert found.shape == gradients.shape == (2, 7)
    for d in range(1, 8):
        power = torch.linalg.matrix_power(W, d)
        expected = torch.linalg.matrix_norm(power, ord=2).expand(2)
        torch.testing.assert_close(found[:, d - 1], expected, rtol=1e-10, atol=0)
        torch.testing.assert_close(
            gradients[:, d - 1], (power.T @ u).norm().expand(2), rtol=1e-10, atol=0
        )
    assert bool((found <= size ** torch.arange(1, 8) + 1e-12).all())


@pytest.mark.parametrize("cell", CELLS)
def test_jacobians_by_distance_match_autograd(cell: str) -> None:
    given_ = problem(cell, steps=5, depth=2)
    found = jacobians_by_distance(given_.step, given_.start, given_.inputs)

    def loss(output: Tensor) -> Tensor:
        return (output - given_.targets[:, -1]).pow(2).sum(dim=-1)

    gradients = gradients_by_distance(given_.step, given_.start, given_.inputs, loss)
    states = [given_.start]
    for x in given_.inputs[:, :-1].split(1, dim=1):
        states.append(given_.step(x, states[-1])[1])
    for d in range(1, 6):
        for row in range(2):
            rest = given_.inputs[row : row + 1, 5 - d :]

            def last_state(state: Tensor, rest: Tensor = rest) -> Tensor:
                return given_.step(rest, state[None])[1].flatten()

            def its_loss(state: Tensor, rest: Tensor = rest, row: int = row) -> Tensor:
                output = given_.step(rest, state[None])[0][0, -1]
                return (output - given_.targets[row, -1]).pow(2).sum()

            own = states[-d][row].detach()
            jacobian = torch.autograd.functional.jacobian(last_state, own).flatten(1)
            norm = torch.linalg.matrix_norm(jacobian, ord=2)
            torch.testing.assert_close(found[row, d - 1], norm)
            slope = torch.autograd.functional.jacobian(its_loss, own)
            torch.testing.assert_close(gradients[row, d - 1], slope.norm())


def test_jacobians_by_distance_of_state_with_several_tensors() -> None:
    stack: Any = ConvolutionStack(2, 2, 2, causal=True, dilation_growth=2).double()
    x = random(1, 6, 2)
    found = gradients_by_distance(
        stack.step, stack.init_state(1), x, lambda last_state: last_state.sum(dim=-1)
    )
    # the field is 4 places: the state before the last three steps still matters, none before
    assert [value > 0 for value in found[0].tolist()] == [True, True, True, False, False, False]
    assert jacobians_by_distance(stack.step, stack.init_state(1), x).shape == (1, 6)


def test_gradients_by_distance_vanish_and_explode() -> None:
    x = random(1, 20, WIDTH) * 0.01
    found = {}
    for size in (0.5, 1.5):
        stack = RNN("rnn_relu", WIDTH, HIDDEN).double()
        layer: Any = stack.layers[0]
        with torch.no_grad():
            layer.weight_hh_l0.copy_(size * torch.eye(HIDDEN))
            layer.bias_ih_l0.fill_(1.0)
            layer.bias_hh_l0.fill_(0.0)
        start = torch.ones(1, 1, HIDDEN, dtype=torch.float64)

        def step(x: Tensor, state: Tensor, stack: RNN = stack) -> tuple[Tensor, Tensor]:
            read = stack(x, start=state)
            return read.outputs, read.last_state

        found[size] = jacobians_by_distance(step, start, x)[0]
    for size, norms in found.items():
        torch.testing.assert_close(norms, size ** torch.arange(1, 21, dtype=torch.float64))


def test_gradients_by_distance_have_no_side_effect() -> None:
    given_ = problem(steps=4)
    with torch.no_grad():
        found = gradients_by_distance(
            given_.step, given_.start, given_.inputs, lambda last_state: last_state.sum(dim=-1)
        )
        jacobians_by_distance(given_.step, given_.start, given_.inputs)
    assert bool((found > 0).all()) and not found.requires_grad
    assert all(leaf.grad is None for leaf in given_.leaves)


# --- refusals


def test_bptt_error_messages() -> None:
    with pytest.raises(ValueError, match="got a window of 0; expected 1 step or more"):
        truncate_every(5, 0)
    for keep in (0.0, -0.5, 1.5, math.nan):
        with pytest.raises(ValueError, match=f"got keep_probability {keep}; expected a number in"):
            random_truncation(5, keep, generator(0, "truncation"))
    given_ = problem(steps=4)
    with pytest.raises(ValueError, match="got 2 gates for 4 steps; .* 3 in all"):
        unroll(given_.step, given_.start, given_.inputs, no_truncation(3))
    with pytest.raises(ValueError, match="got the state None, .* try a state of zeros"):
        jacobians_by_distance(given_.step, None, given_.inputs)
