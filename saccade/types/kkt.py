r"""Is this the least that is allowed? The conditions of Karush (1939), Kuhn and Tucker (1951).

To make f(x) small where h(x) = 0 and g(x) ≤ 0, each constraint gets a multiplier, λ or μ, which
says how hard it pushes. At the least, all four hold:

- primal feasibility: \(h(x) = 0,\; g(x) \le 0\);
- dual feasibility: \(\mu \ge 0\);
- complementary slackness: \(\mu_i\, g_i(x) = 0\);
- stationarity: \(\nabla f(x) + \sum_i \lambda_i \nabla h_i(x) + \sum_i \mu_i \nabla g_i(x) = 0\).

Where f and g are convex and h is linear, they are also enough: the least is there and nowhere else.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

KKT_DESCRIPTIONS = {
    "primal feasibility": "every constraint is kept",
    "dual feasibility": "no inequality pulls where it may only push",
    "complementary slackness": "a constraint with room to spare does not push",
    "stationarity": "the slope and the pushes are in balance",
}


class KKTResiduals(NamedTuple):
    """The largest violation of each of the four; 0 where there is nothing to violate."""

    primal: float
    dual: float
    slackness: float
    stationarity: float

    def are_satisfied(self, tolerance: float = 1e-6) -> bool:
        """Whether no violation is larger than that."""
        return all(violation <= tolerance for violation in self)

    def table(self, tolerance: float = 1e-6) -> str:
        """A line for each: its name, its largest violation, what it says if it holds."""
        lines = []
        for (name, words), violation in zip(KKT_DESCRIPTIONS.items(), self, strict=True):
            verdict = words if violation <= tolerance else f"does not hold within {tolerance:g}"
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
    """From h(x), g(x), the μ of each g, and the slope ∇f + Σ λ∇h + Σ μ∇g that is to be 0."""
    h, g = _flat(equalities), _flat(inequalities)
    mu, rest = _flat(multipliers), _flat(lagrangian_gradient)
    if mu.shape != g.shape:
        raise ValueError(f"got {len(g)} inequalities and {len(mu)} multipliers; wanted one each.")
    return KKTResiduals(
        primal=max(_largest(np.abs(h)), _largest(g)),
        dual=_largest(-mu),
        slackness=_largest(np.abs(mu * g)),
        stationarity=_largest(np.abs(rest)),
    )


def _flat(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64).reshape(-1)


def _largest(violations: NDArray[Any]) -> float:
    # + 0.0 makes the 0 of -0.0; a NaN stays one, and holds nowhere
    return float(violations.max(initial=0.0)) + 0.0
