"""Logistic regression: the least of its own objective, found by scipy as well."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from saccade.estimators.logistic_regression import fit_logistic


def made(K: int, seed: int = 0, N: int = 120, D: int = 3):
    random = np.random.default_rng(seed)
    x = random.normal(size=(N, D))
    truth = random.normal(size=(D, K)) * 2
    y = (x @ truth + random.gumbel(size=(N, K))).argmax(axis=1)
    return x, y, random.uniform(0, 2, N)


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_regression_agrees_with_scipy_minimum(K, weighted):
    x, y, v = made(K)
    v = v if weighted else np.ones(len(x))

    def objective(flat):
        W, b = flat[: 3 * K].reshape(K, 3), flat[3 * K :]
        logs = log_softmax(x @ W.T + b, axis=1)
        return -(v * logs[np.arange(len(x)), y]).sum() + 0.7 / 2 * (W**2).sum()

    theirs = minimize(objective, np.zeros(4 * K), method="L-BFGS-B", options={"ftol": 1e-14})
    found = fit_logistic(x, y, K, weights=v, penalty=0.7, tolerance=1e-8, max_steps=5000)
    flat = np.concatenate([found.weights.ravel(), found.biases])
    assert objective(flat) <= theirs.fun + 1e-8 * abs(theirs.fun)
    logs = log_softmax(x @ theirs.x[: 3 * K].reshape(K, 3).T + theirs.x[3 * K :], axis=1)
    np.testing.assert_allclose(found.predict_log_proba(x), logs, atol=1e-3)


def test_a_weight_is_a_row_that_many_times():
    x, y, _ = made(3)
    times = np.random.default_rng(1).integers(0, 3, len(x))
    weighted = fit_logistic(x, y, 3, weights=times, tolerance=1e-10, max_steps=5000)
    repeated = fit_logistic(np.repeat(x, times, axis=0), np.repeat(y, times), 3, tolerance=1e-10)
    np.testing.assert_allclose(
        weighted.predict_log_proba(x), repeated.predict_log_proba(x), atol=1e-6
    )


def test_classes_that_a_line_divides_stay_finite():
    x = np.linspace(-1, 1, 40)[:, None]
    found = fit_logistic(x, (x[:, 0] > 0).astype(int), 2)
    assert np.isfinite(found.weights).all()
    assert ((found.logits(x).argmax(axis=1) == 1) == (x[:, 0] > 0)).all()


def test_logistic_regression_refuses_invalid_input():
    with pytest.raises(ValueError, match=r"labels \(3,\).*one label and one weight per row"):
        fit_logistic(np.ones((4, 2)), np.zeros(3, int), 2)
    with pytest.raises(ValueError, match="expected finite numbers"):
        fit_logistic(np.full((4, 2), np.nan), np.zeros(4, int), 2)
