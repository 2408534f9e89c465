"""Policies: distributions over actions, as functions of action values."""

from typing import NamedTuple

import numpy as np

from saccade.types.arrays import FloatArray


class EpsilonGreedy(NamedTuple):
    """With probability ε a uniformly random action, else one of the best: 0 greedy, 1 random."""

    epsilon: float

    def probabilities(self, action_values: FloatArray) -> FloatArray:
        r"""Return π(a | s) = ε / A + (1 − ε) / |best| on the best actions (S, A)."""
        best = action_values == action_values.max(axis=1, keepdims=True)
        share = best / best.sum(axis=1, keepdims=True)
        return np.asarray(self.epsilon / action_values.shape[1] + (1 - self.epsilon) * share)

    def __str__(self) -> str:
        """Return the name of the policy."""
        names = {0.0: "greedy", 1.0: "uniformly random"}
        return names.get(self.epsilon, f"ε-greedy, ε = {self.epsilon:g}")


OFF_POLICY_METHODS = ("q_learning", "double_q")


class PolicyPair(NamedTuple):
    """The policy that acts, and the policy whose values are learned."""

    behaviour: EpsilonGreedy
    target: EpsilonGreedy

    @property
    def is_on_policy(self) -> bool:
        """True if the values of the behaviour itself are learned."""
        return self.behaviour == self.target

    def __str__(self) -> str:
        """Return both policies in words."""
        if self.is_on_policy:
            return f"on-policy: acts by and learns the values of one policy ({self.behaviour})"
        return f"off-policy: acts {self.behaviour}, learns the values of the {self.target} policy"


def policy_pair(method: str, epsilon: float) -> PolicyPair:
    """Return behaviour and target policy of a tabular method."""
    behaviour = EpsilonGreedy(epsilon)
    return PolicyPair(behaviour, EpsilonGreedy(0.0) if method in OFF_POLICY_METHODS else behaviour)
