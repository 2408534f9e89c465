"""Constrained minima: known ones, scipy's, and random convex programs with their certificates."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, NonlinearConstraint, minimize

from saccade.optim import minimise

PAGE = Path(__file__).parents[2] / "docs" / "constrained.md"


def squares(x):
    return x.square().sum()


# --- known in closed form -------------------------------------------------------------------------


def test_minimise_projects_onto_a_line():
    # x = b a / ‖a‖², λ = -2b / ‖a‖²
    a = torch.tensor([3.0, -1.0, 2.0], dtype=torch.float64)
    found = minimise(squares, torch.ones(3), equality=lambda x: a @ x - 7)
    torch.testing.assert_close(found.x, 7 * a / (a @ a), rtol=0, atol=1e-12)
    torch.testing.assert_close(found.equality, -14 / (a @ a).reshape(1), rtol=0, atol=1e-12)
    assert found.value == pytest.approx(49 / 14, abs=1e-12)
    assert found.conditions.are_satisfied(1e-10)


def test_minimise_escapes_a_saddle_point_on_a_circle():
    # xy on a circle: at the start the gradient is 0, and Newton alone would stay there
    found = minimise(lambda x: x[0] * x[1], torch.zeros(2), equality=lambda x: squares(x) - 2)
    assert found.value == pytest.approx(-1, abs=1e-9)
    assert float(found.equality) == pytest.approx(0.5, abs=1e-8)


def test_minimise_finds_the_maximum_entropy_distribution():
    # maximise -Σ p log p where Σ p = 1 and Σ k p_k = m: p_k ∝ exp(-λk)
    k = torch.arange(1, 5, dtype=torch.float64)
    found = minimise(
        lambda p: (p * p.clamp(min=1e-12).log()).sum(),
        torch.full((4,), 0.25),
        equality=lambda p: torch.stack([p.sum() - 1, k @ p - 1.9]),
        inequality=lambda p: -p,
    )
    logs = found.x.log()
    torch.testing.assert_close(logs.diff(), logs.diff()[:1].expand(3), rtol=0, atol=1e-7)
    assert float(found.x @ k) == pytest.approx(1.9, abs=1e-9)
    assert found.inequality.abs().max() < 1e-8  # no share is 0, so no bound is active


def test_minimise_projects_onto_a_box():
    target = torch.tensor([2.0, 0.5, -3.0], dtype=torch.float64)
    found = minimise(
        lambda x: squares(x - target),
        torch.zeros(3),
        inequality=lambda x: torch.cat([x - 1, -1 - x]),
    )
    torch.testing.assert_close(found.x, target.clamp(-1, 1), rtol=0, atol=1e-10)
    multipliers = [2.0, 0, 0, 0, 0, 4.0]  # 2 (target - x), above and below
    np.testing.assert_allclose(found.inequality.numpy(), multipliers, atol=1e-8)


def test_minimise_handles_redundant_constraints():
    found = minimise(
        squares,
        torch.tensor([5.0, -3.0]),
        equality=lambda x: torch.stack([x.sum() - 2, 2 * x.sum() - 4]),
        inequality=lambda x: torch.stack([x[0] - 1, x[0] - 1]),
    )
    torch.testing.assert_close(found.x.tolist(), [1.0, 1.0], rtol=0, atol=1e-8)
    # only λ₁ + 2λ₂ is known
    assert float(found.equality @ torch.tensor([1.0, 2.0]).double()) == pytest.approx(-2, abs=1e-7)


def test_multipliers_are_sensitivities_of_the_minimum():
    def minimum(c, d):
        return minimise(
            lambda x: (x[0] - 3) ** 2 + x.prod().exp() + x[1] ** 2,
            torch.zeros(2),
            equality=lambda x: x[0] ** 2 + x[1] - 1 - c,
            inequality=lambda x: x[0] - 0.8 - d,
        )

    found, small = minimum(0, 0), 1e-4
    for price, c, d in ((found.equality, small, 0), (found.inequality, 0, small)):
        slope = (minimum(c, d).value - minimum(-c, -d).value) / (2 * small)
        assert abs(float(price)) > 0.1
        assert slope == pytest.approx(-float(price), rel=1e-5)


def test_minimise_without_constraints():
    found = minimise(lambda x: (x - 2).cosh().sum(), torch.tensor([-1.0, 4.0]))
    torch.testing.assert_close(found.x.tolist(), [2.0, 2.0], rtol=0, atol=1e-8)
    assert found.equality.numel() == found.inequality.numel() == 0


# --- held against scipy ---------------------------------------------------------------------------

ROSENBROCK = (
    lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2,
    [-1.2, 1.0],
    None,
    lambda x: [x[0] ** 2 + x[1] ** 2 - 1.5, x[0] + x[1] - 1.2],
)
HOCK_SCHITTKOWSKI_71 = (
    lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
    [1.0, 5.0, 5.0, 1.0],
    lambda x: [x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + x[3] ** 2 - 40],
    lambda x: [
        25 - x[0] * x[1] * x[2] * x[3],
        *(1 - x[d] for d in range(4)),
        *(x[d] - 5 for d in range(4)),
    ],
)
HOCK_SCHITTKOWSKI_43 = (
    lambda x: (
        x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * (x[0] + x[1]) - 21 * x[2] + 7 * x[3]
    ),
    [0.0, 0.0, 0.0, 0.0],
    None,
    lambda x: [
        x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + x[3] ** 2 + x[0] - x[1] + x[2] - x[3] - 8,
        x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2 + 2 * x[3] ** 2 - x[0] - x[3] - 10,
        2 * x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + 2 * x[0] - x[1] - x[3] - 5,
    ],
)
PROBLEMS = {"rosenbrock": ROSENBROCK, "71": HOCK_SCHITTKOWSKI_71, "43": HOCK_SCHITTKOWSKI_43}


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")  # of trust-constr, at its end
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_minimise_equals_scipy(name, method):
    objective, start, equality, inequality = PROBLEMS[name]
    found = minimise(
        objective,
        torch.tensor(start),
        equality=equality and (lambda x: torch.stack(equality(x))),
        inequality=lambda x: torch.stack(inequality(x)),
    )
    limits = [NonlinearConstraint(inequality, -np.inf, 0)]
    if equality:
        limits.append(NonlinearConstraint(equality, 0, 0))
    options = {"ftol": 1e-12} if method == "SLSQP" else {"gtol": 1e-9, "xtol": 1e-12}
    theirs = minimize(objective, start, method=method, constraints=limits, options=options)
    assert found.value == pytest.approx(theirs.fun, rel=1e-5)
    np.testing.assert_allclose(found.x.numpy(), theirs.x, atol=2e-3)
    assert found.conditions.are_satisfied(1e-6)


def test_minimise_finds_published_minima():
    for name, value in (("71", 17.0140173), ("43", -44.0)):  # Hock and Schittkowski 1981
        objective, start, equality, inequality = PROBLEMS[name]
        found = minimise(
            objective,
            torch.tensor(start),
            equality=equality and (lambda x, equality=equality: torch.stack(equality(x))),
            inequality=lambda x, inequality=inequality: torch.stack(inequality(x)),
        )
        assert found.value == pytest.approx(value, abs=1e-7)


# --- random convex programs -----------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(0, 7),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_minimise_certifies_convex_quadratic_programs(D, equalities, inequalities, tight, seed):
    """½xᵀQx + cᵀx where Ax = b, Gx ≤ h, with one feasible point.

    x is the minimum if and only if λ and μ exist with Qx + c + Aᵀλ + Gᵀμ = 0, μ ≥ 0 and μ(Gx - h) =
    0. All is recomputed with NumPy.
    """
    random = np.random.default_rng(seed)
    equalities = min(equalities, D - 1)
    root = random.normal(size=(D, D))
    Q, c = root @ root.T + 0.1 * np.eye(D), 3 * random.normal(size=D)
    A, G = random.normal(size=(equalities, D)), random.normal(size=(inequalities, D))
    inside = random.normal(size=D)
    b, h = A @ inside, G @ inside + (0 if tight else random.exponential(0.5, inequalities))

    tensors = [torch.tensor(part) for part in (Q, c, A, b, G, h)]
    q, k, a, d, g, e = tensors
    found = minimise(
        lambda x: x @ q @ x / 2 + k @ x,
        torch.zeros(D),
        equality=lambda x: a @ x - d,
        inequality=lambda x: g @ x - e,
        tolerance=1e-7,
    )
    x, lambdas, mus = found.x.numpy(), found.equality.numpy(), found.inequality.numpy()
    scale = (
        1 + np.abs(Q @ x + c).max() + np.abs(mus).max(initial=0) + np.abs(lambdas).max(initial=0)
    )
    assert np.abs(A @ x - b).max(initial=0) < 1e-6
    assert (G @ x - h).max(initial=0) < 1e-6
    assert mus.min(initial=0) > -1e-6 * scale
    assert np.abs(mus * (G @ x - h)).max(initial=0) < 1e-5 * scale
    assert np.abs(Q @ x + c + A.T @ lambdas + G.T @ mus).max() < 1e-6 * scale
    limits = [LinearConstraint(A, b, b)] if equalities else []
    theirs = minimize(
        lambda x: x @ Q @ x / 2 + c @ x,
        np.zeros(D),
        jac=lambda x: Q @ x + c,
        method="SLSQP",
        constraints=[*limits, *([LinearConstraint(G, -np.inf, h)] if inequalities else [])],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    if theirs.success:  # with many tight constraints it may give up
        assert found.value == pytest.approx(theirs.fun, rel=1e-5, abs=1e-5)


# --- errors ------------ ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("equality", "inequality", "message"),
    [
        (
            lambda x: torch.stack([x[0] - 1, x[0] + 1]),
            None,
            "value . of `equality` is .*expected 0",
        ),
        (None, lambda x: torch.stack([x[0] + 1, 1 - x[0]]), "of `inequality` is 1.*0 or less"),
        (lambda x: squares(x) + 1, None, "`equality` is 1; expected 0.*another start"),
    ],
)
def test_minimise_reports_infeasible_constraints(equality, inequality, message):
    with pytest.raises(ValueError, match=message):
        minimise(squares, torch.tensor([0.3, 0.2]), equality=equality, inequality=inequality)


def test_minimise_reports_an_unbounded_objective():
    with pytest.raises(ValueError, match="unbounded below.*missing constraint"):
        minimise(lambda x: x[0], torch.zeros(2), inequality=lambda x: x)


def test_minimise_stays_feasible_where_the_objective_is_unbounded_outside():
    found = minimise(lambda x: x[0] ** 3 + x[0], torch.tensor([0.5]), inequality=lambda x: -1 - x)
    assert float(found.x) == pytest.approx(-1, abs=1e-9)
    assert float(found.inequality) == pytest.approx(4, abs=1e-7)


@pytest.mark.parametrize(
    ("start", "objective", "message"),
    [
        (torch.tensor([float("nan"), 0]), squares, "start of shape .*finite numbers"),
        (torch.zeros(2, 2), squares, r"start of shape \(2, 2\)"),
        (torch.zeros(2), lambda x: x.log().sum(), "objective = -inf at the start; expected finite"),
        (torch.zeros(2), lambda x: x, "with 2 values; expected one number"),
        (torch.zeros(1), lambda x: x.abs().sqrt().sum(), "derivative that is not finite"),
    ],
)
def test_minimise_refuses_invalid_starts_and_objectives(start, objective, message):
    with pytest.raises(ValueError, match=message):
        minimise(objective, start)


def test_minimise_shortens_steps_to_where_the_objective_is_nan():
    # -log x is not a number left of 0, where a full step would go
    found = minimise(lambda x: (x - x.log()).sum(), torch.tensor([9.0]))
    assert float(found.x) == pytest.approx(1, abs=1e-8)


def test_docs_page_prints_the_documented_output(capsys):
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```python\n(.*?)^```\n+```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert blocks
    for code, expected_output in blocks:
        exec(compile(code, str(PAGE), "exec"), {})
        assert capsys.readouterr().out == expected_output
