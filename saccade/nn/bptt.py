r"""Backpropagation through time: how far back a gradient is carried, and how much of it arrives.

A state goes from step to step, h_t = f(x_t, h_{t-1}; w), and so does its gradient, backwards:

    dh_t/dw = ∂f/∂w + ξ_t · ∂f/∂h_{t-1} · dh_{t-1}/dw

ξ_t is how much of it crosses the border before step t. What the steps compute stays the same.

    full                ξ_t = 1                               the gradient itself (Werbos 1990)
    truncated           ξ_t = 0 every `window` steps, else 1  blind to what lies farther back
    randomly_truncated  ξ_t = 1/keep with probability keep, else 0    (Tallec and Ollivier 2017)

In the last E[ξ_t] = 1, and every path of the gradient crosses a border at most once, so that it is
right on average; what it costs is variance, which grows with 1/keep to the power of the distance.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# some steps of input (B, T, ...) and a state in, outputs (B, T, ...) and the state after them out;
# a state is a tensor or a tuple of tensors and tuples, batch first
StepFn = Callable[[Any, Any], tuple[Any, Any]]


def no_truncation(steps: int) -> tuple[float, ...]:
    """Every border is open: one number for each border between two of the steps."""
    return (1.0,) * max(steps - 1, 0)


def truncate_every(steps: int, window: int) -> tuple[float, ...]:
    """The border before every `window`-th step is closed; the others are open."""
    if window < 1:
        raise ValueError(f"window is {window}; a gradient is carried over at least 1 step.")
    return tuple(float(t % window != 0) for t in range(1, steps))


def random_truncation(
    steps: int, keep_probability: float, generator: np.random.Generator
) -> tuple[float, ...]:
    """Each border is open with probability `keep`, and then lets 1/keep of the gradient through.

    Carried over 1/(1 - keep) steps on average. Tallec and Ollivier let `keep` depend on how long
    ago the last cut was, to tame the variance; here it is the same at every border.
    """
    if not 0 < keep_probability <= 1:
        raise ValueError(f"keep is {keep_probability}; it is a probability, above 0 and at most 1.")
    return tuple(
        1 / keep_probability if kept else 0.0
        for kept in generator.random(max(steps - 1, 0)) < keep_probability
    )


def unroll(step: StepFn, state: Any, inputs: Tensor, gates: Sequence[float]) -> tuple[Tensor, Any]:
    """The outputs of all steps and the last state, with what `borders` says of the gradient.

    `borders` comes from `full`, `truncated` or `randomly_truncated`. The gradient always reaches
    the state handed in: `carry` that one too if it is left over from an earlier sequence. Borders
    hold for every tensor of the state, so what was read before the first step (an encoded source)
    belongs inside `step` and not in the state.
    """
    outputs = []
    for output, now in bptt_chunks(step, state, inputs, gates):
        outputs.append(output)
        state = now
    return torch.cat(outputs, dim=1), state


def bptt_chunks(
    step: StepFn, state: Any, inputs: Tensor, gates: Sequence[float]
) -> Iterator[tuple[Tensor, Any]]:
    """Outputs and state after each stretch of steps with open borders, read at once.

    Where all borders that are not open are closed (0), the loss of a stretch may be sent back
    before the next one is read: then only one stretch is held in memory.
    """
    if len(gates) != inputs.shape[1] - 1:
        raise ValueError(
            f"{len(gates)} borders for {inputs.shape[1]} steps; "
            f"there is one between two steps, {inputs.shape[1] - 1} in all."
        )
    marked = [t for t, factor in enumerate(gates, 1) if factor != 1]
    for begin, end in zip([0, *marked], [*marked, inputs.shape[1]], strict=True):
        if begin:
            state = scale_gradient(state, gates[begin - 1])
        output, state = step(inputs[:, begin:end], state)
        yield output, state


def scale_gradient(state: Any, factor: float = 0.0) -> Any:
    """The same state, which lets `through` times its gradient pass back; 0 detaches it."""

    def one(part: Tensor) -> Tensor:
        if factor == 1:
            return part
        return _ScaleGradient.apply(part, factor) if factor else part.detach()

    return _each(state, one)


class _ScaleGradient(torch.autograd.Function):
    """x forward, a multiple of the gradient backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return ctx.factor * slope, None


def gradients_by_distance(
    step: StepFn, state: Any, inputs: Tensor, loss: Callable[[Tensor], Tensor]
) -> Float[Tensor, "B T"]:
    r"""‖∂ℓ/∂h_{T-d}‖ for d = 1 … T: what the last step's loss tells the state d steps before.

    `loss` gives a number for each row from the last step's output (B, ...). Falling to nothing
    with d is vanishing, growing without end exploding (Bengio et al. 1994, Pascanu et al. 2013).
    No parameter's gradient is touched.
    """
    with torch.enable_grad():
        output, _, handed_in = _trace(step, state, inputs)
        losses = loss(output[:, -1])
        slopes = _slopes(losses.sum(), handed_in)  # rows do not see each other
    return torch.stack([slope.norm(dim=-1) for slope in slopes], dim=1)


def jacobians_by_distance(step: StepFn, state: Any, inputs: Tensor) -> Float[Tensor, "B T"]:
    r"""‖∂h_T/∂h_{T-d}‖ for d = 1 … T, the largest singular value.

    The most by which a change of the state can have grown d steps later, in any direction: ‖Wᵈ‖
    where h_t = W h_{t-1} + x_t. Takes a pass back for each number of a row's state, so it is for
    pictures and not for training.
    """
    with torch.enable_grad():
        _, last, handed_in = _trace(step, state, inputs)
        totals = torch.cat([leaf.flatten(1) for leaf in _leaves(last)], dim=1).sum(dim=0)
        rows = [_slopes(total, handed_in) for total in totals]
    every_distance = zip(*rows, strict=True)
    return torch.stack(
        [torch.linalg.matrix_norm(torch.stack(one, dim=1), ord=2) for one in every_distance], dim=1
    )


def _trace(step: StepFn, state: Any, inputs: Tensor) -> tuple[Tensor, Any, list[list[Tensor]]]:
    """The last output, the last state, and the states handed in, the last one first."""
    if not _leaves(state):
        raise ValueError(
            f"the state handed in is {state!r} and holds no numbers to take a gradient by; "
            "hand in one of zeros."
        )
    state = _each(
        state, lambda part: part.detach().requires_grad_() if part.is_floating_point() else part
    )
    handed_in = []
    for x in inputs.split(1, dim=1):
        handed_in.append(_leaves(state))
        output, state = step(x, state)
    return output, state, handed_in[::-1]


def _each(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same tree with every tensor changed."""
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, tuple):
        parts = [_each(part, change) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state


def _leaves(state: Any) -> list[Tensor]:
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in _leaves(part)]
    return [state] if isinstance(state, Tensor) and state.is_floating_point() else []


def _slopes(of: Tensor, states: list[list[Tensor]]) -> list[Tensor]:
    """The gradient by each of the states, its tensors side by side in one row of numbers (B, ·)."""
    flat = [leaf for state in states for leaf in state]
    slopes = iter(torch.autograd.grad(of, flat, retain_graph=True, materialize_grads=True))
    return [torch.cat([next(slopes).flatten(1) for _ in state], dim=1) for state in states]
