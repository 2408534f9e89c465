r"""Adaptive optimizers: a step size for each weight, from its squared gradients.

With gradient g, learning rate η, elementwise products and all averages initialised to 0:

    adagrad    s ← s + g²,                w ← w - η g / (√s + ε)
    rmsprop    s ← β₂ s + (1 - β₂) g²,    w ← w - η g / (√s + ε)
    adadelta   s ← β₂ s + (1 - β₂) g²,    u = g √(d + ε) / √(s + ε),
               d ← β₂ d + (1 - β₂) u²,    w ← w - η u
    adam       m ← β₁ m + (1 - β₁) g,     s ← β₂ s + (1 - β₂) g²,
               m̂ = m / (1 - β₁ᵗ),         ŝ = s / (1 - β₂ᵗ),      w ← w - η m̂ / (√ŝ + ε)
    nadam      adam with m̂ = μ_{t+1} m / (1 - Π_{i≤t+1} μ_i) + (1 - μ_t) g / (1 - Π_{i≤t} μ_i),
               μ_t = β₁ (1 - 0.96^{0.004 t} / 2)
    adamw      adam, and w ← w - η λ w

Weight decay λ applies to matrices only, not to biases, norm gains and other vectors. In all but
adamw it is an L2 penalty λ/2 ‖w‖², whose gradient λ w is part of g and is divided by √s with it, so
weights with large gradients decay less. In adamw it is decoupled (Loshchilov and Hutter 2019).

β₁ is 0.9. β₂ is the decay rate of the squared-gradient average, a horizon of 1 / (1 - β₂) steps.
"""

import torch

from saccade.optim.param_groups import Params, decay_groups


def adagrad(params: Params, lr: float, weight_decay: float = 0.0) -> torch.optim.Adagrad:
    """AdaGrad (Duchi et al. 2011): step sizes shrink with the sum of all squared gradients."""
    return torch.optim.Adagrad(decay_groups(params, weight_decay), lr=lr, foreach=True)


def rmsprop(
    params: Params, lr: float, weight_decay: float = 0.0, beta2: float = 0.99
) -> torch.optim.RMSprop:
    """RMSProp (Tieleman and Hinton 2012): a moving average of squared gradients."""
    return torch.optim.RMSprop(decay_groups(params, weight_decay), lr=lr, alpha=beta2, foreach=True)


def adadelta(
    params: Params, lr: float = 1.0, weight_decay: float = 0.0, beta2: float = 0.9
) -> torch.optim.Adadelta:
    """AdaDelta (Zeiler 2012): steps in the units of the weights; the usual learning rate is 1.

    Differs from RMSProp in that it also averages the squared steps.
    """
    return torch.optim.Adadelta(decay_groups(params, weight_decay), lr=lr, rho=beta2, foreach=True)


def adam(
    params: Params, lr: float, weight_decay: float = 0.0, beta2: float = 0.999
) -> torch.optim.Adam:
    """Adam (Kingma and Ba 2015), in one fused kernel."""
    groups = decay_groups(params, weight_decay)
    return torch.optim.Adam(groups, lr=lr, betas=(0.9, beta2), fused=True)


def nadam(
    params: Params, lr: float, weight_decay: float = 0.0, beta2: float = 0.999
) -> torch.optim.NAdam:
    """NAdam (Dozat 2016): Adam with Nesterov momentum, which is warmed up to β₁."""
    groups = decay_groups(params, weight_decay)
    return torch.optim.NAdam(groups, lr=lr, betas=(0.9, beta2), foreach=True)


def adamw(
    params: Params, lr: float, weight_decay: float = 0.01, beta2: float = 0.98
) -> torch.optim.AdamW:
    r"""AdamW (Loshchilov and Hutter 2019), in one fused kernel.

    β₂ = 0.98 is the Transformer's (Vaswani et al. 2017, section 5.3). Embeddings of rare tokens
    need a longer horizon, β₂ = 0.999.
    """
    groups = decay_groups(params, weight_decay)
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, beta2), fused=True)
