"""Distributions of actions and losses of policies: tensors in, tensors out."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

LOG_2PI = math.log(2 * math.pi)


def categorical_log_probs(
    logits: Float[Tensor, "B A"], actions: Float[Tensor, "B 1"]
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    """Return log π(a | s) of the actions taken, and the entropy of each distribution."""
    log_probs = logits.log_softmax(dim=-1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
    return log_probs.gather(1, actions.long()).squeeze(1), entropy


def gaussian_log_probs(
    means: Float[Tensor, "B A"], log_deviation: Float[Tensor, " A"], actions: Float[Tensor, "B A"]
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    r"""Return log N(a; μ(s), σ²), summed over the components, and the entropy."""
    z = (actions - means) * torch.exp(-log_deviation)
    each = -0.5 * (z.square() + LOG_2PI) - log_deviation
    entropy = (0.5 * (1 + LOG_2PI) + log_deviation).sum()
    return each.sum(dim=-1), entropy.expand(len(means))


def policy_gradient_loss(
    log_probs: Float[Tensor, " B"], advantages: Float[Tensor, " B"]
) -> Float[Tensor, " B"]:
    r"""Return -Â_t log π(a_t | s_t), whose gradient is that of the return (Williams 1992)."""
    return -advantages * log_probs


def clipped_surrogate_loss(
    log_probs: Float[Tensor, " B"],
    old_log_probs: Float[Tensor, " B"],
    advantages: Float[Tensor, " B"],
    clip: float | None,
) -> Float[Tensor, " B"]:
    r"""Return -min(ρ Â, clip(ρ, 1 - ε, 1 + ε) Â), ρ = π(a | s) / π_old(a | s) (PPO).

    Schulman et al. 2017, equation 7. With `clip` None it is -ρ Â, the surrogate of TRPO.
    """
    ratios = torch.exp(log_probs - old_log_probs)
    if clip is None:
        return -ratios * advantages
    clipped = ratios.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratios * advantages, clipped * advantages)
