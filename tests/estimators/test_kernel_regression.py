"""Kernel regression: equal to its sum, to a softmax, to statsmodels; its width is the best one."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import ConfigError
from saccade.estimators import kernel_regression as kernels
from saccade.estimators.kernel_regression import (
    SMOOTHING_KERNELS,
    KernelRegression,
    leave_one_out_error,
    nadaraya_watson,
    pairwise_distances,
    select_bandwidth,
)


def curve(count, seed=0):
    """A noisy curve: y = 2 sin x + x^0.8 + ε."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 5, count))
    return x, 2 * np.sin(x) + x**0.8 + rng.normal(0, 0.5, count)


SLOW = {
    "gaussian": lambda u: math.exp(-u * u / 2),
    "boxcar": lambda u: 1.0 if abs(u) <= 1 else 0.0,
    "triangular": lambda u: 1 - abs(u) if abs(u) <= 1 else 0.0,
    "epanechnikov": lambda u: 1 - u * u if abs(u) <= 1 else 0.0,
}


@pytest.mark.parametrize("kernel", SMOOTHING_KERNELS)
@given(
    points=st.lists(st.tuples(st.floats(-3, 3), st.floats(-9, 9)), min_size=1, max_size=8),
    queries=st.lists(st.floats(-4, 4), min_size=1, max_size=4),
    bandwidth=st.floats(0.3, 3),
)
@settings(deadline=None, max_examples=25)
def test_equals_the_sum_written_out(kernel, points, queries, bandwidth):
    x, y = (np.array(side) for side in zip(*points, strict=True))
    found = KernelRegression(bandwidth, kernel).fit(x, y).predict(np.array(queries))
    for t, query in enumerate(queries):
        shares = [SLOW[kernel]((query - key) / bandwidth) for key in x]
        total = sum(shares)
        weights = [share / total if total else 0.0 for share in shares]
        np.testing.assert_allclose(found.weights[t], weights, rtol=1e-8, atol=1e-12)
        expected = sum(w * value for w, value in zip(weights, y, strict=True))
        assert found.values[t] == pytest.approx(expected, rel=1e-8, abs=1e-9)


def test_the_gaussian_kernel_is_a_softmax():
    x, y = curve(40)
    queries = np.linspace(-1, 6, 23)
    found = nadaraya_watson(queries, x, y, 0.35, "gaussian")
    scores = -((torch.from_numpy(queries)[:, None] - torch.from_numpy(x)) ** 2) / (2 * 0.35**2)
    weights = scores.softmax(dim=-1)
    np.testing.assert_allclose(found.weights, weights.numpy(), rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(found.values, (weights @ torch.from_numpy(y)).numpy(), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # the peer's, about its own seeds
def test_equals_statsmodels():
    nonparametric = pytest.importorskip(
        "statsmodels.nonparametric.kernel_regression", reason="statsmodels is not installed"
    )
    x, y = curve(60)
    queries = np.linspace(0, 5, 31)
    peer = nonparametric.KernelReg(y, x, var_type="c", reg_type="lc", bw=np.array([0.3]))
    ours = KernelRegression(0.3).fit(x, y)
    np.testing.assert_allclose(ours.predict(queries).values, peer.fit(queries)[0], rtol=1e-9)
    expected = peer.cv_loo(np.array([0.3]), peer.est["lc"])
    assert leave_one_out_error(x, y, 0.3) == pytest.approx(float(np.squeeze(expected)), rel=1e-9)
    chosen = nonparametric.KernelReg(y, x, var_type="c", reg_type="lc", bw="cv_ls").bw[0]
    assert select_bandwidth(x, y) == pytest.approx(chosen, rel=1e-3)


@pytest.mark.parametrize("kernel", SMOOTHING_KERNELS)
def test_kernels_integrate_to_one_and_are_even_and_fall(kernel):
    u = np.linspace(-9, 9, 180_001)
    values = SMOOTHING_KERNELS[kernel](u)
    assert np.trapezoid(values, u) == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(values, values[::-1])
    assert (np.diff(values[u >= 0]) <= 0).all() and values.min() >= 0


@pytest.mark.parametrize("kernel", SMOOTHING_KERNELS)
def test_leaving_one_out_is_fitting_without_it(kernel, monkeypatch):
    x, y = curve(30)
    errors = []
    for i in range(30):
        rest = np.arange(30) != i
        model = KernelRegression(1.1, kernel).fit(x[rest], y[rest])
        errors.append((y[i] - model.predict(x[i : i + 1]).values[0]) ** 2)
    assert leave_one_out_error(x, y, 1.1, kernel) == pytest.approx(np.mean(errors))
    monkeypatch.setattr(kernels, "KERNEL_WEIGHTS_CHUNK", 70)  # in blocks of two rows
    assert leave_one_out_error(x, y, 1.1, kernel) == pytest.approx(np.mean(errors))


@pytest.mark.parametrize("kernel", SMOOTHING_KERNELS)
def test_the_learned_width_is_the_best_of_many(kernel):
    x, y = curve(80)
    bandwidth = KernelRegression(kernel=kernel).fit(x, y).bandwidth
    minimum = leave_one_out_error(x, y, bandwidth, kernel)
    tried = [leave_one_out_error(x, y, h, kernel) for h in np.geomspace(0.01, 10, 200).tolist()]
    # the boxcar's error is stairs, on which the best step may be narrower than the search sees
    assert minimum <= min(tried) * (1.01 if kernel == "boxcar" else 1 + 1e-9)
    assert bandwidth == KernelRegression(kernel=kernel).fit(x, y).bandwidth


def test_at_the_learned_width_the_error_does_not_slope():
    x, y = curve(80)
    h = select_bandwidth(x, y)
    up, down = (leave_one_out_error(x, y, h * math.exp(step)) for step in (1e-3, -1e-3))
    assert abs(up - down) / 2e-3 < 1e-3 * leave_one_out_error(x, y, h)


def test_the_learned_width_goes_with_the_scale_of_the_inputs():
    x, y = curve(50)
    assert select_bandwidth(x * 1000 + 3, y) == pytest.approx(
        1000 * select_bandwidth(x, y), rel=1e-4
    )
    assert select_bandwidth(x, y * 7) == pytest.approx(select_bandwidth(x, y), rel=1e-4)


def test_learning_beats_the_plain_mean_and_a_narrow_width():
    x, y = curve(50)
    truth = np.linspace(0.2, 4.8, 50)
    expected = 2 * np.sin(truth) + truth**0.8

    def error(model):
        return np.mean((model.fit(x, y).predict(truth).values - expected) ** 2)

    learned = error(KernelRegression())
    assert learned < error(KernelRegression(0.02)) and learned < error(KernelRegression(100.0)) / 5


def test_kernel_regression_far_query_takes_nearest_key():
    model = KernelRegression(0.01).fit(np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0, 7.0]))
    found = model.predict(np.array([1e6, -1e6]))
    np.testing.assert_array_equal(found.values, [7.0, 5.0])
    np.testing.assert_array_equal(found.weights.sum(axis=1), 1)


def test_kernel_regression_without_key_in_support_is_zero():
    model = KernelRegression(0.5, "boxcar").fit(np.array([0.0, 1.0]), np.array([5.0, 6.0]))
    found = model.predict(np.array([9.0, 0.0]))
    np.testing.assert_array_equal(found.weights, [[0, 0], [1, 0]])
    np.testing.assert_array_equal(found.values, [0, 5])
    assert leave_one_out_error(np.array([0.0, 1.0]), np.array([5.0, 6.0]), 0.5, "boxcar") == np.inf


def test_points_of_several_coordinates():
    rng = np.random.default_rng(0)
    keys, queries, y = rng.normal(size=(9, 3)), rng.normal(size=(4, 3)), rng.normal(size=9)
    expected = np.linalg.norm(queries[:, None] - keys, axis=-1)
    np.testing.assert_allclose(pairwise_distances(queries, keys), expected)
    shares = np.exp(-((expected / 0.8) ** 2) / 2)
    found = KernelRegression(0.8).fit(keys, y).predict(queries).values
    np.testing.assert_allclose(found, shares @ y / shares.sum(axis=1))


def test_kernel_regression_refuses_invalid_input():
    x = np.array([0.0, 1.0])
    with pytest.raises(ConfigError, match="no kernel 'gausian'. Did you mean 'gaussian'"):
        KernelRegression(1.0, "gausian")
    with pytest.raises(ValueError, match="bandwidth of 0.*over 0, or None"):
        KernelRegression(0.0)
    with pytest.raises(ValueError, match="not fitted; call fit"):
        KernelRegression(1.0).predict(x)
    with pytest.raises(ValueError, match=r"2 inputs and targets of shape \(3,\)"):
        KernelRegression(1.0).fit(x, np.ones(3))
    with pytest.raises(ValueError, match="finite numbers"):
        KernelRegression(1.0).fit(np.array([0.0, np.nan]), x)
    with pytest.raises(ValueError, match="2 coordinates and keys with 1"):
        KernelRegression(1.0).fit(x, x).predict(np.ones((1, 2)))
    with pytest.raises(ValueError, match="all equal.*setting the bandwidth"):
        KernelRegression().fit(np.ones(3), np.arange(3.0))
