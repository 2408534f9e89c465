r"""Keeping a step from being too long."""

from torch import Tensor, nn


def clip_grad_norm(model: nn.Module, max_norm: float) -> Tensor:
    r"""g ← g · min(1, most / ‖g‖) over all gradients together; ‖g‖ before (Pascanu et al. 2013)."""
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    norm = nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
    if not norm <= max_norm:  # else every gradient would be multiplied by 1
        nn.utils.clip_grads_with_norm_(weights, max_norm, norm)
    return norm
