r"""Gradient descent: one rate for all weights, with and without momentum.

With the gradient g, the rate η and, of matrices alone, the weight decay λ:

    sgd                 w ← w - η (g + λ w)
    momentum            v ← β v + g + λ w,              w ← w - η v
    averaged_momentum   v ← β v + (1 - β) (g + λ w),    w ← w - η v
    nesterov            v ← β v + g + λ w,              w ← w - η (g + λ w + β v)

v begins at 0. Momentum is Polyak's (1964) in the framework's form, where a steady gradient moves
the weights 1 / (1 - β) times as far as without it; the averaging form keeps the length of the step,
and is the other one with the rate η (1 - β). Nesterov's (1983) is Sutskever et al.'s (2013), whose
gradient is taken a step ahead, written for the weights that are ahead already.

Whether g is that of a batch or of all the training data is the loop's affair.
"""

import torch
from torch import nn

from saccade.optim.param_groups import decay_groups


def sgd(model: nn.Module, lr: float, weight_decay: float = 0.0) -> torch.optim.SGD:
    """Stochastic gradient descent (Robbins and Monro 1951)."""
    return torch.optim.SGD(decay_groups(model, weight_decay), lr=lr, fused=True)


def momentum(
    model: nn.Module, lr: float, weight_decay: float = 0.0, beta: float = 0.9
) -> torch.optim.SGD:
    """With momentum, in the framework's form."""
    groups = decay_groups(model, weight_decay)
    return _from_rest(torch.optim.SGD(groups, lr=lr, momentum=beta, fused=True))


def averaged_momentum(
    model: nn.Module, lr: float, weight_decay: float = 0.0, beta: float = 0.9
) -> torch.optim.SGD:
    """With momentum that is a mean of gradients."""
    groups = decay_groups(model, weight_decay)
    return _from_rest(torch.optim.SGD(groups, lr, momentum=beta, dampening=beta, fused=True))


def nesterov(
    model: nn.Module, lr: float, weight_decay: float = 0.0, beta: float = 0.9
) -> torch.optim.SGD:
    """With momentum that looks a step ahead."""
    groups = decay_groups(model, weight_decay)
    return _from_rest(torch.optim.SGD(groups, lr, momentum=beta, nesterov=True, fused=True))


def _from_rest(optimizer: torch.optim.SGD) -> torch.optim.SGD:
    """v = 0. Left to the framework, v would begin as g, whatever share of g a step adds to it."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            still = torch.zeros_like(weight, memory_format=torch.preserve_format)
            optimizer.state[weight]["momentum_buffer"] = still
    return optimizer
