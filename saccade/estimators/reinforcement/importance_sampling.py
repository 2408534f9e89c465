r"""Off-policy evaluation: the value of a policy π from episodes of a behaviour policy b.

With the ratios ρ_{0:t} = Π_{k ≤ t} π(a_k | s_k) / b(a_k | s_k) and the return G = Σ_t γ^t r_t:

| estimator | formula over episodes i | bias |
|---|---|---|
| ordinary | (1/N) Σ_i ρ_i G_i | none |
| weighted | Σ_i ρ_i G_i / Σ_i ρ_i | vanishes with N; smaller variance |
| per-decision | (1/N) Σ_i Σ_t γ^t ρ_{i,0:t} r_{i,t} | none; smaller variance as a rule |

Precup, Sutton and Singh 2000; Sutton and Barto 2018, section 5.5. Q-learning needs no ratio: its
target r + γ max_a q(s', a) is for the action that was taken, whichever policy took it, and the
expectation over the next action is computed instead of sampled.
"""

from typing import NamedTuple

import numpy as np

from saccade.estimators.reinforcement.episodes import EpisodeBatch
from saccade.estimators.reinforcement.mdp import TransitionTable, check_gamma, check_policy
from saccade.types.arrays import FloatArray

Z_95 = 1.959963984540054  # 97.5 % quantile of the normal distribution
OFF_POLICY_ESTIMATORS = ("ordinary", "weighted", "per_decision")


class Estimate(NamedTuple):
    """An estimate with its standard error."""

    value: float
    standard_error: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval, by the normal approximation."""
        margin = Z_95 * self.standard_error
        return self.value - margin, self.value + margin


class Moments(NamedTuple):
    """Exact mean and variances of one episode's terms, for episodes cut at a horizon."""

    value: float  # of the target policy: the mean of both
    ordinary_variance: float
    per_decision_variance: float


def importance_ratios(batch: EpisodeBatch, target: FloatArray, behaviour: FloatArray) -> FloatArray:
    r"""Return ρ_{0:t} of every step (N, T); after the end of an episode, the last one."""
    states = batch.states[:, :-1]
    taken = behaviour[states, batch.actions]
    if (taken[batch.is_step()] == 0).any():
        raise ValueError(
            "got an action that the behaviour policy never takes; expected episodes of this "
            "behaviour policy."
        )
    ratios = np.ones(batch.actions.shape)
    is_step = batch.is_step()
    ratios[is_step] = (target[states, batch.actions] / np.where(is_step, taken, 1.0))[is_step]
    return ratios.cumprod(axis=1)


def estimate_off_policy(
    batch: EpisodeBatch,
    target: FloatArray,
    behaviour: FloatArray,
    gamma: float,
    estimator: str = "ordinary",
) -> Estimate:
    """Return an estimate of the value of `target` at the start, from episodes of `behaviour`."""
    if estimator not in OFF_POLICY_ESTIMATORS:
        raise ValueError(f"got {estimator!r}; expected one of {OFF_POLICY_ESTIMATORS}.")
    check_gamma(gamma)
    ratios, N = importance_ratios(batch, target, behaviour), len(batch.lengths)
    if estimator == "per_decision":
        discounts = gamma ** np.arange(batch.rewards.shape[1])
        terms = (ratios * batch.rewards) @ discounts
    else:
        weights = ratios[:, -1]
        terms = weights * batch.discounted_returns(gamma)
        if estimator == "weighted":
            total = weights.sum()
            if total == 0:
                raise ValueError(
                    "got no episode that the target policy could have made; expected one or more; "
                    "try more episodes."
                )
            value = terms.sum() / total
            # the delta method for a ratio of means
            errors = terms - weights * value
            return Estimate(float(value), float(np.sqrt((errors**2).sum()) / total))
    return Estimate(float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(N)))


def off_policy_moments(
    table: TransitionTable,
    target: FloatArray,
    behaviour: FloatArray,
    gamma: float,
    horizon: int,
) -> Moments:
    r"""Return the exact value and the variances of ordinary and per-decision terms.

    With w = π(a | s) / b(a | s) and E_b over the first step, the moments of X = ρ G follow from
    those of the rest of the episode, h steps from the horizon,

    \[ E[\rho^2 G^2] = E_b\, w^2 \left( r^2 E[\rho'^2] + 2 \gamma r E[\rho'^2 G']
       + \gamma^2 E[\rho'^2 G'^2] \right), \]

    and those of the per-decision term Y = w (r + γ Y') from E[Y²] = E_b w² (r² + 2 γ r E[Y'] +
    γ² E[Y'²]).
    """
    check_gamma(gamma)
    check_policy(target, table), check_policy(behaviour, table)
    if ((target > 0) & (behaviour == 0)).any():
        raise ValueError(
            "got a target policy that takes actions which the behaviour policy never takes; "
            "expected coverage: b(a | s) > 0 wherever π(a | s) > 0; try a behaviour with ε above 0."
        )
    safe = np.where(behaviour > 0, behaviour, 1.0)
    squared = (np.where(behaviour > 0, target**2 / safe, 0.0))[:, :, None] * table.probabilities
    plain = target[:, :, None] * table.probabilities
    r, follows = table.rewards, ~table.terminated

    def total(weights: FloatArray, terms: FloatArray) -> FloatArray:
        return np.asarray((weights * terms).sum(axis=(1, 2)))

    zeros = np.zeros(table.num_states)
    value, ratio, cross, ordinary, decision = zeros, zeros + 1, zeros, zeros, zeros
    for _ in range(horizon):
        v, m1, m2, y2 = (
            np.where(follows, gamma**power * rest[table.next_states], 0.0)
            for rest, power in ((value, 1), (cross, 1), (ordinary, 2), (decision, 2))
        )
        m0 = np.where(follows, ratio[table.next_states], 1.0)
        ordinary = total(squared, r**2 * m0 + 2 * r * m1 + m2)
        cross = total(squared, r * m0 + m1)
        ratio = total(squared, m0)
        decision = total(squared, r**2 + 2 * r * v + y2)
        value = total(plain, r + v)
    mean = float(table.start @ value)
    return Moments(
        mean, float(table.start @ ordinary) - mean**2, float(table.start @ decision) - mean**2
    )
