r"""The least of a function where constraints hold: Lagrange's multipliers, and inequalities.

    minimise f(x)   where h(x) = 0 and g(x) ≤ 0

**Lagrange** (equalities): at the least the slope of f is balanced by slopes of the constraints,
∇f + Σ λ_i ∇h_i = 0 and h = 0. That is a system of equations in (x, λ), and Newton's method solves
it in a few steps, each from

    [ ∇²L  Jᵀ ] [ dx ]     [ ∇f ]
    [  J   0  ] [ λ  ] = - [ h  ],     L = f + Σ λ_i h_i, J the slopes of h.

From far away it may run to a largest value, a saddle or nowhere. **The augmented Lagrangian**
(Hestenes 1969, Powell 1969; with inequalities Rockafellar 1973) comes from anywhere: it makes

    f(x) + Σ λ_i h_i + ρ/2 Σ h_i² + 1/(2ρ) Σ (max(0, μ_i + ρ g_i)² - μ_i²)

small in x, without constraints, then sets λ ← λ + ρ h and μ ← max(0, μ + ρ g), which comes closer
by a constant factor each time. So it goes first: it finds the place and which inequalities are
tight there. Newton then treats those as equalities and finishes, to the last digits. What is
returned fulfils the conditions of `saccade.types.kkt`, or there is an error.

For small dense problems: derivatives come from autograd, second ones too, and every step solves a
system of all variables. It finds a least value of its neighbourhood; of a convex problem there is
only one.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from saccade.types.kkt import KKTResiduals, kkt_residuals

TensorFunction = Callable[[Tensor], Tensor]

INITIAL_PENALTY, MAX_PENALTY = 10.0, 1e10  # the weight ρ of a violation: at first, and at most
MAX_NEWTON_STEPS = 20
MAX_DESCENT_STEPS = 200
UNBOUNDED_AT = 1e12  # a value or a place that is further away than this has no end


class Solution(NamedTuple):
    """Where the least value is, and how hard each constraint pushes there.

    A multiplier is also a price: were h = c instead of h = 0, or g ≤ c instead of g ≤ 0, the least
    value would change by -λc or -μc, for small c.
    """

    x: Tensor  # (D), float64
    value: float
    equality: Tensor  # λ, one for each h
    inequality: Tensor  # μ, one for each g
    conditions: KKTResiduals
    rounds: int  # of the augmented Lagrangian


def minimise(
    objective: TensorFunction,
    start: Tensor,
    *,
    equality: TensorFunction | None = None,
    inequality: TensorFunction | None = None,
    tolerance: float = 1e-8,
    rounds: int = 60,
) -> Solution:
    """Make `objective` small where `equal` is 0 and `at_most` is 0 or less.

    Each gets x as a float64 tensor of D numbers; `equal` and `at_most` give any number of
    constraints. The start need not keep to them. Differs from scipy's SLSQP in that it says no
    when it has found no point that does.
    """
    problem = _Problem(objective, equality, inequality)
    x = begin = _checked_start(problem, start)
    with torch.no_grad():
        multipliers = _Multipliers(*(torch.zeros_like(c) for c in problem.constraints(x)))
    weight, last, within = INITIAL_PENALTY, torch.inf, 1e-2
    for done in range(1, rounds + 1):
        within = max(within / 10, tolerance / 4)
        found = _descend(problem.augmented(multipliers, weight), x, within)
        if found is None:  # it fell without end, past the constraints: make them heavier
            if weight >= MAX_PENALTY:
                raise ValueError(_endless(x))
            x, weight = begin, weight * 10
            multipliers = multipliers.none()
            continue
        x = found
        with torch.no_grad():
            h, g = problem.constraints(x)
        missed = _largest(torch.cat([h, g.maximum(-multipliers.inequality / weight)]))
        multipliers = _Multipliers(
            multipliers.equality + weight * h, (multipliers.inequality + weight * g).clamp(min=0)
        )
        for place, pushes in (_newton(problem, x, multipliers), (x, multipliers)):
            fulfilled = problem.conditions(place, pushes)
            balanced = fulfilled.are_satisfied(tolerance * problem.scale(place, pushes))
            if balanced and fulfilled.primal <= tolerance:
                value = float(objective(place))
                return Solution(place, value, *pushes, fulfilled, done)
        if missed > last / 4:
            if weight >= MAX_PENALTY:
                break
            weight *= 10
        last = missed
    raise ValueError(_no_solution(problem, x, multipliers, tolerance))


class _Multipliers(NamedTuple):
    """λ and μ."""

    equality: Tensor
    inequality: Tensor

    def none(self) -> "_Multipliers":
        return _Multipliers(torch.zeros_like(self.equality), torch.zeros_like(self.inequality))


class _Problem(NamedTuple):
    """The three functions, with constraints as one row of numbers each."""

    objective: TensorFunction
    equality: TensorFunction | None
    inequality: TensorFunction | None

    def constraints(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """h(x) and g(x)."""
        nothing = x.new_zeros(0)
        h = self.equality(x).reshape(-1) if self.equality else nothing
        g = self.inequality(x).reshape(-1) if self.inequality else nothing
        return h, g

    def augmented(self, multipliers: _Multipliers, weight: float) -> TensorFunction:
        """What is made small between two updates of the multipliers."""

        def value(x: Tensor) -> Tensor:
            h, g = self.constraints(x)
            pushed = (multipliers.inequality + weight * g).clamp(min=0)
            return (
                self.objective(x)
                + (multipliers.equality * h).sum()
                + weight / 2 * h.square().sum()
                + (pushed.square() - multipliers.inequality.square()).sum() / (2 * weight)
            )

        return value

    def lagrangian(self, multipliers: _Multipliers) -> TensorFunction:
        """L = f + Σ λ h + Σ μ g."""

        def value(x: Tensor) -> Tensor:
            h, g = self.constraints(x)
            pushes = (multipliers.equality * h).sum() + (multipliers.inequality * g).sum()
            return self.objective(x) + pushes

        return value

    def conditions(self, x: Tensor, multipliers: _Multipliers) -> KKTResiduals:
        """How far they are from being fulfilled at x."""
        with torch.no_grad():
            h, g = self.constraints(x)
        slope = _slope(self.lagrangian(multipliers), x)
        return kkt_residuals(h.numpy(), g.numpy(), multipliers.inequality.numpy(), slope.numpy())

    def scale(self, x: Tensor, multipliers: _Multipliers) -> float:
        """How large the numbers are that are to balance each other; 1 at least."""
        slope = _slope(self.objective, x)
        return max(1.0, *(_largest(part) for part in (slope, *multipliers)))


# --- down, without constraints --------------------------------------------------------------------


def _descend(function: TensorFunction, x: Tensor, within: float) -> Tensor | None:
    """Newton's steps with a bend made positive, each shortened until it goes down.

    Ends where the slope is `within` of 0, or where no step goes down any more; None if it falls
    without end.
    """
    for _ in range(MAX_DESCENT_STEPS):
        value, slope, bend = _taylor(function, x)
        if not (slope.isfinite().all() and bend.isfinite().all()):
            raise ValueError(
                f"at x = {_written(x)} the value is {float(value):.3g}, but a slope is not finite; "
                "write the functions so that they are smooth, or start elsewhere."
            )
        sizes, directions = torch.linalg.eigh(bend)
        strongest = max(1.0, _largest(sizes))
        longest = 10 * (1 + _largest(x))
        if _largest(slope) <= within:
            if sizes[0] >= -1e-6 * strongest:
                return x
            step = directions[:, 0]  # level, but a ridge: along it both sides go down
        else:
            along = directions.T @ slope
            # |bend|: where it is negative, a step of Newton's would go up; where there is none,
            # it would have no end
            bent = sizes.abs() > 1e-12 * strongest
            endless = torch.where(along.abs() > within / 10, along.sign() * longest, 0.0)
            step = -directions @ torch.where(bent, along / sizes.abs(), endless)
        step = step * min(1.0, longest / max(_largest(step), 1e-300))
        hoped = slope @ step + (step @ bend @ step).clamp(max=0) / 2
        taken = _shortened(function, x, step, value, hoped)
        if taken is None:
            return x
        x = taken
        if _largest(x) > UNBOUNDED_AT or value < -UNBOUNDED_AT:
            return None
    return x


@torch.no_grad()
def _shortened(
    function: TensorFunction, x: Tensor, step: Tensor, value: Tensor, hoped: Tensor
) -> Tensor | None:
    """x after as much of a step as goes down; a place where nothing can be computed does not."""
    length = 1.0
    while length > 1e-12:
        there = x + length * step
        if function(there) < value + 1e-4 * length**2 * hoped:
            return there
        length /= 2
    return None


# --- Lagrange's system, by Newton -----------------------------------------------------------------


def _newton(problem: _Problem, x: Tensor, multipliers: _Multipliers) -> tuple[Tensor, _Multipliers]:
    """Solve stationarity and the tight constraints together; back where it began if that fails.

    Tight is what pushes. On the way an inequality that would pull is let go, and one that is
    violated becomes tight.
    """
    began = x, multipliers
    tight = multipliers.inequality > 0
    size, level = len(x), problem.scale(x, multipliers)
    for _ in range(MAX_NEWTON_STEPS):
        _, slope, bend = _taylor(problem.lagrangian(multipliers), x)
        h, g, jacobian = _constraints_with_slopes(problem, x, tight)
        met = torch.cat([h, g[tight]])
        pushes = torch.cat([multipliers.equality, multipliers.inequality[tight]])
        corner = x.new_zeros(len(met), len(met))
        system = torch.cat([torch.cat([bend, jacobian.T], 1), torch.cat([jacobian, corner], 1)])
        # slope is that of L, so the unknown is the change of the multipliers
        answer = _solved(system, -torch.cat([slope, met]))
        if not answer.isfinite().all() or _largest(answer[:size]) > 1e6 * (1 + _largest(x)):
            return began
        x, pushes = x + answer[:size], pushes + answer[size:]
        multipliers = _Multipliers(pushes[: len(h)], torch.zeros_like(g))
        multipliers.inequality[tight] = pushes[len(h) :]
        with torch.no_grad():
            _, g = problem.constraints(x)
        settled = _largest(answer[:size]) <= 1e-12 * (1 + _largest(x))
        changed = (tight & (multipliers.inequality >= 0)) | (g > 1e-12)
        if settled and bool((changed == tight).all()):
            break
        tight = changed
        multipliers = _Multipliers(multipliers.equality, multipliers.inequality.clamp(min=0))
    lowest = _lowest_bend(bend, jacobian)
    return (x, multipliers) if lowest >= -1e-7 * max(level, _largest(bend)) else began


def _solved(system: Tensor, wanted: Tensor) -> Tensor:
    """The shortest of the nearest solutions: constraints may say the same thing twice."""
    if not system.isfinite().all():
        return torch.full_like(wanted, torch.nan)
    return torch.linalg.lstsq(system, wanted[:, None], driver="gelsd").solution[:, 0]


def _lowest_bend(bend: Tensor, jacobian: Tensor) -> float:
    """The least second derivative of L along the tight constraints: negative at no minimum."""
    if len(jacobian):
        _, sizes, directions = torch.linalg.svd(jacobian)
        rank = int((sizes > 1e-9 * max(1.0, _largest(sizes))).sum())
        along = directions[rank:].T
    else:
        along = torch.eye(len(bend), dtype=bend.dtype)
    if not along.numel():
        return 0.0  # the constraints leave no way to go
    return float(torch.linalg.eigvalsh(along.T @ bend @ along)[0])


# --- derivatives ----------------------------------------------------------------------------------


def _slope(function: TensorFunction, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    # the square of x, times 0: so that there is a slope to ask for even where nothing depends on x
    (slope,) = torch.autograd.grad(function(x) + 0 * x.square().sum(), x)
    return slope


def _taylor(function: TensorFunction, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value, slope (D) and bend (D, D)."""
    x = x.detach().requires_grad_()
    value = function(x) + 0 * x.square().sum()
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    rows = [torch.autograd.grad(part, x, retain_graph=True)[0] for part in slope]
    bend = torch.stack(rows)
    return value.detach(), slope.detach(), (bend + bend.T) / 2


def _constraints_with_slopes(
    problem: _Problem, x: Tensor, tight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """h, g, and the slopes of h and of the tight g, a row each."""
    x = x.detach().requires_grad_()
    h, g = problem.constraints(x)
    met = torch.cat([h, g[tight]]) + 0 * x.sum()
    rows = [torch.autograd.grad(each, x, retain_graph=True)[0] for each in met]
    slopes = torch.stack(rows) if rows else x.new_zeros(0, len(x))
    return h.detach(), g.detach(), slopes.detach()


def _largest(values: Tensor) -> float:
    """The largest size; 0 of none."""
    return float(values.abs().max()) if values.numel() else 0.0


# --- what is wrong --------------------------------------------------------------------------------


def _checked_start(problem: _Problem, start: Tensor) -> Tensor:
    x = torch.as_tensor(start).detach().to(torch.float64).clone()
    if x.ndim != 1 or not len(x) or not x.isfinite().all():
        raise ValueError(
            f"got a start of shape {tuple(x.shape)}: {x.tolist()}; wanted a row of finite numbers."
        )
    with torch.no_grad():
        value = problem.objective(x)
        h, g = problem.constraints(x)
    if value.numel() != 1:
        raise ValueError(
            f"the objective gives {value.numel()} numbers; wanted the one that is to be small."
        )
    for what, values in (("objective", value), ("equality", h), ("inequality", g)):
        if not values.isfinite().all():
            raise ValueError(
                f"at the start, {what} gives {values.tolist()}; start where everything is finite."
            )
    return x


def _written(x: Tensor) -> str:
    return "(" + ", ".join(f"{part:.3g}" for part in x.tolist()) + ")"


def _endless(x: Tensor) -> str:
    return (
        f"the objective falls without end (from x = {_written(x)} on): no least value was found. "
        "Add the constraint that is missing, or start elsewhere."
    )


def _no_solution(problem: _Problem, x: Tensor, multipliers: _Multipliers, tolerance: float) -> str:
    with torch.no_grad():
        h, g = problem.constraints(x)
    misses = torch.cat([h.abs(), g.clamp(min=0)])
    if _largest(misses) > max(1e-6, tolerance):
        worst = int(misses.argmax())
        if worst < len(h):
            what = f"number {worst + 1} of `equal` is {float(h[worst]):.3g} and should be 0"
        else:
            over = float(g[worst - len(h)])
            what = f"number {worst - len(h) + 1} of `at_most` is {over:.3g} and should be 0 or less"
        return (
            f"found no point that keeps to the constraints: at the nearest one, {what}. "
            "If they do not contradict each other, start elsewhere."
        )
    largest = max(_largest(part) for part in multipliers)
    return (
        f"came near, but not within {tolerance:g}: the largest multiplier is {largest:.3g}.\n"
        f"{problem.conditions(x, multipliers).table(tolerance)}\n"
        "Where the slopes of constraints vanish there may be no multipliers; otherwise scale the "
        "functions to numbers near 1, or give a larger tolerance."
    )
