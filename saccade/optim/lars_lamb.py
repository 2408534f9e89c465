r"""Optimizers with layer-wise learning rates for large batches: LARS and LAMB.

With large batches one learning rate does not suit all layers: a layer diverges where its step is
long compared with its weights. So the step of each layer (each tensor) is scaled by a *trust ratio*
of the norm of its weights to that of the step. Vectors (biases, norm gains) are not scaled: their
group has `use_trust_ratio=False`, as in the authors' code.

Tensors are processed in batches with torch's for-each kernels, as in `torch.optim`; on a CPU a
batch is limited to what the cache holds from one operation to the next.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from saccade.optim.param_groups import ParamGroups, Params, decay_groups

MAX_BUNDLE_WEIGHTS = 1 << 18  # on a CPU; a larger tensor is a bundle of its own


class LARS(Optimizer):
    r"""SGD with momentum and a learning rate for each layer (You et al. 2017, algorithm 1).

    λ = η ‖w‖ / (‖g‖ + β‖w‖),   v ← m v + γ λ (g + β w),   w ← w - v,

    with learning rate γ, weight decay β, momentum m and `trust_coefficient` η. λ is 1 where ‖w‖ or
    ‖g‖ is 0. As in the paper; some implementations apply the learning rate outside of v, so that a
    schedule also rescales the accumulated velocity.
    """

    def __init__(
        self,
        params: ParamGroups,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.001,
    ):
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(
            params,
            {**defaults, "trust_coefficient": trust_coefficient, "use_trust_ratio": True},
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        loss = _evaluate(closure)
        for group in self.param_groups:
            decay, lr = group["weight_decay"], group["lr"]
            for weights, gradients, (velocities,), _ in _bundles(self, group, "velocity"):
                ratios = [1.0] * len(weights)
                if group["use_trust_ratio"]:
                    weight_norms, gradient_norms = _norms(weights), _norms(gradients)
                    ratio = group["trust_coefficient"] * weight_norms
                    ratio = ratio / (gradient_norms + decay * weight_norms)
                    ratios = _where_positive(weight_norms, gradient_norms, ratio)
                updates = (
                    torch._foreach_add(gradients, weights, alpha=decay) if decay else gradients
                )
                torch._foreach_mul_(velocities, group["momentum"])
                _add_scaled(velocities, updates, [lr * ratio for ratio in ratios])
                torch._foreach_sub_(weights, velocities)
        return loss


class LAMB(Optimizer):
    r"""Adam with a trust ratio for each layer (You et al. 2020, algorithm 2).

    m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²,  u = m̂ / (√v̂ + ε) + λ w,
    w ← w - η φ(‖w‖) / ‖u‖ · u

    with bias-corrected m̂, v̂ and φ(z) = min(z, `clamp`), or φ(z) = z if `clamp` is None. The trust
    ratio is 1 where ‖w‖ or ‖u‖ is 0.
    """

    def __init__(
        self,
        params: ParamGroups,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        clamp: float | None = 10.0,
    ):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "clamp": clamp, "use_trust_ratio": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        loss = _evaluate(closure)
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for weights, gradients, (means, squares), step in _bundles(
                self, group, "mean", "square"
            ):
                torch._foreach_lerp_(means, gradients, 1 - beta1)
                torch._foreach_mul_(squares, beta2)
                torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
                # m̂ / (√v̂ + ε) = k m / (√v + εr): k goes into the factor of the update
                r = (1 - beta2**step) ** 0.5
                k = r / (1 - beta1**step)
                updates = torch._foreach_sqrt(squares)
                torch._foreach_add_(updates, group["eps"] * r)
                for mean, update in zip(means, updates, strict=True):
                    torch.div(mean, update, out=update)
                if group["weight_decay"]:
                    torch._foreach_add_(updates, weights, alpha=group["weight_decay"] / k)
                ratios = [1.0] * len(weights)
                if group["use_trust_ratio"]:
                    weight_norms, update_norms = _norms(weights), k * _norms(updates)
                    clamp = group["clamp"]
                    phi = weight_norms if clamp is None else weight_norms.clamp(max=clamp)
                    ratios = _where_positive(weight_norms, update_norms, phi / update_norms)
                _add_scaled(weights, updates, [-group["lr"] * k * ratio for ratio in ratios])
        return loss


def lars(params: Params, lr: float, weight_decay: float = 0.0, momentum: float = 0.9) -> LARS:
    """LARS with trust ratio and weight decay for matrices only."""
    return LARS(_trust_groups(params, weight_decay), lr, momentum)


def lamb(
    params: Params,
    lr: float,
    weight_decay: float = 0.0,
    beta2: float = 0.999,
    clamp: float | None = 10.0,
) -> LAMB:
    """LAMB with trust ratio and weight decay for matrices only."""
    return LAMB(_trust_groups(params, weight_decay), lr, (0.9, beta2), clamp=clamp)


def _trust_groups(params: Params, weight_decay: float) -> list[dict[str, Any]]:
    groups = decay_groups(params, weight_decay)
    return [{**group, "use_trust_ratio": group["params"][0].dim() > 1} for group in groups]


def _evaluate(closure: Callable[[], float] | None) -> float | None:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class _Bundle(NamedTuple):
    """Weights that are updated together, with their gradients and state tensors."""

    weights: list[Tensor]
    gradients: list[Tensor]
    state: list[list[Tensor]]  # a list for each state name
    step: int  # the same for all of them


def _bundles(optimizer: Optimizer, group: dict[str, Any], *names: str) -> Iterator[_Bundle]:
    """Advance the step count of weights that have a gradient, and yield them in bundles."""
    bundle: list[Tensor] = []
    for weight in group["params"]:
        if weight.grad is None:
            continue
        state = optimizer.state[weight]
        for name in names:
            if name not in state:
                state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        state["step"] = state.get("step", 0) + 1
        if bundle and not _fits(optimizer, bundle, weight):
            yield _make_bundle(optimizer, bundle, names)
            bundle = []
        bundle.append(weight)
    if bundle:
        yield _make_bundle(optimizer, bundle, names)


def _fits(optimizer: Optimizer, bundle: list[Tensor], weight: Tensor) -> bool:
    if optimizer.state[weight]["step"] != optimizer.state[bundle[0]]["step"]:
        return False
    size = weight.numel() + sum(member.numel() for member in bundle)
    return weight.device.type != "cpu" or size <= MAX_BUNDLE_WEIGHTS


def _make_bundle(optimizer: Optimizer, weights: list[Tensor], names: Sequence[str]) -> _Bundle:
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    state = [[optimizer.state[weight][name] for weight in weights] for name in names]
    return _Bundle(weights, gradients, state, optimizer.state[weights[0]]["step"])


def _norms(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(torch._foreach_norm(list(tensors)))


def _where_positive(weight_norms: Tensor, norms: Tensor, ratio: Tensor) -> list[float]:
    """Return the ratio where both norms are positive, else 1."""
    positive = (weight_norms > 0) & (norms > 0)
    return list(torch.where(positive, ratio, torch.ones_like(ratio)).tolist())


def _add_scaled(
    tensors: Sequence[Tensor], updates: Sequence[Tensor], factors: Sequence[float]
) -> None:
    """Add to each tensor its update times its factor."""
    for tensor, update, factor in zip(tensors, updates, factors, strict=True):
        tensor.add_(update, alpha=factor)
