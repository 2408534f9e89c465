r"""Optimisers whose step is as long as a layer is large: LARS and LAMB.

With large batches one rate does not suit all layers: where a step is long beside the weights it
changes, a layer is thrown off. So the step of each layer (each tensor) is scaled by a *trust
ratio* of the norms of its weights and of the step. Vectors (biases, gains of norms) go without:
their group says `trusts=False`, as the authors' programs do.

All tensors of a group are taken through each operation together (torch's for-each), as
`torch.optim` does it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]


class LARS(Optimizer):
    r"""Momentum, with a rate for each layer (You et al. 2017, algorithm 1).

    λ = η ‖w‖ / (‖g‖ + β‖w‖),   v ← m v + γ λ (g + β w),   w ← w - v,

    γ the rate, β the weight decay, η the `trust`. λ is 1 where ‖w‖ or ‖g‖ is 0. Differs from the
    paper in nothing; some others' versions put the rate outside of v, so that a changed rate
    changes the steps that are already on their way.
    """

    def __init__(
        self,
        parameters: Parameters,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ):
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(parameters, {**defaults, "trust": trust, "trusts": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every weight that has a gradient."""
        loss = _asked(closure)
        for group in self.param_groups:
            weights, gradients, (velocities,) = _of(self, group, "velocity")
            if not weights:
                continue
            decay, rate = group["weight_decay"], group["lr"]
            moves = torch._foreach_add(gradients, weights, alpha=decay)
            if group["trusts"]:
                sizes, slopes = _norms(weights), _norms(gradients)
                ratio = group["trust"] * sizes / (slopes + decay * sizes)
                _scale(moves, _where_both(sizes, slopes, ratio))
            torch._foreach_mul_(velocities, group["momentum"])
            torch._foreach_add_(velocities, moves, alpha=rate)
            torch._foreach_sub_(weights, velocities)
        return loss


class LAMB(Optimizer):
    r"""Adam, with a trust ratio for each layer (You et al. 2020, algorithm 2).

    m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²,  u = m̂ / (√v̂ + ε) + λ w,
    w ← w - η φ(‖w‖) / ‖u‖ · u

    with m̂, v̂ freed of their beginning at 0 and φ(z) = min(z, `clamp`), or φ(z) = z without a
    clamp. The ratio is 1 where ‖w‖ or ‖u‖ is 0.
    """

    def __init__(
        self,
        parameters: Parameters,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        clamp: float | None = 10.0,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(parameters, {**defaults, "clamp": clamp, "trusts": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every weight that has a gradient."""
        loss = _asked(closure)
        for group in self.param_groups:
            weights, gradients, (means, squares) = _of(self, group, "mean", "square")
            if not weights:
                continue
            (beta1, beta2), step = group["betas"], _count(self, weights)
            torch._foreach_lerp_(means, gradients, 1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
            # √v̂ + ε, and the rest of both corrections in the one factor on m
            roots = torch._foreach_sqrt(squares)
            torch._foreach_div_(roots, (1 - beta2**step) ** 0.5)
            torch._foreach_add_(roots, group["eps"])
            moves = torch._foreach_div(means, roots)
            torch._foreach_div_(moves, 1 - beta1**step)
            if group["weight_decay"]:
                torch._foreach_add_(moves, weights, alpha=group["weight_decay"])
            if group["trusts"]:
                sizes, lengths = _norms(weights), _norms(moves)
                held = sizes if group["clamp"] is None else sizes.clamp(max=group["clamp"])
                _scale(moves, _where_both(sizes, lengths, held / lengths))
            torch._foreach_add_(weights, moves, alpha=-group["lr"])
        return loss


def _asked(closure: Callable[[], float] | None) -> float | None:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _of(
    optimizer: Optimizer, group: dict[str, Any], *names: str
) -> tuple[list[Tensor], list[Tensor], list[list[Tensor]]]:
    """A group's weights that have a gradient, the gradients, and what is remembered of each."""
    weights = [weight for weight in group["params"] if weight.grad is not None]
    for weight in weights:
        state = optimizer.state[weight]
        for name in names:
            if name not in state:
                state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
    kept = [[optimizer.state[weight][name] for weight in weights] for name in names]
    return weights, [weight.grad for weight in weights if weight.grad is not None], kept


def _count(optimizer: Optimizer, weights: list[Tensor]) -> int:
    """One step more, for each of them; how many it is."""
    step = 0
    for weight in weights:
        state = optimizer.state[weight]
        step = state["step"] = state.get("step", 0) + 1
    return step


def _norms(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(torch._foreach_norm(list(tensors)))


def _where_both(one: Tensor, other: Tensor, ratio: Tensor) -> Tensor:
    """The ratio where both are more than 0; else 1."""
    return torch.where((one > 0) & (other > 0), ratio, torch.ones_like(ratio))


def _scale(tensors: Sequence[Tensor], factors: Tensor) -> None:
    torch._foreach_mul_(list(tensors), list(factors.unbind()))
