"""Support vector machines compared with scikit-learn's, where that is installed."""

from itertools import combinations

import numpy as np
import pytest

from saccade.estimators.svm.config import SVMConfig
from saccade.estimators.svm.svm import SVM, SVM_KERNELS

datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
sklearn_svm = pytest.importorskip("sklearn.svm", reason="scikit-learn is not installed")

SETS = ["iris", "breast_cancer", "digits", "made"]
# tanh(x · y) is no kernel in Mercer's sense (on breast_cancer its least eigenvalue is -2.1): where
# much may be paid for a mistake the dual has several solutions, and each finds one of its own
TRIED = [(k, c) for k in SVM_KERNELS for c in (0.1, 1.0, 10.0) if (k, c) != ("sigmoid", 10.0)]


@pytest.mark.parametrize(("kernel", "cost"), TRIED)
@pytest.mark.parametrize("name", SETS)
def test_svm_parity_agrees_with_scikit_learn(name, cost, kernel):
    if name == "made":
        random = np.random.default_rng(0)
        y = random.integers(4, size=150)
        x = random.normal(size=(150, 4)) + 1.5 * random.normal(size=(4, 4))[y]
    else:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        x, y = x[:400], y[:400]
    x = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    gamma, offset = (0.01, 0.0) if kernel == "sigmoid" else (1 / (x.shape[1] * x.var()), 0.5)
    how = {"kernel": kernel, "cost": cost, "gamma": gamma, "offset": offset, "tolerance": 1e-6}
    ours = SVM(SVMConfig.model_validate(how)).fit(x, y)
    kind = {"polynomial": "poly", "gaussian": "rbf"}.get(kernel, kernel)
    theirs = sklearn_svm.SVC(
        kernel=kind, C=cost, gamma=gamma, coef0=offset, tol=1e-6, decision_function_shape="ovo"
    ).fit(x, y)
    two = len(ours.classes) == 2
    sign = 1 if two else -1  # of several classes the earlier one of a pair is its positive one
    near = 1e-3 * max(1.0, cost)
    np.testing.assert_allclose(ours.biases, sign * theirs.intercept_, atol=near)
    np.testing.assert_allclose(
        ours.decision_function(x), sign * theirs.decision_function(x), atol=near
    )
    assert (ours.predict(x) == theirs.predict(x)).mean() > 0.995
    if kernel in ("polynomial", "gaussian"):  # else only the sum over vectors is one number
        found = np.zeros((len(ours.biases), len(x)))
        found[:, ours.support] = ours.weights
        _, same = np.unique(x, axis=0, return_inverse=True)  # of equal rows the sum is known
        table = sign * coefficients_of(theirs, y, len(x))
        for mine, other in zip(found, table, strict=True):
            np.testing.assert_allclose(
                np.bincount(same.ravel(), mine), np.bincount(same.ravel(), other), atol=near
            )


def coefficients_of(theirs, y, N):
    """(pairs, N): libsvm keeps those of a vector in as many rows as there are other classes."""
    pairs = list(combinations(range(len(theirs.classes_)), 2))
    table = np.zeros((len(pairs), N))
    for number, (first, second) in enumerate(pairs):
        for at, row in enumerate(theirs.support_):
            if y[row] == theirs.classes_[first]:
                table[number, row] = theirs.dual_coef_[second - 1, at]
            elif y[row] == theirs.classes_[second]:
                table[number, row] = theirs.dual_coef_[first, at]
    return table
