r"""Planning on a known transition table: policy evaluation, policy iteration, value iteration.

The Bellman residual of values v is max_s |(T v)(s) − v(s)|; with γ < 1 the values are within
residual · γ / (1 − γ) of the fixed point after the next sweep (Sutton and Barto 2018, chapter 4;
Puterman 1994, section 6.3).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from saccade.estimators.reinforcement.mdp import (
    TransitionTable,
    check_gamma,
    check_policy,
    deterministic_policy,
    uniform_policy,
)
from saccade.types.arrays import FloatArray, IntArray

MAX_SWEEPS = 100_000
MAX_EVALUATION_SWEEPS = 1000  # of one policy in policy iteration
DEFAULT_TOLERANCE = 1e-10
TIE_TOLERANCE = 1e-9  # relative gap of action values below which the present action is kept


@dataclass(frozen=True, eq=False)
class Plan:
    """Values and greedy actions of every state, with the sweeps that computed them."""

    values: FloatArray  # (S,)
    action_values: FloatArray  # (S, A)
    actions: IntArray  # (S,)
    residuals: list[float]  # Bellman residual before each sweep over the states
    evaluations: list[int]  # sweeps of each policy; value iteration: 1 each

    @property
    def sweeps(self) -> int:
        """Number of sweeps over all states."""
        return sum(self.evaluations)


def evaluate_policy(
    table: TransitionTable,
    policy: FloatArray,
    gamma: float,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    max_sweeps: int = MAX_SWEEPS,
) -> tuple[FloatArray, list[float]]:
    r"""Return v_π by sweeps v ← Σ_a π(a | s) q(s, a) until the residual is small, and residuals."""
    check_gamma(gamma)
    policy = check_policy(policy, table)
    values, residuals = _sweep(
        table, policy, gamma, np.zeros(table.num_states), tolerance, max_sweeps
    )
    if residuals[-1] > tolerance:
        raise _not_converged(residuals, tolerance)
    return values, residuals


def _sweep(
    table: TransitionTable,
    policy: FloatArray,
    gamma: float,
    values: FloatArray,
    tolerance: float,
    max_sweeps: int,
) -> tuple[FloatArray, list[float]]:
    residuals: list[float] = []
    while len(residuals) < max_sweeps:
        updated = (policy * table.action_values(values, gamma)).sum(axis=1)
        residuals.append(float(np.abs(updated - values).max()))
        values = updated
        if residuals[-1] <= tolerance:
            break
    return values, residuals


def _not_converged(residuals: list[float], tolerance: float) -> ValueError:
    return ValueError(
        f"got a residual of {residuals[-1]:.3g} after {len(residuals)} sweeps; expected at most "
        f"{tolerance:.3g}; try gamma below 1, or a larger tolerance."
    )


def improve_policy(action_values: FloatArray, actions: IntArray) -> IntArray:
    """Return the greedy action of each state; the present one is kept where it is as good."""
    here = np.arange(len(actions))
    best = action_values.max(axis=1)
    present = action_values[here, actions]
    is_kept = best - present <= TIE_TOLERANCE * np.maximum(1, np.abs(best))
    return np.where(is_kept, actions, action_values.argmax(axis=1))


def policy_iteration(
    table: TransitionTable,
    gamma: float,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    max_sweeps: int = MAX_SWEEPS,
) -> Plan:
    """Alternate evaluation by sweeps and greedy improvement until no action changes (Howard 1960).

    The first policy is the uniformly random one. An evaluation ends at the tolerance or after
    `MAX_EVALUATION_SWEEPS` (modified policy iteration, Puterman and Shin 1978): with γ = 1 that of
    a policy which rarely reaches an end would take long. The last one ends at the tolerance.
    """
    check_gamma(gamma)
    policy, values = uniform_policy(table), np.zeros(table.num_states)
    actions: IntArray | None = None
    residuals: list[float] = []
    evaluations: list[int] = []
    while len(residuals) < max_sweeps:
        values, found = _sweep(table, policy, gamma, values, tolerance, MAX_EVALUATION_SWEEPS)
        residuals += found
        evaluations.append(len(found))
        action_values = table.action_values(values, gamma)
        if actions is None:
            improved = action_values.argmax(axis=1)
        else:
            improved = improve_policy(action_values, actions)
            if (improved == actions).all() and found[-1] <= tolerance:
                return Plan(values, action_values, actions, residuals, evaluations)
        actions = improved
        policy = deterministic_policy(actions, table.num_actions)
    raise _not_converged(residuals, tolerance)


def value_iteration(
    table: TransitionTable,
    gamma: float,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    max_sweeps: int = MAX_SWEEPS,
) -> Plan:
    r"""Sweep v ← max_a q(s, a) until the residual is small (Bellman 1957)."""
    check_gamma(gamma)
    values = np.zeros(table.num_states)
    residuals: list[float] = []
    while len(residuals) < max_sweeps:
        updated = table.action_values(values, gamma).max(axis=1)
        residuals.append(float(np.abs(updated - values).max()))
        values = updated
        if residuals[-1] <= tolerance:
            action_values = table.action_values(values, gamma)
            return Plan(
                values, action_values, action_values.argmax(axis=1), residuals, [1] * len(residuals)
            )
    raise _not_converged(residuals, tolerance)


PLANNERS: dict[str, Callable[..., Plan]] = {
    "policy_iteration": policy_iteration,
    "value_iteration": value_iteration,
}
