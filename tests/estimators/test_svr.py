"""Support vector regression: KKT conditions, SciPy's, scikit-learn's and slow solutions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from saccade.errors import ConfigError
from saccade.estimators.svm import smo
from saccade.estimators.svm.config import SVRConfig
from saccade.estimators.svm.svm import SVM_KERNELS
from saccade.estimators.svm.svr import SVR
from tests.estimators.test_svm import slow_kernel


def made(N, D, seed=0):
    """A curve with noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(N, D))
    return x, np.sin(2 * x[:, 0]) + x.sum(axis=1) / D + 0.3 * random.normal(size=N)


def config(kernel, **more):
    return SVRConfig(kernel=kernel, **{"gamma": 0.3, "offset": 0.7, "tolerance": 1e-6, **more})


@given(
    st.sampled_from(["gaussian", "linear", "polynomial"]),
    st.integers(1, 30),
    st.integers(1, 3),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.integers(0, 10_000),
)
def test_svr_solution_satisfies_kkt_conditions(kernel, N, D, cost, epsilon, seed):
    """Primal and dual by slow loops from the weights and b: nothing lies between them."""
    x, y = made(N, D, seed)
    machine = SVR(config(kernel, cost=cost, epsilon=epsilon)).fit(x, y)
    beta = np.zeros(N)
    beta[machine.support] = machine.weights[0]
    norm, values = 0.0, np.full(N, machine.biases[0])
    for s in range(N):
        for t in range(N):
            product = slow_kernel(kernel, x[s], x[t])
            norm += beta[s] * beta[t] * product
            values[t] += beta[s] * product
    errors = y - values
    primal = norm / 2 + cost * sum(max(0.0, abs(error) - epsilon) for error in errors)
    dual = beta @ y - epsilon * np.abs(beta).sum() - norm / 2
    [fit] = machine.fits
    scale = 1 + cost * N
    assert (fit.primal, fit.dual) == pytest.approx((primal, dual), rel=1e-7, abs=1e-7 * scale)
    assert -1e-9 * scale <= primal - dual <= 1e-5 * scale
    assert np.abs(beta).max(initial=0) <= cost and abs(beta.sum()) < 1e-9 * scale
    # within ε no weight; a weight below C: on the edge, on the side of its sign; C: beyond it
    assert (np.abs(errors[beta == 0]) < epsilon + 1e-5).all()
    free = (beta != 0) & (np.abs(beta) < cost)
    np.testing.assert_allclose(errors[free] * np.sign(beta[free]), epsilon, atol=1e-5)
    assert (errors * np.sign(beta))[np.abs(beta) == cost].min(initial=np.inf) > epsilon - 1e-5
    assert fit.conditions.are_satisfied(1e-5)
    np.testing.assert_allclose(machine.predict(x), values, atol=1e-7 * scale)
    np.testing.assert_allclose(
        machine.losses(x, y), np.maximum(np.abs(errors) - epsilon, 0), atol=1e-7 * scale
    )


@settings(max_examples=8)
@given(st.integers(2, 9), st.integers(0, 10_000), st.sampled_from([0.3, 5.0]))
def test_svr_dual_is_scipys(N, seed, cost):
    x, y = made(N, 2, seed)
    machine = SVR(config("gaussian", cost=cost, gamma=1.0, epsilon=0.1)).fit(x, y)
    K = np.exp(-((x[:, None] - x) ** 2).sum(axis=-1))
    signs = np.repeat([1.0, -1.0], N)
    Q, p = np.outer(signs, signs) * np.tile(K, (2, 2)), np.concatenate([0.1 - y, 0.1 + y])
    theirs = minimize(
        lambda a: a @ Q @ a / 2 + p @ a,
        np.zeros(2 * N),
        jac=lambda a: Q @ a + p,
        bounds=[(0, cost)] * (2 * N),
        constraints={"type": "eq", "fun": lambda a: signs @ a, "jac": lambda a: signs},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    beta = np.zeros(N)
    beta[machine.support] = machine.weights[0]
    assert machine.fits[0].dual == pytest.approx(-theirs.fun, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(beta, theirs.x[:N] - theirs.x[N:], atol=1e-3 * cost)


def test_the_epsilon_insensitive_loss_by_gradient_comes_to_the_same():
    x, y = made(60, 2, seed=1)
    machine = SVR(config("linear", cost=0.5)).fit(x, y)
    w, b = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    points, targets = torch.tensor(x).float(), torch.tensor(y).float()
    optimizer = torch.optim.Adam([w, b], lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    minimum = torch.inf
    for _ in range(800):
        error = (targets - points @ w - b).abs()
        value = 0.5 * (error - 0.1).clamp(min=0).sum() + w.square().sum() / 2
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
        minimum = min(minimum, value.item())
    [fit] = machine.fits
    assert 0 <= minimum - fit.dual + 1e-4 < 1e-3 * minimum and fit.gap < 1e-5
    found = (machine.weights @ machine.vectors)[0]
    np.testing.assert_allclose(found, w.detach().numpy(), atol=0.02)


@pytest.mark.parametrize("kernel", SVM_KERNELS)
@pytest.mark.parametrize(("cost", "epsilon"), [(0.1, 0.5), (1.0, 0.1), (10.0, 0.0)])
@pytest.mark.parametrize("name", ["diabetes", "made"])
def test_svr_agrees_with_scikit_learn(name, cost, epsilon, kernel):
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    theirs_svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is not installed")
    if kernel == "sigmoid" and cost == 10.0:
        pytest.skip("tanh is not positive semi-definite: the dual has several solutions")
    x, y = made(200, 4, 3) if name == "made" else datasets.load_diabetes(return_X_y=True)
    x, y = (x[:250] - x.mean(axis=0)) / x.std(axis=0), (y[:250] - y.mean()) / y.std()
    gamma, offset = (0.01, 0.0) if kernel == "sigmoid" else (1 / x.shape[1], 0.5)
    how = {"cost": cost, "gamma": gamma, "offset": offset, "epsilon": epsilon}
    ours = SVR(SVRConfig(kernel=kernel, tolerance=1e-6, **how)).fit(x, y)
    kind = {"polynomial": "poly", "gaussian": "rbf"}.get(kernel, kernel)
    theirs = theirs_svm.SVR(
        kernel=kind, C=cost, gamma=gamma, coef0=offset, epsilon=epsilon, tol=1e-6
    ).fit(x, y)
    near = 1e-4 * max(1.0, cost)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x), atol=near)
    if epsilon > 0:  # else all rows may be on the edge, and b is an interval
        np.testing.assert_allclose(ours.biases, theirs.intercept_, atol=near)
    # the dual of libsvm's solution, from its own coefficients
    beta = np.zeros(len(x))
    beta[theirs.support_] = theirs.dual_coef_[0]
    f = theirs.predict(x) - theirs.intercept_
    dual = beta @ y - epsilon * np.abs(beta).sum() - beta @ f / 2
    assert ours.fits[0].dual == pytest.approx(dual, rel=1e-6)
    if kernel in ("polynomial", "gaussian"):
        mine = np.zeros(len(x))
        mine[ours.support] = ours.weights[0]
        np.testing.assert_allclose(mine, beta, atol=1e-2 * cost)


def test_svr_row_weights_multiply_the_cost():
    x, y = made(40, 2, seed=5)
    times = np.random.default_rng(1).integers(0, 4, 40)
    weighted = SVR(config("gaussian")).fit(x, y, weights=times)
    repeated = SVR(config("gaussian")).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), atol=1e-4)
    assert not np.isin(np.flatnonzero(times == 0), weighted.support).any()
    assert weighted.fits[0].conditions.are_satisfied(1e-5)


def test_svr_small_cache_gives_same_solution(monkeypatch):
    x, y = made(200, 3, seed=2)
    whole = SVR(config("gaussian", cost=0.1)).fit(x, y)
    monkeypatch.setattr(smo, "MAX_PRECOMPUTED_ROWS", 0)
    small = SVR(config("gaussian", cost=0.1, cache_megabytes=0.01)).fit(x, y)
    np.testing.assert_allclose(small.predict(x), whole.predict(x), atol=1e-9)
    assert small.fits[0].steps == whole.fits[0].steps


def test_kernel_row_cache_holds_a_row_of_both_copies_once():
    computed = []

    def row(numbers):
        computed.extend(numbers.tolist())
        return numbers[:, None] * 100.0 + np.arange(1500)

    rows = smo.KernelRowCache(row, 1500, 8 * 3000 * 2 / 2**20, copies=2)
    assert rows.table.shape == (2, 3000)
    rows.fetch(1507)
    assert computed == [7] and rows.slot[7] == rows.slot[1507] >= 0
    np.testing.assert_array_equal(rows.table[rows.slot[7]], np.tile(700.0 + np.arange(1500), 2))
    rows.last_used[rows.slot[7]] = 1
    rows.fetch(8)
    rows.last_used[rows.slot[8]] = 2
    rows.fetch(9)  # in place of 7, which was used before 8
    assert np.flatnonzero(rows.slot >= 0).tolist() == [8, 9, 1508, 1509]


def test_svr_of_targets_within_epsilon_is_a_constant_and_reloads():
    x, y = made(12, 2)
    flat = SVR(SVRConfig(epsilon=10.0)).fit(x, y)
    assert len(flat.support) == 0
    np.testing.assert_array_equal(flat.predict(x), np.full(12, flat.biases[0]))
    assert (np.abs(y - flat.biases[0]) <= 10).all()
    curved = SVR(SVRConfig()).fit(x, y)
    for machine in (flat, curved):
        again = SVR.from_arrays(machine.config, machine.to_arrays())
        np.testing.assert_array_equal(again.predict(x), machine.predict(x))


def test_svr_refuses_invalid_input():
    x, y = made(20, 2)
    with pytest.raises(ValueError, match="this SVR is not fitted; call fit"):
        SVR().predict(x)
    with pytest.raises(ValueError, match="expected a row with weight, and finite targets"):
        SVR().fit(x, np.where(y > 0, np.nan, y))
    with pytest.raises(ValueError, match="20 rows, 0 of them with weight"):
        SVR().fit(x, y, weights=np.zeros(20))
    with pytest.raises(ValueError, match=r"20 rows and labels of shape \(19,\)"):
        SVR().fit(x, y[1:])
    arrays = SVR().fit(x, y).to_arrays()
    with pytest.raises(ValueError, match=r"got biases of shape \(2,\), float64; expected numbers"):
        SVR.from_arrays(SVRConfig(), {**arrays, "biases": np.zeros(2)})
    with pytest.raises(ConfigError, match="epsilon"):
        SVRConfig().with_values(epsilon=-1)
