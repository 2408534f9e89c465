"""Targets of value learning: one-step Q targets, discounted returns, generalised advantages."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.types.arrays import FloatArray


def q_targets(
    rewards: Float[Tensor, " B"],
    terminated: Float[Tensor, " B"],
    next_values: Float[Tensor, "B A"],
    discount: float,
    chooser: Float[Tensor, "B A"] | None = None,
) -> Float[Tensor, " B"]:
    r"""Return r + γ (1 - d) max_a Q⁻(s', a), the targets of Q-learning (Watkins 1989).

    With `chooser`, the values by which the next action is chosen, it is Double DQN:
    r + γ (1 - d) Q⁻(s', argmax_a Q(s', a)) (van Hasselt et al. 2016). d is 1 where the environment
    ended the episode; an episode that a time limit cut off has a next value (Pardo et al. 2018).
    """
    if chooser is None:
        best = next_values.amax(dim=1)
    else:
        best = next_values.gather(1, chooser.argmax(dim=1, keepdim=True)).squeeze(1)
    return torch.addcmul(rewards, best, 1.0 - terminated, value=discount)


def discounted_returns(
    rewards: FloatArray, ends: FloatArray, last: FloatArray, discount: float
) -> FloatArray:
    r"""Return G_t = r_t + γ (1 - e_t) G_{t+1} for each of N environments.

    Args:
        rewards: (T, N).
        ends: 1 where an episode ended with the step (T, N).
        last: value after the last step (N).
        discount: γ.
    """
    returns = np.empty_like(rewards)
    following = last
    for t in range(len(rewards) - 1, -1, -1):
        following = rewards[t] + discount * (1.0 - ends[t]) * following
        returns[t] = following
    return returns


def generalised_advantages(
    rewards: FloatArray,
    ends: FloatArray,
    values: FloatArray,
    last: FloatArray,
    discount: float,
    trace: float,
) -> FloatArray:
    r"""Return Â_t = Σ_k (γλ)^k δ_{t+k} up to the end of the episode (Schulman et al. 2016).

    δ_t = r_t + γ (1 - e_t) V(s_{t+1}) - V(s_t). With λ = 1 it is the return minus the value.

    Args:
        rewards: (T, N); the value after an episode that was cut off is part of its last reward.
        ends: 1 where an episode ended with the step (T, N).
        values: of the state before each step (T, N).
        last: value of the state after the last step (N).
        discount: γ.
        trace: λ.
    """
    advantages = np.empty_like(rewards)
    following, next_values = np.zeros_like(last), last
    for t in range(len(rewards) - 1, -1, -1):
        alive = 1.0 - ends[t]
        delta = rewards[t] + discount * alive * next_values - values[t]
        following = delta + discount * trace * alive * following
        advantages[t], next_values = following, values[t]
    return advantages
