r"""Optimisers whose step is as long as a layer is large: LARS and LAMB.

With large batches one rate does not suit all layers: where a step is long beside the weights it
changes, a layer is thrown off. So the step of each layer (each tensor) is scaled by a *trust
ratio* of the norms of its weights and of the step. Vectors (biases, gains of norms) go without:
their group says `trusts=False`, as the authors' programs do.

Several tensors are taken through each operation together (torch's for-each), as `torch.optim`
does it; on a processor only so many as its cache holds from one operation to the next.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from saccade.optim.param_groups import decay_groups

ParamGroups = Iterable[Tensor] | Iterable[dict[str, Any]]

MAX_BUNDLE_WEIGHTS = 1 << 18  # weights of a bundle on a processor; a larger tensor is one by itself


class LARS(Optimizer):
    r"""Momentum, with a rate for each layer (You et al. 2017, algorithm 1).

    λ = η ‖w‖ / (‖g‖ + β‖w‖),   v ← m v + γ λ (g + β w),   w ← w - v,

    γ the rate, β the weight decay, η the `trust`. λ is 1 where ‖w‖ or ‖g‖ is 0. Differs from the
    paper in nothing; some others' versions put the rate outside of v, so that a changed rate
    changes the steps that are already on their way.
    """

    def __init__(
        self,
        parameters: ParamGroups,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.001,
    ):
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(
            parameters,
            {**defaults, "trust_coefficient": trust_coefficient, "use_trust_ratio": True},
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every weight that has a gradient."""
        loss = _asked(closure)
        for group in self.param_groups:
            decay, lr = group["weight_decay"], group["lr"]
            for weights, gradients, (velocities,), _ in _bundles(self, group, "velocity"):
                trusted = [1.0] * len(weights)
                if group["use_trust_ratio"]:
                    sizes, slopes = _norms(weights), _norms(gradients)
                    ratio = group["trust_coefficient"] * sizes / (slopes + decay * sizes)
                    trusted = _where_both(sizes, slopes, ratio)
                moves = torch._foreach_add(gradients, weights, alpha=decay) if decay else gradients
                torch._foreach_mul_(velocities, group["momentum"])
                _add(velocities, moves, [lr * ratio for ratio in trusted])
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
        parameters: ParamGroups,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        clamp: float | None = 10.0,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(parameters, {**defaults, "clamp": clamp, "use_trust_ratio": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every weight that has a gradient."""
        loss = _asked(closure)
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weights, gradients, (means, squares), step in _bundles(
                self, group, "mean", "square"
            ):
                torch._foreach_lerp_(means, gradients, 1 - beta1)
                torch._foreach_mul_(squares, beta2)
                torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
                # m̂ / (√v̂ + ε) = k m / (√v + εr): k is left for the factor that a tensor has anyway
                r = (1 - beta2**step) ** 0.5
                k = r / (1 - beta1**step)
                moves = torch._foreach_sqrt(squares)
                torch._foreach_add_(moves, group["eps"] * r)
                for mean, move in zip(means, moves, strict=True):
                    torch.div(mean, move, out=move)
                if group["weight_decay"]:
                    torch._foreach_add_(moves, weights, alpha=group["weight_decay"] / k)
                trusted = [1.0] * len(weights)
                if group["use_trust_ratio"]:
                    sizes, lengths = _norms(weights), k * _norms(moves)
                    held = sizes if group["clamp"] is None else sizes.clamp(max=group["clamp"])
                    trusted = _where_both(sizes, lengths, held / lengths)
                _add(weights, moves, [-group["lr"] * k * ratio for ratio in trusted])
        return loss


def lars(model: nn.Module, lr: float, weight_decay: float = 0.0, momentum: float = 0.9) -> LARS:
    """LARS of a model: its matrices are trusted and decay, its vectors neither."""
    return LARS(_trusting(model, weight_decay), lr, momentum)


def lamb(
    model: nn.Module,
    lr: float,
    weight_decay: float = 0.0,
    beta2: float = 0.999,
    clamp: float | None = 10.0,
) -> LAMB:
    """LAMB of a model: its matrices are trusted and decay, its vectors neither."""
    return LAMB(_trusting(model, weight_decay), lr, (0.9, beta2), clamp=clamp)


def _trusting(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    groups = decay_groups(model, weight_decay)
    return [{**group, "use_trust_ratio": group["params"][0].dim() > 1} for group in groups]


def _asked(closure: Callable[[], float] | None) -> float | None:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class _Bundle(NamedTuple):
    """Weights that are moved together, their gradients, and what is remembered of each."""

    weights: list[Tensor]
    gradients: list[Tensor]
    kept: list[list[Tensor]]
    step: int  # which they have all come to


def _bundles(optimizer: Optimizer, group: dict[str, Any], *names: str) -> Iterator[_Bundle]:
    """A group's weights that have a gradient, one step further, as many at a time as may be."""
    some: list[Tensor] = []
    for weight in group["params"]:
        if weight.grad is None:
            continue
        state = optimizer.state[weight]
        for name in names:
            if name not in state:
                state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        state["step"] = state.get("step", 0) + 1
        if some and not _fits(optimizer, some, weight):
            yield _bundle(optimizer, some, names)
            some = []
        some.append(weight)
    if some:
        yield _bundle(optimizer, some, names)


def _fits(optimizer: Optimizer, some: list[Tensor], weight: Tensor) -> bool:
    if optimizer.state[weight]["step"] != optimizer.state[some[0]]["step"]:
        return False
    numbers = weight.numel() + sum(other.numel() for other in some)
    return weight.device.type != "cpu" or numbers <= MAX_BUNDLE_WEIGHTS


def _bundle(optimizer: Optimizer, some: list[Tensor], names: Sequence[str]) -> _Bundle:
    gradients = [weight.grad for weight in some if weight.grad is not None]
    kept = [[optimizer.state[weight][name] for weight in some] for name in names]
    return _Bundle(some, gradients, kept, optimizer.state[some[0]]["step"])


def _norms(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(torch._foreach_norm(list(tensors)))


def _where_both(one: Tensor, other: Tensor, ratio: Tensor) -> list[float]:
    """The ratio where both are more than 0; else 1."""
    found = torch.where((one > 0) & (other > 0), ratio, torch.ones_like(ratio))
    return list(found.tolist())


def _add(tensors: Sequence[Tensor], moves: Sequence[Tensor], factors: Sequence[float]) -> None:
    """Each grows by its move times its factor, in one pass."""
    for tensor, move, factor in zip(tensors, moves, factors, strict=True):
        tensor.add_(move, alpha=factor)
