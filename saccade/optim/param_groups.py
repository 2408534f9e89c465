r"""Which weights decay, and how fast all of them learn."""

from typing import Any

from torch import nn
from torch.optim import Optimizer


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups: matrices, which decay, and vectors (biases, gains of norms), which do not."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    """The learning rate of the next step, for every group."""
    for group in optimizer.param_groups:
        group["lr"] = lr
