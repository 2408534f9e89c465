r"""Nadaraya–Watson kernel regression: attention with a fixed kernel in place of learned scores.

    f(x) = Σ_i w_i(x) y_i,    w_i(x) = K((x − x_i) / h) / Σ_j K((x − x_j) / h)

Nadaraya 1964, Watson 1964. The query x attends to every key x_i, and f(x) is the weighted mean of
the values y_i. With the Gaussian kernel the weights are softmax(−(x − x_i)² / (2h²)).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.registry import lookup
from saccade.types.arrays import FloatArray, IntArray

BANDWIDTH_GRID_SIZE = 64
KERNEL_WEIGHTS_CHUNK = 1 << 21  # weights in memory at a time
_GOLDEN_RATIO = (5**0.5 - 1) / 2


# --- kernels: u is the distance in bandwidths; each kernel integrates to one --------------------


def gaussian_kernel(u: FloatArray) -> FloatArray:
    r"""K(u) = exp(−u² / 2) / √(2π)."""
    return np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)


def boxcar_kernel(u: FloatArray) -> FloatArray:
    r"""K(u) = ½ for |u| ≤ 1: the unweighted mean of the neighbours."""
    return np.where(np.abs(u) <= 1, 0.5, 0.0)


def triangular_kernel(u: FloatArray) -> FloatArray:
    r"""K(u) = 1 − |u| for |u| ≤ 1. Some textbooks call this one Epanechnikov's."""
    return np.maximum(1 - np.abs(u), 0.0)


def epanechnikov_kernel(u: FloatArray) -> FloatArray:
    r"""K(u) = ¾ (1 − u²) for |u| ≤ 1 (Epanechnikov 1969)."""
    return 0.75 * np.maximum(1 - u**2, 0.0)


SMOOTHING_KERNELS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "gaussian": gaussian_kernel,
    "boxcar": boxcar_kernel,
    "triangular": triangular_kernel,
    "epanechnikov": epanechnikov_kernel,
}


# --- the regression -----------------------------------------------------------------------------


class KernelEstimate(NamedTuple):
    """f at each of T queries, and the attention weights over the S keys."""

    values: FloatArray  # (T,)
    weights: FloatArray  # (T, S); rows sum to 1, or to 0 where no key is within the kernel


def nadaraya_watson(
    queries: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], bandwidth: float, kernel: str
) -> KernelEstimate:
    """Return the regression and its weights at each query.

    A query with no key within the support of the kernel (kernels other than the Gaussian) gets
    weights of zero and the value 0, like a fully masked query in attention.
    """
    weights = _weights(pairwise_distances(queries, keys) / bandwidth, kernel)
    return KernelEstimate(weights @ np.asarray(values, np.float64), weights)


def pairwise_distances(queries: NDArray[Any], keys: NDArray[Any]) -> FloatArray:
    """Return the Euclidean distance of each query to each key, (T, S); points are 1-D or rows."""
    left, right = _points(queries), _points(keys)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"got queries with {left.shape[1]} coordinates and keys with {right.shape[1]}; "
            "expected the same number in both."
        )
    if left.shape[1] == 1:
        return np.abs(left - right.T)
    # one coordinate after another, since T × S × D numbers may not fit in memory
    squares = sum((left[:, [d]] - right[:, d]) ** 2 for d in range(left.shape[1]))
    return np.sqrt(squares)


def _points(numbers: NDArray[Any]) -> FloatArray:
    points = np.asarray(numbers, np.float64)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or not np.isfinite(points).all():
        raise ValueError(
            f"got inputs of shape {np.shape(numbers)}; expected finite numbers of shape (points,) "
            "or (points, coordinates)."
        )
    return points


def _weights(u: FloatArray, kernel: str) -> FloatArray:
    """Return the normalised weight of each key for each query; u = ∞ masks a key."""
    if kernel == "gaussian":
        scores = -(u**2) / 2
        # far from every key exp underflows to 0 / 0, so the maximum is subtracted, as in softmax
        nearest = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(nearest), nearest, 0.0))
    else:
        weights = lookup(SMOOTHING_KERNELS, kernel, "kernel")(u)
    totals = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)


class KernelRegression:
    """Nadaraya–Watson regression with `fit` and `predict`.

    A bandwidth of None is chosen by leave-one-out cross-validation of the squared error.
    """

    def __init__(self, bandwidth: float | None = None, kernel: str = "gaussian"):
        lookup(SMOOTHING_KERNELS, kernel, "kernel")
        if bandwidth is not None and not 0 < bandwidth < np.inf:
            raise ValueError(
                f"got a bandwidth of {bandwidth}; expected a number over 0, or None for "
                "leave-one-out selection."
            )
        self.bandwidth, self.kernel = bandwidth, kernel
        self.keys: FloatArray | None = None
        self.values: FloatArray | None = None

    def fit(self, inputs: NDArray[Any], targets: NDArray[Any]) -> "KernelRegression":
        """Store the points, and select the bandwidth if it is None."""
        keys, values = _points(inputs), np.asarray(targets, np.float64)
        if values.shape != (len(keys),) or not len(keys) or not np.isfinite(values).all():
            raise ValueError(
                f"got {len(keys)} inputs and targets of shape {values.shape}; expected one finite "
                "target per input, at least one."
            )
        self.keys, self.values = keys, values
        if self.bandwidth is None:
            self.bandwidth = select_bandwidth(keys, values, self.kernel)
        return self

    def predict(self, queries: NDArray[Any]) -> KernelEstimate:
        """Return f at each query, with its weights."""
        if self.keys is None or self.values is None or self.bandwidth is None:
            raise ValueError("this regression is not fitted; call fit(inputs, targets) first.")
        return nadaraya_watson(queries, self.keys, self.values, self.bandwidth, self.kernel)


# --- bandwidth selection ------------------------------------------------------------------------


def leave_one_out_error(
    inputs: NDArray[Any], targets: NDArray[Any], bandwidth: float, kernel: str = "gaussian"
) -> float:
    r"""Return E(h) = 1/N Σ_i (y_i − f₋ᵢ(x_i))², f₋ᵢ being fitted without the point i.

    The training error would be smallest as h → 0, where each point predicts itself. Where a point
    has no other within the kernel, the error is infinite: the bandwidth is too small.
    """
    points, values = _points(inputs), np.asarray(targets, np.float64)
    total = 0.0
    for rows in _blocks(len(points)):
        u = pairwise_distances(points[rows], points) / bandwidth
        u[np.arange(len(rows)), rows] = np.inf  # leave the point itself out
        weights = _weights(u, kernel)
        if (weights.sum(axis=1) == 0).any():
            return np.inf
        total += float(((values[rows] - weights @ values) ** 2).sum())
    return total / len(points)


def _blocks(size: int) -> Iterator[IntArray]:
    step = max(KERNEL_WEIGHTS_CHUNK // size, 1)
    for start in range(0, size, step):
        yield np.arange(start, min(start + step, size))


def select_bandwidth(
    inputs: NDArray[Any], targets: NDArray[Any], kernel: str = "gaussian"
) -> float:
    r"""Return the h with the smallest leave-one-out error, searched along log h.

    First on a grid from half the smallest distance between two points to twice the largest, then
    by golden-section search around the best grid point: the error may have several local minima,
    and a local search alone would find only the nearest. The search is deterministic.
    """
    points, values = _points(inputs), np.asarray(targets, np.float64)
    smallest, largest = _bandwidth_bounds(points)

    def error(log_bandwidth: float) -> float:
        return leave_one_out_error(points, values, float(np.exp(log_bandwidth)), kernel)

    grid = np.linspace(np.log(smallest), np.log(largest), BANDWIDTH_GRID_SIZE)
    errors = [error(log_bandwidth) for log_bandwidth in grid.tolist()]
    best = int(np.argmin(errors))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, BANDWIDTH_GRID_SIZE - 1)]
    refined, min_error = _golden_section(error, float(low), float(high))
    return float(np.exp(refined if min_error <= errors[best] else grid[best]))


def _bandwidth_bounds(points: FloatArray) -> tuple[float, float]:
    """Return half the smallest non-zero distance of two points, and twice the largest."""
    smallest, largest = np.inf, 0.0
    for rows in _blocks(len(points)):
        distances = pairwise_distances(points[rows], points)
        smallest = float(distances.min(initial=smallest, where=distances > 0))
        largest = max(largest, float(distances.max()))
    if not largest:
        raise ValueError(
            f"got {len(points)} points, all equal; expected two different points or more to select "
            "a bandwidth; try setting the bandwidth."
        )
    return smallest / 2, largest * 2


def _golden_section(
    error: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """Return the minimum of a unimodal function on an interval, and its value (Kiefer 1953)."""
    left, right = high - _GOLDEN_RATIO * (high - low), low + _GOLDEN_RATIO * (high - low)
    at_left, at_right = error(left), error(right)
    while high - low > 1e-7:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN_RATIO * (high - low)
            at_left = error(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN_RATIO * (high - low)
            at_right = error(right)
    return (left, at_left) if at_left <= at_right else (right, at_right)
