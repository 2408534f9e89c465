r"""Second-order optimizers: Newton's method and L-BFGS.

    newton   w ← w + t d,   d = -(H + τI)⁻¹ g
    lbfgs    w ← w + t d,   d = -B g

g is the gradient, H the Hessian, B an approximation of H⁻¹ from the last changes of the gradient,
and t the result of a line search. So both evaluate the loss several times a step: `step` takes a
closure that recomputes it on the same batch with the same dropout and returns it with its graph;
gradients are taken here. The learning rate is the first t that is tried; 1 is the usual value.
Weight decay is a penalty λ/2 ‖w‖² on matrices, added to the loss.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from saccade.optim.param_groups import ParamGroups, Params, decay_groups, parameter_list

Closure = Callable[[], Tensor]

MAX_NEWTON_PARAMS = 2048  # the Hessian of so many weights has four million entries
SUFFICIENT_DECREASE = 1e-4  # of the decrease that the gradient predicts (Armijo)
MAX_HALVINGS = 30  # of the line search
MIN_DAMPING = 1e-3  # smallest τ added to a Hessian that is not positive definite
LBFGS_HISTORY = 10  # (weight, gradient) changes in L-BFGS's approximation


class Newton(Optimizer):
    r"""Newton's method with a backtracking line search.

    d solves (H + τI) d = -g, where τ = 0 if H is positive definite, and is otherwise raised until
    H + τI is (Nocedal and Wright 2006, algorithm 3.3). t is the first of η, η/2, η/4, … with

        f(w + t d) ≤ f(w) + 10⁻⁴ t gᵀd

    (Armijo 1966; their algorithm 3.1); if none of 30 does, the weights are left unchanged. H comes
    from autograd, a row for each weight; where a kernel has no second derivative, from central
    differences of gradients.
    """

    def __init__(
        self,
        params: ParamGroups,
        lr: float = 1.0,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.gradient_norm = math.nan  # ‖g‖ before the last step
        check_newton_size(sum(w.numel() for group in self.param_groups for w in group["params"]))

    @torch.no_grad()
    def step(self, closure: Closure) -> Tensor:  # type: ignore[override]
        """Update the weights once and return the loss before the update."""
        loss, weights, gradient = self._gradient(closure)
        self.gradient_norm = float(gradient.norm())
        if not math.isfinite(self.gradient_norm) or not math.isfinite(float(loss)):
            return loss
        direction = _direction(self._hessian(closure, weights), gradient)
        slope = float(gradient @ direction)
        before, step_size = _flat(weights), float(self.param_groups[0]["lr"])
        for _ in range(MAX_HALVINGS):
            _assign(weights, before + step_size * direction)
            with torch.enable_grad():
                new_loss = float(self._penalised_loss(closure).detach())
            if new_loss <= float(loss) + SUFFICIENT_DECREASE * step_size * slope:
                return loss
            step_size /= 2
        _assign(weights, before)
        return loss

    def _penalised_loss(self, closure: Closure) -> Tensor:
        loss = closure()
        for group in self.param_groups:
            loss = loss + weight_decay_penalty(group["params"], group["weight_decay"])
        return loss

    @torch.enable_grad()
    def _gradient(self, closure: Closure) -> tuple[Tensor, list[Tensor], Tensor]:
        """Return the loss, the weights that it depends on, and its gradient as a vector."""
        weights = [w for group in self.param_groups for w in group["params"]]
        loss = self._penalised_loss(closure)
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        pairs = [(w, g) for w, g in zip(weights, gradients, strict=True) if g is not None]
        return loss.detach(), [w for w, _ in pairs], _flat([g for _, g in pairs])

    @torch.enable_grad()
    def _hessian(self, closure: Closure, weights: Sequence[Tensor]) -> Tensor:
        """Return H in float64, with a backward pass for each row."""
        gradients = torch.autograd.grad(self._penalised_loss(closure), weights, create_graph=True)
        gradient = torch.cat([part.reshape(-1) for part in gradients])
        try:
            rows = [
                _flat(
                    torch.autograd.grad(entry, weights, retain_graph=True, materialize_grads=True)
                )
                for entry in gradient
            ]
        except RuntimeError:  # a kernel without double backward
            rows = self._hessian_by_differences(closure, weights)
        hessian = torch.stack(rows)
        return (hessian + hessian.T) / 2

    @torch.no_grad()
    def _hessian_by_differences(self, closure: Closure, weights: Sequence[Tensor]) -> list[Tensor]:
        """Return (g(w + h e) - g(w - h e)) / 2h for each weight, h = ε^⅓ relative to the weight."""
        before, rows = _flat(weights), []
        h = torch.finfo(weights[0].dtype).eps ** (1 / 3)
        for index in range(len(before)):
            offset = torch.zeros_like(before)
            offset[index] = h * max(1.0, float(before[index].abs()))
            ends = []
            for signed_offset in (offset, -offset):
                _assign(weights, before + signed_offset)
                ends.append(self._gradient(closure)[2])
            rows.append((ends[0] - ends[1]) / (2 * offset[index]))
        _assign(weights, before)
        return rows


class LBFGS(torch.optim.LBFGS):
    r"""L-BFGS (Liu and Nocedal 1989) with a strong-Wolfe line search.

    B is built from the last ten changes of weights s and gradient y, with ρ = 1 / yᵀs:

        B ← (I - ρ s yᵀ) B (I - ρ y sᵀ) + ρ s sᵀ,   initialised to (sᵀy / yᵀy) I,

    and t satisfies |g(w + t d)ᵀd| ≤ 0.9 |gᵀd| as well as Armijo's condition. Differs from
    `torch.optim.LBFGS` in that a step is one direction and one line search (20 there), and that it
    has weight decay.
    """

    def __init__(self, params: Iterable[Tensor], lr: float = 1.0, weight_decay: float = 0.0):
        super().__init__(
            params,
            lr=lr,
            max_iter=1,
            max_eval=1 + MAX_HALVINGS,
            history_size=LBFGS_HISTORY,
            line_search_fn="strong_wolfe",
        )
        self.weight_decay = weight_decay
        self.gradient_norm = math.nan  # ‖g‖ before the last step

    def step(self, closure: Closure) -> Tensor:  # type: ignore[override]
        """Update the weights once and return the loss before the update."""
        first = [self._backward(closure)]
        gradients = [weight.grad for weight in self._params if weight.grad is not None]
        self.gradient_norm = float(nn.utils.get_total_norm(gradients))
        if not math.isfinite(self.gradient_norm) or not math.isfinite(float(first[0])):
            return first[0]
        loss: Tensor = super().step(lambda: first.pop() if first else self._backward(closure))
        return loss

    @torch.enable_grad()
    def _backward(self, closure: Closure) -> Tensor:
        self.zero_grad(set_to_none=True)
        matrices = [w for w in self._params if w.dim() > 1]
        loss = closure() + weight_decay_penalty(matrices, self.weight_decay)
        loss.backward()
        return loss.detach()


def newton(params: Params, lr: float = 1.0, weight_decay: float = 0.0) -> Newton:
    """Newton's method for at most `MAX_NEWTON_PARAMS` weights."""
    return Newton(decay_groups(params, weight_decay), lr)


def lbfgs(params: Params, lr: float = 1.0, weight_decay: float = 0.0) -> LBFGS:
    """L-BFGS for a model of any size; torch's implementation has no parameter groups."""
    return LBFGS(parameter_list(params), lr, weight_decay)


def check_newton_size(weights: int) -> None:
    """Raise ValueError if a model is too large for its Hessian."""
    if weights > MAX_NEWTON_PARAMS:
        raise ValueError(
            f"newton: got a model of {weights:,} weights, whose Hessian has {weights:,} × "
            f"{weights:,} entries; expected at most {MAX_NEWTON_PARAMS:,} weights; try lbfgs, "
            "which approximates the Hessian from gradients, or a smaller model."
        )


def weight_decay_penalty(weights: Sequence[Tensor], weight_decay: float) -> Tensor | float:
    """Return λ/2 Σ w²."""
    if not weight_decay:
        return 0.0
    return weight_decay / 2 * torch.stack([w.square().sum() for w in weights]).sum()


def _direction(hessian: Tensor, gradient: Tensor) -> Tensor:
    r"""Return -(H + τI)⁻¹ g, τ raised until H + τI is definite; -g if H is not finite."""
    if not bool(hessian.isfinite().all()):
        return -gradient
    smallest = float(hessian.diagonal().min())
    damping = 0.0 if smallest > 0 else MIN_DAMPING - smallest
    identity = torch.eye(len(gradient), dtype=hessian.dtype)
    while True:
        factor, failed = torch.linalg.cholesky_ex(hessian + damping * identity)
        if not failed:
            return -torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        damping = max(2 * damping, MIN_DAMPING)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors into a float64 vector on the CPU (not every device has float64)."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).cpu().double()


def _assign(weights: Sequence[Tensor], values: Tensor) -> None:
    """Copy a vector of values into the weights."""
    sizes = [weight.numel() for weight in weights]
    for weight, part in zip(weights, values.split(sizes), strict=True):
        weight.copy_(part.view_as(weight))
