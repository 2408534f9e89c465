"""Support vector machines: KKT conditions, SciPy's and libsvm's solutions, invariants."""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import saccade.estimators.svm.svm as module
from saccade.errors import ConfigError, TrainingError
from saccade.estimators.svm import smo
from saccade.estimators.svm.config import SVMConfig
from saccade.estimators.svm.svm import SVM, SVM_KERNELS, KernelParams, KernelPoints
from saccade.nn.losses import hinge_loss, weight_penalty
from saccade.optim import minimise

SHAPE = KernelParams(gamma=0.3, degree=3, offset=0.7)


def made(N, D, classes=2, seed=0):
    """Blobs that overlap, with a row of each class at least."""
    random = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), random.integers(classes, size=N - classes)])
    return random.normal(size=(N, D)) + 1.5 * random.normal(size=(classes, D))[y], y


def slow_kernel(name, x, z):
    """From the equations, one pair at a time."""
    dot = sum(a * b for a, b in zip(x, z, strict=True))
    difference = sum((a - b) ** 2 for a, b in zip(x, z, strict=True))
    return {
        "linear": dot,
        "polynomial": (0.3 * dot + 0.7) ** 3,
        "gaussian": np.exp(-0.3 * difference),
        "sigmoid": np.tanh(0.3 * dot + 0.7),
    }[name]


@pytest.mark.parametrize("name", SVM_KERNELS)
def test_kernels_are_their_equations(name):
    x, z = np.random.default_rng(0).normal(size=(2, 6, 3))
    expected_value = [[slow_kernel(name, a, b) for b in z] for a in x]
    keys = KernelPoints(z, name, SHAPE)
    np.testing.assert_allclose(keys.kernel_with(x), expected_value, rtol=1e-10)
    np.testing.assert_allclose(keys.rows(np.array([4, 1])), keys.kernel_with(z)[[4, 1]])
    np.testing.assert_allclose(keys.diagonal(), np.diag(keys.kernel_with(z)))


# --- the proof ------------------------------------------------------------------------------------


def config(kernel, **more):
    return SVMConfig(kernel=kernel, **{"gamma": 0.3, "offset": 0.7, "tolerance": 1e-6, **more})


@given(
    st.sampled_from(sorted(set(SVM_KERNELS) - {"sigmoid"})),
    st.integers(3, 40),
    st.integers(1, 4),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.integers(0, 10_000),
)
def test_svm_solution_satisfies_kkt_conditions(kernel, N, D, cost, seed):
    """Primal and dual, computed anew from α and b: nothing lies between them.

    No α has a dual above the least primal, so that a gap of 0 proves both to be the best there are.
    """
    x, y = made(N, D, seed=seed)
    machine = SVM(config(kernel, cost=cost)).fit(x, y)
    table = np.array([[slow_kernel(kernel, a, b) for b in x] for a in x])
    signed = np.zeros(N)
    signed[machine.support] = machine.weights[0]
    alpha, signs = np.abs(signed), 2.0 * y - 1
    assert ((signed == 0) | (np.sign(signed) == signs)).all()
    assert alpha.max() <= cost and abs(signed.sum()) < 1e-9 * max(1, alpha.sum())
    margins = signs * (table @ signed + machine.biases[0])
    norm = signed @ table @ signed
    primal = norm / 2 + cost * np.maximum(0, 1 - margins).sum()
    dual = alpha.sum() - norm / 2
    [fit] = machine.fits
    assert (fit.primal, fit.dual) == pytest.approx((primal, dual), rel=1e-7, abs=1e-9)
    assert -1e-9 * (1 + primal) <= primal - dual <= 1e-5 * (1 + cost * N)
    # beyond the margin α is 0, inside it is C, else on it
    assert (margins[alpha == 0] > 1 - 1e-5).all() and (margins[alpha == cost] < 1 + 1e-5).all()
    free = (alpha > 0) & (alpha < cost)
    np.testing.assert_allclose(margins[free], 1, atol=1e-5)
    assert fit.conditions.are_satisfied(1e-5)
    np.testing.assert_allclose(machine.decision_function(x), signs * margins, atol=1e-8)


@settings(max_examples=10)
@given(st.integers(3, 14), st.integers(0, 10_000), st.sampled_from([0.3, 5.0]))
def test_the_dual_is_scipys_and_that_of_any_constrained_problem(N, seed, cost):
    x, y = made(N, 2, seed=seed)
    signs = 2.0 * y - 1
    machine = SVM(config("gaussian", cost=cost, gamma=1.0)).fit(x, y)
    Q = np.exp(-((x[:, None] - x) ** 2).sum(axis=-1)) * np.outer(signs, signs)
    alpha = np.zeros(N)
    alpha[machine.support] = np.abs(machine.weights[0])
    theirs = minimize(
        lambda a: a @ Q @ a / 2 - a.sum(),
        np.zeros(N),
        jac=lambda a: Q @ a - 1,
        bounds=[(0, cost)] * N,
        constraints={"type": "eq", "fun": lambda a: signs @ a, "jac": lambda a: signs},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert machine.fits[0].dual == pytest.approx(-theirs.fun, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(alpha, theirs.x, atol=1e-3 * cost)
    q, s = torch.tensor(Q), torch.tensor(signs)
    ours = minimise(
        lambda a: a @ q @ a / 2 - a.sum(),
        torch.zeros(N),
        equality=lambda a: s @ a,
        inequality=lambda a: torch.cat([-a, a - cost]),
        tolerance=1e-7,
    )
    assert machine.fits[0].dual == pytest.approx(-ours.value, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(alpha, ours.x.numpy(), atol=1e-4 * cost)
    if ((alpha > 1e-4 * cost) & (alpha < (1 - 1e-4) * cost)).any():  # else b is not one number
        assert float(ours.equality) == pytest.approx(machine.biases[0], abs=1e-4)


def test_the_hinge_loss_by_gradient_comes_to_the_same():
    x, y = made(60, 2, seed=1)
    machine = SVM(config("linear", cost=0.5)).fit(x, y)
    w, b = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    points, signs = torch.tensor(x, dtype=torch.float32), torch.tensor(2.0 * y - 1).float()
    optimizer = torch.optim.Adam([w, b], lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)
    minimum = torch.inf
    for _ in range(1500):
        value = 0.5 * hinge_loss(signs * (points @ w + b), reduction="sum") + weight_penalty(
            [w], 1.0
        )
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
        minimum = min(minimum, value.item())
    [fit] = machine.fits
    assert 0 <= minimum - fit.dual + 1e-4 < 1e-3 * minimum
    assert fit.gap < 1e-5
    np.testing.assert_allclose(
        (machine.weights @ machine.vectors)[0], w.detach().numpy(), atol=0.02
    )


# --- libsvm's solutions ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def iris():
    """Fisher's irises; in scipy's copy two rows have the misprints of the UCI archive."""
    path = Path(scipy.__file__).parent / "spatial/tests/data/iris.txt"
    if not path.exists():
        pytest.skip("this scipy came without its test data")
    x = np.loadtxt(path)
    x[34], x[37] = [4.9, 3.1, 1.5, 0.2], [4.9, 3.6, 1.4, 0.1]
    return x, np.repeat([0, 1, 2], 50)


PUBLISHED = {
    # scikit-learn's SVC of setosa and versicolor, as printed in a public program that uses it
    "polynomial": (
        [[5.1, 3.3, 1.7, 0.5], [4.5, 2.3, 1.3, 0.3], [5.1, 2.5, 3.0, 1.1]],
        [-0.008885899026071108, -0.0005100630977269122, 0.009395962123798021],
        -1.1358388232934824,
    ),
}


@pytest.mark.parametrize("kernel", PUBLISHED)
def test_coefficients_that_scikit_learn_has_printed(kernel, iris):
    x, y = iris[0][:100], iris[1][:100]
    vectors, coefficients, bias = PUBLISHED[kernel]
    settings = SVMConfig(kernel=kernel, gamma=0.25, tolerance=1e-6)
    machine = SVM(settings).fit(x, y)
    found = {tuple(v): w for v, w in zip(machine.vectors.tolist(), machine.weights[0], strict=True)}
    for vector, coefficient in zip(vectors, coefficients, strict=True):
        assert found.pop(tuple(vector), 0.0) == pytest.approx(coefficient, abs=1e-3)
    assert all(abs(rest) < 1e-3 for rest in found.values())
    assert machine.biases[0] == pytest.approx(bias, abs=1e-3)


@pytest.mark.parametrize(
    ("kernel", "vectors", "of_each", "wrong"),
    [("gaussian", 51, [8, 22, 21], 4), ("linear", 29, [2, 15, 12], 5), ("polynomial", 54, None, 7)],
)
def test_support_vectors_that_e1071_counts(kernel, vectors, of_each, wrong, iris):
    # svm(Species ~ ., iris) of R's e1071, which is libsvm on scaled columns
    x, y = iris
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    machine = SVM(SVMConfig(kernel=kernel, gamma=0.25)).fit(x, y)
    assert len(machine.support) == vectors
    if of_each:
        assert np.bincount(y[machine.support]).tolist() == of_each
    assert (machine.predict(x) != y).sum() == wrong


# --- invariants -----------------------------------------------------------------------------------


def test_svm_small_cache_gives_same_solution(monkeypatch):
    x, y = made(300, 3, seed=2)
    monkeypatch.setattr(smo, "MAX_PRECOMPUTED_ROWS", 0)
    whole, small = (
        SVM(config("gaussian", cache_megabytes=size)).fit(x, y) for size in (200, 0.001)
    )
    np.testing.assert_allclose(small.weights, whole.weights, atol=1e-9)
    assert small.fits[0].steps == whole.fits[0].steps


def test_kernel_row_cache_evicts_oldest_row():
    computed = []

    def row(numbers):
        computed.extend(numbers.tolist())
        return np.tile(numbers[:, None] * 1.0, (1, 1500))

    rows = smo.KernelRowCache(row, 1500, 8 * 1500 * 3 / 2**20)
    assert rows.table.shape == (3, 1500) and not computed
    for turn, number in enumerate([7, 8, 9, 10]):
        rows.fetch(number)
        rows.last_used[rows.slot[number]] = turn + 1
    assert rows.slot[7] == -1 and rows.table[rows.slot[8]][0] == 8
    assert sorted(rows.row_in_slot.tolist()) == [8, 9, 10] and computed == [7, 8, 9, 10]


@pytest.mark.parametrize("classes", [2, 4])
def test_the_order_of_rows_and_the_names_of_classes_do_not_matter(classes):
    x, y = made(80, 3, classes, seed=3)
    order = np.random.default_rng(0).permutation(80)
    names = np.array(["ant", "bee", "cat", "dog"])
    one, two = SVM(config("gaussian")).fit(x, y), SVM(config("gaussian"))
    two.fit(x[order], names[y][order])
    np.testing.assert_allclose(one.decision_function(x), two.decision_function(x), atol=1e-4)
    assert (two.predict(x) == names[one.predict(x)]).all()
    assert one.decision_function(x).shape == ((80,) if classes == 2 else (80, 6))


def test_each_pair_is_a_machine_of_its_own():
    x, y = made(90, 2, 3, seed=4)
    whole = SVM(config("gaussian")).fit(x, y)
    for number, pair in enumerate(combinations(range(3), 2)):
        rows = np.isin(y, pair)
        alone = SVM(config("gaussian")).fit(x[rows], y[rows])
        np.testing.assert_allclose(
            whole.decision_function(x)[:, number], alone.decision_function(x), atol=1e-6
        )
        assert whole.fits[number].classes == pair


def test_a_weight_is_a_row_that_many_times():
    x, y = made(50, 2, seed=5)
    times = np.random.default_rng(1).integers(0, 4, 50)
    times[:2] = 1
    weighted = SVM(config("gaussian")).fit(x, y, weights=times)
    repeated = SVM(config("gaussian")).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(
        weighted.decision_function(x), repeated.decision_function(x), atol=1e-4
    )
    assert not np.isin(np.flatnonzero(times == 0), weighted.support).any()
    assert weighted.fits[0].conditions.are_satisfied(1e-5)


def test_distances_are_exact_far_from_the_origin():
    x, y = made(60, 2, seed=6)
    near, far = (SVM(config("gaussian")).fit(x + move, y) for move in (0.0, 1e7))
    np.testing.assert_allclose(near.decision_function(x), far.decision_function(x + 1e7), atol=1e-4)


def test_svm_saved_arrays_decide_bit_exact(monkeypatch):
    x, y = made(70, 3, 3, seed=7)
    machine = SVM(SVMConfig()).fit(x, y)  # gamma left open
    assert machine.gamma == pytest.approx(1 / (3 * x.var()))
    again = SVM.from_arrays(machine.config, machine.to_arrays())
    np.testing.assert_array_equal(again.decision_function(x), machine.decision_function(x))
    np.testing.assert_array_equal(again.predict(x), machine.predict(x))
    monkeypatch.setattr(module, "SVM_KERNEL_CHUNK", 200)  # in pieces of a few rows
    np.testing.assert_allclose(again.decision_function(x), machine.decision_function(x), rtol=1e-12)


def test_svm_and_shift_load_no_torch():
    modules = "saccade.estimators.svm.svm, saccade.estimators.shift.detect"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_svm_refuses_invalid_input(monkeypatch):
    x, y = made(20, 2)
    with pytest.raises(ValueError, match="not fitted; call fit"):
        SVM().decision_function(x)
    with pytest.raises(ValueError, match="rows of 3 numbers; expected 2"):
        SVM().fit(x, y).decision_function(np.ones((1, 3)))
    with pytest.raises(ValueError, match="not finite; expected a table of finite numbers"):
        SVM().fit(np.where(x > 1, np.nan, x), y)
    with pytest.raises(ValueError, match=r"20 rows and labels of shape \(19,\)"):
        SVM().fit(x, y[1:])
    with pytest.raises(ValueError, match="1 classes.*two or more"):
        SVM().fit(x, np.zeros(20))
    with pytest.raises(ValueError, match="rows with weight in each"):
        SVM().fit(x, y, weights=1.0 - y)
    with pytest.raises(ValueError, match=r"weights of shape \(20,\).*0 or more"):
        SVM().fit(x, y, weights=-np.ones(20))
    with pytest.raises(ConfigError, match="cost"):
        SVMConfig().with_values(cost=0)
    monkeypatch.setattr(
        module, "solve_svm_dual", lambda *all: smo.SMOSolution(np.ones(20), y * 1.0, 9, False)
    )
    with pytest.raises(TrainingError, match="did not converge.*scaling the columns"):
        SVM().fit(x, y)
