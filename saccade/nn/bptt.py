r"""Backpropagation through time, with truncation, and the size of gradients by distance.

The state passes from step to step, h_t = f(x_t, h_{t-1}; w), and its gradient passes back:

    dh_t/dw = ∂f/∂w + ξ_t · ∂f/∂h_{t-1} · dh_{t-1}/dw

The gate ξ_t scales the gradient that crosses the border before step t. The forward pass is the same
for all gates.

    full                ξ_t = 1                               the exact gradient (Werbos 1990)
    truncated           ξ_t = 0 every `window` steps, else 1  ignores longer dependencies
    randomly truncated  ξ_t = 1/keep with probability keep, else 0    (Tallec and Ollivier 2017)

In the last, E[ξ_t] = 1 and every path of the gradient crosses a border at most once, so that it is
unbiased; its variance grows with 1/keep to the power of the distance.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# (inputs (B, T, ...), state) -> (outputs (B, T, ...), state after them); a state is a tensor or a
# nested tuple of tensors, batch first
StepFn = Callable[[Any, Any], tuple[Any, Any]]


def no_truncation(steps: int) -> tuple[float, ...]:
    """Return gates of 1, one for each border between two steps."""
    return (1.0,) * max(steps - 1, 0)


def truncate_every(steps: int, window: int) -> tuple[float, ...]:
    """Return a gate of 0 before every `window`-th step, and of 1 elsewhere."""
    if window < 1:
        raise ValueError(f"got a window of {window}; expected 1 step or more.")
    return tuple(float(t % window != 0) for t in range(1, steps))


def random_truncation(
    steps: int, keep_probability: float, generator: np.random.Generator
) -> tuple[float, ...]:
    """Return gates of 1/keep with probability keep, else 0, where keep is `keep_probability`.

    The gradient passes over 1/(1 - keep) steps on average. Tallec and Ollivier let keep depend on
    the distance to the last cut, to reduce the variance; here it is constant.
    """
    if not 0 < keep_probability <= 1:
        raise ValueError(f"got keep_probability {keep_probability}; expected a number in (0, 1].")
    return tuple(
        1 / keep_probability if kept else 0.0
        for kept in generator.random(max(steps - 1, 0)) < keep_probability
    )


def unroll(step: StepFn, state: Any, inputs: Tensor, gates: Sequence[float]) -> tuple[Tensor, Any]:
    """Return the outputs of all steps and the last state; `gates` scale the gradient.

    `gates` come from `no_truncation`, `truncate_every` or `random_truncation`. The gradient always
    reaches the initial state: apply `scale_gradient` to it if it comes from an earlier sequence.
    Gates apply to every tensor of the state, so an encoded source belongs inside `step` and not in
    the state.
    """
    outputs = []
    for output, after in bptt_chunks(step, state, inputs, gates):
        outputs.append(output)
        state = after
    return torch.cat(outputs, dim=1), state


def bptt_chunks(
    step: StepFn, state: Any, inputs: Tensor, gates: Sequence[float]
) -> Iterator[tuple[Tensor, Any]]:
    """Yield outputs and state of each chunk of steps between gates that are not 1.

    Where these gates are 0, `backward` may be called on the loss of a chunk before the next one is
    computed: then only one chunk is held in memory.
    """
    if len(gates) != inputs.shape[1] - 1:
        raise ValueError(
            f"got {len(gates)} gates for {inputs.shape[1]} steps; expected one between two steps, "
            f"{inputs.shape[1] - 1} in all."
        )
    borders = [t for t, factor in enumerate(gates, 1) if factor != 1]
    for start, end in zip([0, *borders], [*borders, inputs.shape[1]], strict=True):
        if start:
            state = scale_gradient(state, gates[start - 1])
        output, state = step(inputs[:, start:end], state)
        yield output, state


def scale_gradient(state: Any, factor: float = 0.0) -> Any:
    """Return the same state with its gradient multiplied by `factor`; 0 detaches it."""

    def scale(part: Tensor) -> Tensor:
        if factor == 1:
            return part
        return _ScaleGradient.apply(part, factor) if factor else part.detach()

    return _map_tensors(state, scale)


class _ScaleGradient(torch.autograd.Function):
    """Identity with a scaled gradient."""

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
    r"""‖∂ℓ/∂h_{T-d}‖ for d = 1 … T: the gradient of the last loss by the state d steps before.

    `loss` maps the last output (B, ...) to a number for each row. A decrease with d is a vanishing,
    an increase an exploding gradient (Bengio et al. 1994, Pascanu et al. 2013). The gradients of
    the parameters are not changed.
    """
    with torch.enable_grad():
        output, _, initial = _trace(step, state, inputs)
        losses = loss(output[:, -1])
        slopes = _gradients(losses.sum(), initial)  # rows are independent
    return torch.stack([slope.norm(dim=-1) for slope in slopes], dim=1)


def jacobians_by_distance(step: StepFn, state: Any, inputs: Tensor) -> Float[Tensor, "B T"]:
    r"""‖∂h_T/∂h_{T-d}‖ for d = 1 … T, the largest singular value.

    The largest growth of a change of the state after d steps, in any direction: ‖Wᵈ‖ where
    h_t = W h_{t-1} + x_t. It takes a backward pass for each element of the state of a row, so it
    is for plots and not for training.
    """
    with torch.enable_grad():
        _, last, initial = _trace(step, state, inputs)
        totals = torch.cat([leaf.flatten(1) for leaf in _leaves(last)], dim=1).sum(dim=0)
        rows = [_gradients(total, initial) for total in totals]
    distances = zip(*rows, strict=True)
    return torch.stack(
        [torch.linalg.matrix_norm(torch.stack(jacobian, dim=1), ord=2) for jacobian in distances],
        dim=1,
    )


def _trace(step: StepFn, state: Any, inputs: Tensor) -> tuple[Tensor, Any, list[list[Tensor]]]:
    """Return the last output, the last state, and the states before each step, last one first."""
    if not _leaves(state):
        raise ValueError(
            f"got the state {state!r}, which has no floating-point tensor; expected one to "
            "differentiate by; try a state of zeros."
        )
    state = _map_tensors(
        state, lambda part: part.detach().requires_grad_() if part.is_floating_point() else part
    )
    states = []
    for x in inputs.split(1, dim=1):
        states.append(_leaves(state))
        output, state = step(x, state)
    return output, state, states[::-1]


def _map_tensors(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to every tensor of a nested tuple."""
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, tuple):
        parts = [_map_tensors(part, change) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state


def _leaves(state: Any) -> list[Tensor]:
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in _leaves(part)]
    return [state] if isinstance(state, Tensor) and state.is_floating_point() else []


def _gradients(output: Tensor, states: list[list[Tensor]]) -> list[Tensor]:
    """Return the gradient by each of the states, its tensors concatenated to (B, ·)."""
    flat = [leaf for state in states for leaf in state]
    gradients = iter(torch.autograd.grad(output, flat, retain_graph=True, materialize_grads=True))
    return [torch.cat([next(gradients).flatten(1) for _ in state], dim=1) for state in states]
