r"""Optimisers that know how the slope changes: Newton's method and L-BFGS.

    newton   w ← w + t d,   d = -(H + τI)⁻¹ g
    lbfgs    w ← w + t d,   d = -B g

g is the gradient, H the table of second derivatives and B what the last changes of the gradient
tell of H⁻¹. How far to go, t, is searched for. So both ask for the loss several times a step:
`step` is handed a closure that computes it anew, on the same batch and with the same dropout, and
returns it with its graph; gradients are taken here. The rate is the first t that is tried, and 1 is
the methods' own. Weight decay is a penalty λ/2 ‖w‖² on matrices, a part of what is made small.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from saccade.optim.param_groups import decay_groups

Closure = Callable[[], Tensor]

MAX_NEWTON_PARAMS = 2048  # weights, whose second derivatives are four million numbers
SUFFICIENT_DECREASE = 1e-4  # of the decrease that the slope promises
MAX_HALVINGS = 30
MIN_DAMPING = 1e-3  # the least that is added to H where it does not curve upwards
LBFGS_HISTORY = 10  # changes of the gradient that L-BFGS remembers


class Newton(Optimizer):
    r"""Newton's method with a backtracking line search.

    d solves (H + τI) d = -g, where τ = 0 if H is positive definite, and is otherwise raised until
    H + τI is (Nocedal and Wright 2006, algorithm 3.3). t is the first of η, η/2, η/4, … with

        f(w + t d) ≤ f(w) + 10⁻⁴ t gᵀd

    (Armijo 1966; their algorithm 3.1); if none of 30 is, the weights stay. H is found by autograd,
    a row for each weight; where a kernel has no second derivative, by differences of gradients.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1.0,
        weight_decay: float = 0.0,
    ):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})
        self.gradient_norm = math.nan  # ‖g‖ where the last step began
        check_newton_size(sum(w.numel() for group in self.param_groups for w in group["params"]))

    @torch.no_grad()
    def step(self, closure: Closure) -> Tensor:  # type: ignore[override]
        """Move the weights once; the loss is that before the move."""
        loss, weights, gradient = self._slope_at(closure)
        self.gradient_norm = float(gradient.norm())
        if not math.isfinite(self.gradient_norm) or not math.isfinite(float(loss)):
            return loss
        direction = _direction(self._curvature(closure, weights), gradient)
        promised = float(gradient @ direction)
        before, length = _flat(weights), float(self.param_groups[0]["lr"])
        for _ in range(MAX_HALVINGS):
            _put(weights, before + length * direction)
            with torch.enable_grad():
                found = float(self._penalised(closure).detach())
            if found <= float(loss) + SUFFICIENT_DECREASE * length * promised:
                return loss
            length /= 2
        _put(weights, before)
        return loss

    def _penalised(self, closure: Closure) -> Tensor:
        loss = closure()
        for group in self.param_groups:
            loss = loss + weight_decay_penalty(group["params"], group["weight_decay"])
        return loss

    @torch.enable_grad()
    def _slope_at(self, closure: Closure) -> tuple[Tensor, list[Tensor], Tensor]:
        """The loss, the weights that it depends on, and the gradient by them in a row."""
        every = [w for group in self.param_groups for w in group["params"]]
        loss = self._penalised(closure)
        found = torch.autograd.grad(loss, every, allow_unused=True)
        pairs = [(w, g) for w, g in zip(every, found, strict=True) if g is not None]
        return loss.detach(), [w for w, _ in pairs], _flat([g for _, g in pairs])

    @torch.enable_grad()
    def _curvature(self, closure: Closure, weights: Sequence[Tensor]) -> Tensor:
        """H in float64, each of its rows by a pass back."""
        slopes = torch.autograd.grad(self._penalised(closure), weights, create_graph=True)
        gradient = torch.cat([slope.reshape(-1) for slope in slopes])
        try:
            rows = [
                _flat(torch.autograd.grad(one, weights, retain_graph=True, materialize_grads=True))
                for one in gradient
            ]
        except RuntimeError:  # a kernel that was written to be learned through once
            rows = self._differences(closure, weights)
        found = torch.stack(rows)
        return (found + found.T) / 2

    @torch.no_grad()
    def _differences(self, closure: Closure, weights: Sequence[Tensor]) -> list[Tensor]:
        """(g(w + h e) - g(w - h e)) / 2h for each weight, h where both errors are least."""
        before, rows = _flat(weights), []
        h = torch.finfo(weights[0].dtype).eps ** (1 / 3)
        for place in range(len(before)):
            apart = torch.zeros_like(before)
            apart[place] = h * max(1.0, float(before[place].abs()))
            ends = []
            for side in (apart, -apart):
                _put(weights, before + side)
                ends.append(self._slope_at(closure)[2])
            rows.append((ends[0] - ends[1]) / (2 * apart[place]))
        _put(weights, before)
        return rows


class LBFGS(torch.optim.LBFGS):
    r"""L-BFGS (Liu and Nocedal 1989), with t by the strong Wolfe conditions.

    B is made of the last ten changes of weights s and gradient y, with ρ = 1 / yᵀs:

        B ← (I - ρ s yᵀ) B (I - ρ y sᵀ) + ρ s sᵀ,   beginning with (sᵀy / yᵀy) I,

    and |g(w + t d)ᵀd| ≤ 0.9 |gᵀd| beside Armijo's condition. The framework's own, of which a step
    here is one direction and one search (there 20), with weight decay.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float = 1.0, weight_decay: float = 0.0):
        super().__init__(
            parameters,
            lr=lr,
            max_iter=1,
            max_eval=1 + MAX_HALVINGS,
            history_size=LBFGS_HISTORY,
            line_search_fn="strong_wolfe",
        )
        self.weight_decay = weight_decay
        self.gradient_norm = math.nan  # ‖g‖ where the last step began

    def step(self, closure: Closure) -> Tensor:  # type: ignore[override]
        """Move the weights once; the loss is that before the move."""
        first = [self._learned(closure)]
        slopes = [weight.grad for weight in self._params if weight.grad is not None]
        self.gradient_norm = float(nn.utils.get_total_norm(slopes))
        if not math.isfinite(self.gradient_norm) or not math.isfinite(float(first[0])):
            return first[0]
        found: Tensor = super().step(lambda: first.pop() if first else self._learned(closure))
        return found

    @torch.enable_grad()
    def _learned(self, closure: Closure) -> Tensor:
        self.zero_grad(set_to_none=True)
        matrices = [w for w in self._params if w.dim() > 1]
        loss = closure() + weight_decay_penalty(matrices, self.weight_decay)
        loss.backward()
        return loss.detach()


def newton(model: nn.Module, lr: float = 1.0, weight_decay: float = 0.0) -> Newton:
    """Newton's method for a model of few weights."""
    return Newton(decay_groups(model, weight_decay), lr)


def lbfgs(model: nn.Module, lr: float = 1.0, weight_decay: float = 0.0) -> LBFGS:
    """L-BFGS for a model of any size."""
    return LBFGS(model.parameters(), lr, weight_decay)


def check_newton_size(weights: int) -> None:
    """Refuse more weights than there can be second derivatives of."""
    if weights > MAX_NEWTON_PARAMS:
        raise ValueError(
            f"newton computes {weights:,} × {weights:,} second derivatives for a model of "
            f"{weights:,} weights; {MAX_NEWTON_PARAMS:,} weights are the most. Take lbfgs, which goes by the "
            "changes of the gradient, or a smaller model."
        )


def weight_decay_penalty(weights: Sequence[Tensor], weight_decay: float) -> Tensor | float:
    """λ/2 Σ w²."""
    if not weight_decay:
        return 0.0
    return weight_decay / 2 * torch.stack([w.square().sum() for w in weights]).sum()


def _direction(curvature: Tensor, gradient: Tensor) -> Tensor:
    r"""-(H + τI)⁻¹ g with the least τ that is tried; -g if H is no table of numbers."""
    if not bool(curvature.isfinite().all()):
        return -gradient
    least = float(curvature.diagonal().min())
    damping = 0.0 if least > 0 else MIN_DAMPING - least
    ones = torch.eye(len(gradient), dtype=curvature.dtype)
    while True:
        factor, failed = torch.linalg.cholesky_ex(curvature + damping * ones)
        if not failed:
            return -torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        damping = max(2 * damping, MIN_DAMPING)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers in a row, in float64, which not every device has."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).cpu().double()


def _put(weights: Sequence[Tensor], numbers: Tensor) -> None:
    sizes = [weight.numel() for weight in weights]
    for weight, part in zip(weights, numbers.split(sizes), strict=True):
        weight.copy_(part.view_as(weight))
