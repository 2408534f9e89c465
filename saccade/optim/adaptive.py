r"""Optimisers with a step size for each weight."""

import torch
from torch import nn


def adamw(
    model: nn.Module, rate: float, weight_decay: float, beta2: float = 0.98
) -> torch.optim.AdamW:
    r"""AdamW (Loshchilov and Hutter 2019), β₁ = 0.9, in one fused kernel.

    Weight decay is for matrices only: biases, gains of norms and other vectors have none. β₂ says
    for how long a squared gradient counts, 1 / (1 - β₂) steps: 0.98 is the Transformer's (Vaswani
    et al. 2017, section 5.3); rows of a table that is seldom read want longer, 0.999.
    """
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=rate, betas=(0.9, beta2), fused=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next step, for every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate
