r"""Keeping a step from being too long."""

from torch import Tensor, nn


def clip_by_norm(model: nn.Module, most: float) -> Tensor:
    r"""g ← g · min(1, most / ‖g‖) over all gradients together; ‖g‖ before (Pascanu et al. 2013)."""
    return nn.utils.clip_grad_norm_(model.parameters(), most)
