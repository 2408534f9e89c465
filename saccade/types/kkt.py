r"""Optimality conditions of constrained problems (Karush 1939; Kuhn and Tucker 1951).

To minimise f(x) subject to h(x) = 0 and g(x) ≤ 0, each constraint gets a multiplier, λ or μ. At a
minimum all four conditions hold:

- primal feasibility: \(h(x) = 0,\; g(x) \le 0\);
- dual feasibility: \(\mu \ge 0\);
- complementary slackness: \(\mu_i\, g_i(x) = 0\);
- stationarity: \(\nabla f(x) + \sum_i \lambda_i \nabla h_i(x) + \sum_i \mu_i \nabla g_i(x) = 0\).

Where f and g are convex and h is linear, they are also sufficient for a global minimum.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

KKT_DESCRIPTIONS = {
    "primal feasibility": "every constraint holds",
    "dual feasibility": "every inequality multiplier is non-negative",
    "complementary slackness": "every inactive inequality has multiplier 0",
    "stationarity": "the gradient of the Lagrangian is 0",
}


class KKTResiduals(NamedTuple):
    """Largest violation of each of the four conditions; 0 without constraints."""

    primal: float
    dual: float
    slackness: float
    stationarity: float

    def are_satisfied(self, tolerance: float = 1e-6) -> bool:
        """Return True if no violation exceeds `tolerance`."""
        return all(violation <= tolerance for violation in self)

    def table(self, tolerance: float = 1e-6) -> str:
        """Return a line for each condition: name, largest violation, verdict."""
        lines = []
        for (name, description), violation in zip(KKT_DESCRIPTIONS.items(), self, strict=True):
            holds = violation <= tolerance
            verdict = description if holds else f"does not hold within {tolerance:g}"
            lines.append(f"{name:23}  {violation:<7.2g}  {verdict}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def kkt_residuals(
    equalities: ArrayLike,
    inequalities: ArrayLike,
    multipliers: ArrayLike,
    lagrangian_gradient: ArrayLike,
) -> KKTResiduals:
    """Return the residuals from h(x), g(x), the multipliers μ and ∇f + Σ λ∇h + Σ μ∇g."""
    h, g = _flat(equalities), _flat(inequalities)
    mu, gradient = _flat(multipliers), _flat(lagrangian_gradient)
    if mu.shape != g.shape:
        raise ValueError(f"got {len(g)} inequalities and {len(mu)} multipliers; expected one each.")
    return KKTResiduals(
        primal=max(_largest(np.abs(h)), _largest(g)),
        dual=_largest(-mu),
        slackness=_largest(np.abs(mu * g)),
        stationarity=_largest(np.abs(gradient)),
    )


def _flat(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64).reshape(-1)


def _largest(violations: NDArray[Any]) -> float:
    # + 0.0 turns -0.0 into 0.0; NaN stays NaN, which satisfies no tolerance
    return float(violations.max(initial=0.0)) + 0.0
