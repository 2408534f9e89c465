r"""Optimisers with a step size for each weight, from the squares of its gradients.

With the gradient g, the rate η, all products number by number and all averages beginning at 0:

    adagrad    s ← s + g²,                w ← w - η g / (√s + ε)
    rmsprop    s ← β₂ s + (1 - β₂) g²,    w ← w - η g / (√s + ε)
    adadelta   s ← β₂ s + (1 - β₂) g²,    u = g √(d + ε) / √(s + ε),
               d ← β₂ d + (1 - β₂) u²,    w ← w - η u
    adam       m ← β₁ m + (1 - β₁) g,     s ← β₂ s + (1 - β₂) g²,
               m̂ = m / (1 - β₁ᵗ),         ŝ = s / (1 - β₂ᵗ),      w ← w - η m̂ / (√ŝ + ε)
    nadam      adam with m̂ = μ_{t+1} m / (1 - Π_{i≤t+1} μ_i) + (1 - μ_t) g / (1 - Π_{i≤t} μ_i),
               μ_t = β₁ (1 - 0.96^{0.004 t} / 2)
    adamw      adam, and w ← w - η λ w

Weight decay λ is for matrices only: biases, gains of norms and other vectors have none. In all but
adamw it is a penalty λ/2 ‖w‖², whose gradient λ w is a part of g and is divided by √s with it: so
weights whose gradients are large decay less. In adamw it is apart (Loshchilov and Hutter 2019).

β₁ is 0.9. β₂ says for how long a squared gradient counts, 1 / (1 - β₂) steps.
"""

import torch
from torch import nn

from saccade.optim.param_groups import decay_groups


def adagrad(model: nn.Module, lr: float, weight_decay: float = 0.0) -> torch.optim.Adagrad:
    """Duchi et al. 2011: steps that grow shorter with all that a weight has seen."""
    return torch.optim.Adagrad(decay_groups(model, weight_decay), lr=lr, foreach=True)


def rmsprop(
    model: nn.Module, lr: float, weight_decay: float = 0.0, beta2: float = 0.99
) -> torch.optim.RMSprop:
    """Tieleman and Hinton 2012: of the squared gradients only the newest count."""
    return torch.optim.RMSprop(decay_groups(model, weight_decay), lr=lr, alpha=beta2, foreach=True)


def adadelta(
    model: nn.Module, lr: float = 1.0, weight_decay: float = 0.0, beta2: float = 0.9
) -> torch.optim.Adadelta:
    """Zeiler 2012: steps in the units of the weights, as long as those before; its rate is 1.

    Not RMSProp, which keeps no average of the steps.
    """
    return torch.optim.Adadelta(decay_groups(model, weight_decay), lr=lr, rho=beta2, foreach=True)


def adam(
    model: nn.Module, lr: float, weight_decay: float = 0.0, beta2: float = 0.999
) -> torch.optim.Adam:
    """Kingma and Ba 2015, in one fused kernel."""
    groups = decay_groups(model, weight_decay)
    return torch.optim.Adam(groups, lr=lr, betas=(0.9, beta2), fused=True)


def nadam(
    model: nn.Module, lr: float, weight_decay: float = 0.0, beta2: float = 0.999
) -> torch.optim.NAdam:
    """Dozat 2016: Adam with Nesterov's momentum, which grows to β₁."""
    groups = decay_groups(model, weight_decay)
    return torch.optim.NAdam(groups, lr=lr, betas=(0.9, beta2), foreach=True)


def adamw(
    model: nn.Module, lr: float, weight_decay: float, beta2: float = 0.98
) -> torch.optim.AdamW:
    r"""Loshchilov and Hutter 2019, in one fused kernel.

    A β₂ of 0.98 is the Transformer's (Vaswani et al. 2017, section 5.3); rows of a table that is
    seldom read want longer, 0.999.
    """
    groups = decay_groups(model, weight_decay)
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, beta2), fused=True)
