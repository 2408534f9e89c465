r"""Constrained minimisation with equality and inequality constraints.

    minimise f(x)   subject to h(x) = 0 and g(x) ≤ 0

**Lagrange multipliers** (equalities): at a minimum the gradient of f is a combination of the
gradients of the constraints, ∇f + Σ λ_i ∇h_i = 0 and h = 0. That is a system of equations in
(x, λ), which Newton's method solves in a few steps, each from

    [ ∇²L  Jᵀ ] [ dx ]     [ ∇f ]
    [  J   0  ] [ λ  ] = - [ h  ],     L = f + Σ λ_i h_i, J the Jacobian of h.

Far from a solution it may converge to a maximum or a saddle point, or diverge. **The augmented
Lagrangian** (Hestenes 1969, Powell 1969; with inequalities Rockafellar 1973) converges from any
start: it minimises

    f(x) + Σ λ_i h_i + ρ/2 Σ h_i² + 1/(2ρ) Σ (max(0, μ_i + ρ g_i)² - μ_i²)

in x without constraints, then sets λ ← λ + ρ h and μ ← max(0, μ + ρ g), with linear convergence.
So it runs first and identifies the active inequalities; Newton then treats those as equalities and
converges to machine precision. The solution satisfies the conditions of `saccade.types.kkt`, or an
error is raised.

For small dense problems: first and second derivatives come from autograd, and every step solves a
system in all variables. The minimum is a local one; a convex problem has only one.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from saccade.types.kkt import KKTResiduals, kkt_residuals

TensorFunction = Callable[[Tensor], Tensor]

INITIAL_PENALTY, MAX_PENALTY = 10.0, 1e10  # ρ, the weight of a violation
MAX_NEWTON_STEPS = 20
MAX_DESCENT_STEPS = 200
UNBOUNDED_AT = 1e12  # |x| or -f beyond which the problem counts as unbounded


class Solution(NamedTuple):
    """A minimum and the multipliers of its constraints.

    A multiplier is also a sensitivity (shadow price): with h = c instead of h = 0, or g ≤ c instead
    of g ≤ 0, the minimum changes by -λc or -μc for small c.
    """

    x: Tensor  # (D), float64
    value: float
    equality: Tensor  # λ, one for each h
    inequality: Tensor  # μ, one for each g
    conditions: KKTResiduals
    rounds: int  # updates of the multipliers


def minimise(
    objective: TensorFunction,
    start: Tensor,
    *,
    equality: TensorFunction | None = None,
    inequality: TensorFunction | None = None,
    tolerance: float = 1e-8,
    rounds: int = 60,
) -> Solution:
    """Minimise `objective` subject to `equality` = 0 and `inequality` ≤ 0.

    Differs from scipy's SLSQP in that it raises ValueError when it has found no feasible point.

    Args:
        objective: f, from a float64 tensor of shape (D,) to one number.
        start: initial x; it need not be feasible.
        equality: h, from x to any number of values.
        inequality: g, from x to any number of values.
        tolerance: largest violation of the KKT conditions, relative to the gradients' size.
        rounds: maximum number of updates of the multipliers.
    """
    problem = _Problem(objective, equality, inequality)
    x = initial = _checked_start(problem, start)
    with torch.no_grad():
        multipliers = _Multipliers(*(torch.zeros_like(c) for c in problem.constraints(x)))
    penalty, previous_violation, gradient_tolerance = INITIAL_PENALTY, torch.inf, 1e-2
    for done in range(1, rounds + 1):
        gradient_tolerance = max(gradient_tolerance / 10, tolerance / 4)
        minimum = _descend(problem.augmented(multipliers, penalty), x, gradient_tolerance)
        if minimum is None:  # unbounded outside the constraints: raise the penalty
            if penalty >= MAX_PENALTY:
                raise ValueError(_unbounded_message(x))
            x, penalty = initial, penalty * 10
            multipliers = multipliers.zeros()
            continue
        x = minimum
        with torch.no_grad():
            h, g = problem.constraints(x)
        violation = _largest(torch.cat([h, g.maximum(-multipliers.inequality / penalty)]))
        multipliers = _Multipliers(
            multipliers.equality + penalty * h, (multipliers.inequality + penalty * g).clamp(min=0)
        )
        for point, duals in (_newton(problem, x, multipliers), (x, multipliers)):
            residuals = problem.conditions(point, duals)
            stationary = residuals.are_satisfied(tolerance * problem.scale(point, duals))
            if stationary and residuals.primal <= tolerance:
                value = float(objective(point))
                return Solution(point, value, *duals, residuals, done)
        if violation > previous_violation / 4:
            if penalty >= MAX_PENALTY:
                break
            penalty *= 10
        previous_violation = violation
    raise ValueError(_failure_message(problem, x, multipliers, tolerance))


class _Multipliers(NamedTuple):
    """The multipliers λ of equalities and μ of inequalities."""

    equality: Tensor
    inequality: Tensor

    def zeros(self) -> "_Multipliers":
        return _Multipliers(torch.zeros_like(self.equality), torch.zeros_like(self.inequality))


class _Problem(NamedTuple):
    """Objective and constraints; the latter as vectors."""

    objective: TensorFunction
    equality: TensorFunction | None
    inequality: TensorFunction | None

    def constraints(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return h(x) and g(x)."""
        empty = x.new_zeros(0)
        h = self.equality(x).reshape(-1) if self.equality else empty
        g = self.inequality(x).reshape(-1) if self.inequality else empty
        return h, g

    def augmented(self, multipliers: _Multipliers, penalty: float) -> TensorFunction:
        """Return the augmented Lagrangian, a function of x."""

        def value(x: Tensor) -> Tensor:
            h, g = self.constraints(x)
            updated = (multipliers.inequality + penalty * g).clamp(min=0)
            return (
                self.objective(x)
                + (multipliers.equality * h).sum()
                + penalty / 2 * h.square().sum()
                + (updated.square() - multipliers.inequality.square()).sum() / (2 * penalty)
            )

        return value

    def lagrangian(self, multipliers: _Multipliers) -> TensorFunction:
        """Return L = f + Σ λ h + Σ μ g, a function of x."""

        def value(x: Tensor) -> Tensor:
            h, g = self.constraints(x)
            weighted = (multipliers.equality * h).sum() + (multipliers.inequality * g).sum()
            return self.objective(x) + weighted

        return value

    def conditions(self, x: Tensor, multipliers: _Multipliers) -> KKTResiduals:
        """Return the residuals of the KKT conditions at x."""
        with torch.no_grad():
            h, g = self.constraints(x)
        gradient = _gradient(self.lagrangian(multipliers), x)
        return kkt_residuals(h.numpy(), g.numpy(), multipliers.inequality.numpy(), gradient.numpy())

    def scale(self, x: Tensor, multipliers: _Multipliers) -> float:
        """Return the size of the terms of the stationarity condition, at least 1."""
        gradient = _gradient(self.objective, x)
        return max(1.0, *(_largest(part) for part in (gradient, *multipliers)))


# --- unconstrained minimisation -------------------------------------------------------------------


def _descend(function: TensorFunction, x: Tensor, tolerance: float) -> Tensor | None:
    """Newton's method with the absolute values of the Hessian's eigenvalues and a line search.

    Stops where the gradient is at most `tolerance`, or where no step decreases the function.
    Returns None if the function is unbounded below.
    """
    for _ in range(MAX_DESCENT_STEPS):
        value, gradient, hessian = _taylor(function, x)
        if not (gradient.isfinite().all() and hessian.isfinite().all()):
            raise ValueError(
                f"got value {float(value):.3g} at x = {_format_point(x)}, but a derivative that is "
                "not finite; expected smooth functions; try another start."
            )
        eigenvalues, directions = torch.linalg.eigh(hessian)
        largest_eigenvalue = max(1.0, _largest(eigenvalues))
        max_step = 10 * (1 + _largest(x))
        if _largest(gradient) <= tolerance:
            if eigenvalues[0] >= -1e-6 * largest_eigenvalue:
                return x
            step = directions[:, 0]  # a saddle point: both senses of this direction descend
        else:
            along = directions.T @ gradient
            # |eigenvalue|: a Newton step would ascend along negative curvature and be infinite
            # without curvature
            curved = eigenvalues.abs() > 1e-12 * largest_eigenvalue
            flat_step = torch.where(along.abs() > tolerance / 10, along.sign() * max_step, 0.0)
            step = -directions @ torch.where(curved, along / eigenvalues.abs(), flat_step)
        step = step * min(1.0, max_step / max(_largest(step), 1e-300))
        predicted = gradient @ step + (step @ hessian @ step).clamp(max=0) / 2
        taken = _line_search(function, x, step, value, predicted)
        if taken is None:
            return x
        x = taken
        if _largest(x) > UNBOUNDED_AT or value < -UNBOUNDED_AT:
            return None
    return x


@torch.no_grad()
def _line_search(
    function: TensorFunction, x: Tensor, step: Tensor, value: Tensor, predicted: Tensor
) -> Tensor | None:
    """Halve a step until the function decreases; a value that is NaN counts as no decrease."""
    length = 1.0
    while length > 1e-12:
        candidate = x + length * step
        if function(candidate) < value + 1e-4 * length**2 * predicted:
            return candidate
        length /= 2
    return None


# --- Newton's method on the KKT system ------------------------------------------------------------


def _newton(problem: _Problem, x: Tensor, multipliers: _Multipliers) -> tuple[Tensor, _Multipliers]:
    """Solve stationarity and the active constraints together; return the input if that fails.

    Constraints with a positive multiplier are active. In each step an inequality with a negative
    multiplier becomes inactive, and one that is violated becomes active.
    """
    initial = x, multipliers
    active = multipliers.inequality > 0
    size, scale = len(x), problem.scale(x, multipliers)
    for _ in range(MAX_NEWTON_STEPS):
        _, gradient, hessian = _taylor(problem.lagrangian(multipliers), x)
        h, g, jacobian = _constraints_with_jacobian(problem, x, active)
        values = torch.cat([h, g[active]])
        duals = torch.cat([multipliers.equality, multipliers.inequality[active]])
        corner = x.new_zeros(len(values), len(values))
        system = torch.cat([torch.cat([hessian, jacobian.T], 1), torch.cat([jacobian, corner], 1)])
        # the gradient is that of L, so the unknown is the change of the multipliers
        change = _min_norm_solution(system, -torch.cat([gradient, values]))
        if not change.isfinite().all() or _largest(change[:size]) > 1e6 * (1 + _largest(x)):
            return initial
        x, duals = x + change[:size], duals + change[size:]
        multipliers = _Multipliers(duals[: len(h)], torch.zeros_like(g))
        multipliers.inequality[active] = duals[len(h) :]
        with torch.no_grad():
            _, g = problem.constraints(x)
        converged = _largest(change[:size]) <= 1e-12 * (1 + _largest(x))
        next_active = (active & (multipliers.inequality >= 0)) | (g > 1e-12)
        if converged and bool((next_active == active).all()):
            break
        active = next_active
        multipliers = _Multipliers(multipliers.equality, multipliers.inequality.clamp(min=0))
    curvature = _lowest_curvature(hessian, jacobian)
    is_minimum = curvature >= -1e-7 * max(scale, _largest(hessian))
    return (x, multipliers) if is_minimum else initial


def _min_norm_solution(system: Tensor, right_hand_side: Tensor) -> Tensor:
    """Return the minimum-norm solution: redundant constraints make the system singular."""
    if not system.isfinite().all():
        return torch.full_like(right_hand_side, torch.nan)
    return torch.linalg.lstsq(system, right_hand_side[:, None], driver="gelsd").solution[:, 0]


def _lowest_curvature(hessian: Tensor, jacobian: Tensor) -> float:
    """Return the smallest curvature of L along the active constraints; at a minimum it is ≥ 0."""
    if len(jacobian):
        _, singular_values, directions = torch.linalg.svd(jacobian)
        rank = int((singular_values > 1e-9 * max(1.0, _largest(singular_values))).sum())
        tangents = directions[rank:].T
    else:
        tangents = torch.eye(len(hessian), dtype=hessian.dtype)
    if not tangents.numel():
        return 0.0  # the constraints determine x
    return float(torch.linalg.eigvalsh(tangents.T @ hessian @ tangents)[0])


# --- derivatives ----------------------------------------------------------------------------------


def _gradient(function: TensorFunction, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    # 0·x² makes the result depend on x even where the function does not
    (gradient,) = torch.autograd.grad(function(x) + 0 * x.square().sum(), x)
    return gradient


def _taylor(function: TensorFunction, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, gradient (D) and Hessian (D, D)."""
    x = x.detach().requires_grad_()
    value = function(x) + 0 * x.square().sum()
    (gradient,) = torch.autograd.grad(value, x, create_graph=True)
    rows = [torch.autograd.grad(part, x, retain_graph=True)[0] for part in gradient]
    hessian = torch.stack(rows)
    return value.detach(), gradient.detach(), (hessian + hessian.T) / 2


def _constraints_with_jacobian(
    problem: _Problem, x: Tensor, active: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return h, g, and the Jacobian of h and the active g."""
    x = x.detach().requires_grad_()
    h, g = problem.constraints(x)
    values = torch.cat([h, g[active]]) + 0 * x.sum()
    rows = [torch.autograd.grad(value, x, retain_graph=True)[0] for value in values]
    jacobian = torch.stack(rows) if rows else x.new_zeros(0, len(x))
    return h.detach(), g.detach(), jacobian.detach()


def _largest(values: Tensor) -> float:
    """Return the largest absolute value; 0 if there are no values."""
    return float(values.abs().max()) if values.numel() else 0.0


# --- errors ---------------------------------------------------------------------------------------


def _checked_start(problem: _Problem, start: Tensor) -> Tensor:
    x = torch.as_tensor(start).detach().to(torch.float64).clone()
    if x.ndim != 1 or not len(x) or not x.isfinite().all():
        raise ValueError(
            f"got a start of shape {tuple(x.shape)}: {x.tolist()}; expected a vector of finite "
            "numbers."
        )
    with torch.no_grad():
        value = problem.objective(x)
        h, g = problem.constraints(x)
    if value.numel() != 1:
        raise ValueError(
            f"got an objective with {value.numel()} values; expected one number to minimise."
        )
    for what, values in (("objective", value), ("equality", h), ("inequality", g)):
        if not values.isfinite().all():
            raise ValueError(
                f"got {what} = {values.tolist()} at the start; expected finite values; try another "
                "start."
            )
    return x


def _format_point(x: Tensor) -> str:
    return "(" + ", ".join(f"{part:.3g}" for part in x.tolist()) + ")"


def _unbounded_message(x: Tensor) -> str:
    return (
        f"the objective is unbounded below (it decreases without end from x = {_format_point(x)}): "
        "no minimum was found; try to add the missing constraint, or another start."
    )


def _failure_message(
    problem: _Problem, x: Tensor, multipliers: _Multipliers, tolerance: float
) -> str:
    with torch.no_grad():
        h, g = problem.constraints(x)
    violations = torch.cat([h.abs(), g.clamp(min=0)])
    if _largest(violations) > max(1e-6, tolerance):
        worst = int(violations.argmax())
        if worst < len(h):
            what = f"value {worst + 1} of `equality` is {float(h[worst]):.3g}; expected 0"
        else:
            excess = float(g[worst - len(h)])
            what = f"value {worst - len(h) + 1} of `inequality` is {excess:.3g}; expected 0 or less"
        return (
            f"found no feasible point: at the nearest one, {what}. If the constraints do not "
            "contradict each other, try another start."
        )
    largest = max(_largest(part) for part in multipliers)
    return (
        f"not converged within {tolerance:g}: the largest multiplier is {largest:.3g}.\n"
        f"{problem.conditions(x, multipliers).table(tolerance)}\n"
        "Where the gradients of constraints vanish there may be no multipliers; otherwise try to "
        "scale the functions to values near 1, or a larger tolerance."
    )
