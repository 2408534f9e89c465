r"""Gradient descent with one learning rate for all weights, with and without momentum.

With gradient g, learning rate η and weight decay λ (matrices only):

    sgd                 w ← w - η (g + λ w)
    momentum            v ← β v + g + λ w,              w ← w - η v
    averaged_momentum   v ← β v + (1 - β) (g + λ w),    w ← w - η v
    nesterov            v ← β v + g + λ w,              w ← w - η (g + λ w + β v)

v is initialised to 0. `momentum` is Polyak's (1964) in torch's form, where a constant gradient
moves the weights 1 / (1 - β) times as far as without it. `averaged_momentum` keeps the length of
the step; it equals `momentum` with learning rate η (1 - β). `nesterov` (1983) is Sutskever et
al.'s (2013) form, whose gradient is taken a step ahead, written for the weights after that step.

g is the gradient of a batch or of all the training data; the training loop decides which.
"""

import torch

from saccade.optim.param_groups import Params, decay_groups


def sgd(params: Params, lr: float, weight_decay: float = 0.0) -> torch.optim.SGD:
    """Stochastic gradient descent (Robbins and Monro 1951)."""
    return torch.optim.SGD(decay_groups(params, weight_decay), lr=lr, fused=True)


def momentum(
    params: Params, lr: float, weight_decay: float = 0.0, momentum: float = 0.9
) -> torch.optim.SGD:
    """SGD with momentum, in torch's form."""
    groups = decay_groups(params, weight_decay)
    return _with_zero_velocity(torch.optim.SGD(groups, lr=lr, momentum=momentum, fused=True))


def averaged_momentum(
    params: Params, lr: float, weight_decay: float = 0.0, momentum: float = 0.9
) -> torch.optim.SGD:
    """SGD with momentum as an exponential moving average of gradients."""
    groups = decay_groups(params, weight_decay)
    return _with_zero_velocity(
        torch.optim.SGD(groups, lr, momentum=momentum, dampening=momentum, fused=True)
    )


def nesterov(
    params: Params, lr: float, weight_decay: float = 0.0, momentum: float = 0.9
) -> torch.optim.SGD:
    """SGD with Nesterov momentum."""
    groups = decay_groups(params, weight_decay)
    return _with_zero_velocity(
        torch.optim.SGD(groups, lr, momentum=momentum, nesterov=True, fused=True)
    )


def _with_zero_velocity(optimizer: torch.optim.SGD) -> torch.optim.SGD:
    """Initialise v to 0: torch would initialise it to the first g, ignoring `dampening`."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            velocity = torch.zeros_like(weight, memory_format=torch.preserve_format)
            optimizer.state[weight]["momentum_buffer"] = velocity
    return optimizer
