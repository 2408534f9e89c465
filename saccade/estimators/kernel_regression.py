r"""Nadaraya–Watson kernel regression: attention before it had the name.

    f(x) = Σ_i w_i(x) y_i,    w_i(x) = K((x − x_i) / h) / Σ_j K((x − x_j) / h)

Nadaraya 1964, Watson 1964. The query x looks at every key x_i and takes the weighted mean of the
values y_i. With the Gaussian kernel the weights are softmax(−(x − x_i)² / (2h²)).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.registry import lookup

FloatArray = NDArray[np.float64]

BANDWIDTH_GRID_SIZE = 64
KERNEL_WEIGHTS_CHUNK = 1 << 21  # weights that are in memory at a time
_GOLDEN = (5**0.5 - 1) / 2


# --- kernels: u is the distance in widths, each integrates to one over the line -----------------


def gaussian_kernel(u: FloatArray) -> FloatArray:
    r"""K(u) = exp(−u² / 2) / √(2π)."""
    return np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)


def boxcar_kernel(u: FloatArray) -> FloatArray:
    r"""K(u) = ½ for |u| ≤ 1: the plain mean of the neighbours."""
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
    """f at each of T queries, and how much each of S keys was looked at."""

    values: FloatArray  # (T,)
    weights: FloatArray  # (T, S); rows sum to 1, or to 0 where no key is in reach


def nadaraya_watson(
    queries: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], bandwidth: float, kernel: str
) -> KernelEstimate:
    """The regression at each query.

    A query with no key in reach, as the kernels other than the Gaussian allow, gets weights of
    zero and the value 0, as a query that may see nothing does in attention.
    """
    weights = _weights(pairwise_distances(queries, keys) / bandwidth, kernel)
    return KernelEstimate(weights @ np.asarray(values, np.float64), weights)


def pairwise_distances(queries: NDArray[Any], keys: NDArray[Any]) -> FloatArray:
    """(T, S): how far each query is from each key, both a row of numbers or a row of points."""
    left, right = _points(queries), _points(keys)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"got queries with {left.shape[1]} coordinates and keys with {right.shape[1]}; "
            "wanted as many in both."
        )
    if left.shape[1] == 1:
        return np.abs(left - right.T)
    # one coordinate after another: T × S × D numbers at once would be too many
    squares = sum((left[:, [d]] - right[:, d]) ** 2 for d in range(left.shape[1]))
    return np.sqrt(squares)


def _points(numbers: NDArray[Any]) -> FloatArray:
    points = np.asarray(numbers, np.float64)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or not np.isfinite(points).all():
        raise ValueError(
            f"got inputs of shape {np.shape(numbers)}; wanted one row of finite numbers or a "
            "table with a point in each row."
        )
    return points


def _weights(u: FloatArray, kernel: str) -> FloatArray:
    """Of each key for each query; `u` of infinity is a key that may not be seen."""
    if kernel == "gaussian":
        scores = -(u**2) / 2
        # far from every key exp underflows to 0 / 0; the nearest key is the measure, as in softmax
        nearest = scores.max(axis=1, keepdims=True)
        shares = np.exp(scores - np.where(np.isfinite(nearest), nearest, 0.0))
    else:
        shares = lookup(SMOOTHING_KERNELS, kernel, "kernel")(u)
    totals = shares.sum(axis=1, keepdims=True)
    return np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0)


class KernelRegression:
    """f(x) from the points it is fitted to.

    Left open, the width is learned: the one with the least squared error when each point is
    foretold from all the others.
    """

    def __init__(self, bandwidth: float | None = None, kernel: str = "gaussian"):
        lookup(SMOOTHING_KERNELS, kernel, "kernel")
        if bandwidth is not None and not 0 < bandwidth < np.inf:
            raise ValueError(
                f"got a width of {bandwidth}; wanted a number over 0, or None to learn it."
            )
        self.bandwidth, self.kernel = bandwidth, kernel
        self.keys: FloatArray | None = None
        self.values: FloatArray | None = None

    def fit(self, inputs: NDArray[Any], targets: NDArray[Any]) -> "KernelRegression":
        """Keep the points, and learn the width if it was left open."""
        keys, values = _points(inputs), np.asarray(targets, np.float64)
        if values.shape != (len(keys),) or not len(keys) or not np.isfinite(values).all():
            raise ValueError(
                f"got {len(keys)} inputs and targets of shape {values.shape}; wanted as many "
                "finite numbers as inputs, one at least."
            )
        self.keys, self.values = keys, values
        if self.bandwidth is None:
            self.bandwidth = select_bandwidth(keys, values, self.kernel)
        return self

    def predict(self, queries: NDArray[Any]) -> KernelEstimate:
        """f at each query, with the weights that made it."""
        if self.keys is None or self.values is None or self.bandwidth is None:
            raise ValueError("this regression has no points yet; call fit(inputs, targets) first.")
        return nadaraya_watson(queries, self.keys, self.values, self.bandwidth, self.kernel)


# --- the width ----------------------------------------------------------------------------------


def leave_one_out_error(
    inputs: NDArray[Any], targets: NDArray[Any], bandwidth: float, kernel: str = "gaussian"
) -> float:
    r"""E(h) = 1/N Σ_i (y_i − f₋ᵢ(x_i))², f₋ᵢ being fitted without the point i.

    Without leaving it out, each point would foretell itself best with a width of nothing. Where
    a point has no other in reach, the error is infinite: the kernel is too narrow to speak.
    """
    points, values = _points(inputs), np.asarray(targets, np.float64)
    total = 0.0
    for rows in _blocks(len(points)):
        u = pairwise_distances(points[rows], points) / bandwidth
        u[np.arange(len(rows)), rows] = np.inf  # itself
        weights = _weights(u, kernel)
        if (weights.sum(axis=1) == 0).any():
            return np.inf
        total += float(((values[rows] - weights @ values) ** 2).sum())
    return total / len(points)


def _blocks(size: int) -> Iterator[NDArray[np.int64]]:
    step = max(KERNEL_WEIGHTS_CHUNK // size, 1)
    for start in range(0, size, step):
        yield np.arange(start, min(start + step, size))


def select_bandwidth(
    inputs: NDArray[Any], targets: NDArray[Any], kernel: str = "gaussian"
) -> float:
    r"""The h of the least leave-one-out error, searched along log h.

    First on a row of widths from half the smallest gap between neighbours to twice the largest
    distance, then by golden section around the best of them: the error may have several valleys,
    and descent from one place would find the nearest. Nothing is random.
    """
    points, values = _points(inputs), np.asarray(targets, np.float64)
    narrow, wide = _bounds(points)

    def error(log_width: float) -> float:
        return leave_one_out_error(points, values, float(np.exp(log_width)), kernel)

    tried = np.linspace(np.log(narrow), np.log(wide), BANDWIDTH_GRID_SIZE)
    errors = [error(log_width) for log_width in tried.tolist()]
    best = int(np.argmin(errors))
    low, high = tried[max(best - 1, 0)], tried[min(best + 1, BANDWIDTH_GRID_SIZE - 1)]
    found, least = _golden_section(error, float(low), float(high))
    return float(np.exp(found if least <= errors[best] else tried[best]))


def _bounds(points: FloatArray) -> tuple[float, float]:
    """Half the smallest gap between two different points, and twice the largest distance."""
    gap, span = np.inf, 0.0
    for rows in _blocks(len(points)):
        apart = pairwise_distances(points[rows], points)
        gap = float(apart.min(initial=gap, where=apart > 0))
        span = max(span, float(apart.max()))
    if not span:
        raise ValueError(
            f"got {len(points)} points, all at one place; a width can only be learned from two "
            "places or more: give the width."
        )
    return gap / 2, span * 2


def _golden_section(
    error: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """The lowest place between two in a single valley, and its error (Kiefer 1953)."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = error(left), error(right)
    while high - low > 1e-7:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = error(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = error(right)
    return (left, at_left) if at_left <= at_right else (right, at_right)
