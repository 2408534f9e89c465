r"""Support vector machine with kernels (Boser et al. 1992, Cortes and Vapnik 1995), via its dual.

With classes y = ±1 and f(x) = w·φ(x) + b, maximise the margin, at a cost C per unit of slack ξ:

    primal   minimise ½‖w‖² + C Σ_t ξ_t   where y_t f(x_t) ≥ 1 - ξ_t and ξ_t ≥ 0
             (equivalently ½‖w‖² + C Σ_t max(0, 1 - y_t f(x_t)): hinge loss with an L2 penalty)
    dual     maximise Σ_t α_t - ½ Σ_st α_s α_t y_s y_t K(x_s, x_t)
             where Σ_t y_t α_t = 0 and 0 ≤ α_t ≤ C

α_t is the multiplier of row t's constraint. The dual contains only inner products of rows, so any
kernel K(x, z) = φ(x)·φ(z) can be used without computing φ; f(x) = Σ_t α_t y_t K(x_t, x) + b. By
complementary slackness, rows beyond the margin have α = 0 and are dropped; the others are the
support vectors, and those inside the margin have α = C.

More than two classes are handled one-vs-one: one binary classifier per pair of classes, and a
majority vote. Equal to scikit-learn's SVC (libsvm) up to signs: here the later class of a pair is
the positive one.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import TrainingError
from saccade.estimators.svm.config import SVMConfig
from saccade.estimators.svm.smo import (
    KernelRowCache,
    SMOSolution,
    solve_svm_dual,
)
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.kkt import KKTResiduals, kkt_residuals

SVM_KERNEL_CHUNK = 1 << 21  # entries of the kernel matrix in memory at a time, when predicting
MIN_STEP_LIMIT = 10_000_000  # SMO steps; with many rows, STEPS_PER_ROW for each instead
STEPS_PER_ROW = 100


# --- kernels, from the products x·z and the squares ‖x‖², ‖z‖² ------------------------------------


class KernelParams(NamedTuple):
    """Parameters of a kernel: γ, d and r."""

    gamma: float
    degree: int
    offset: float


def linear_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, params: KernelParams
) -> FloatArray:
    r"""K(x, z) = x·z."""
    return products


def polynomial_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, params: KernelParams
) -> FloatArray:
    r"""K(x, z) = (γ x·z + r)^d."""
    base = params.gamma * products + params.offset
    power = base.copy()
    for _ in range(params.degree - 1):  # much faster than `**`
        power *= base
    return power


def rbf_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, params: KernelParams
) -> FloatArray:
    r"""K(x, z) = exp(-γ ‖x - z‖²), the radial basis function (rbf)."""
    distances = left + right - 2 * products  # squared
    np.maximum(distances, 0, out=distances)  # rounding may give slightly negative values
    distances *= -params.gamma
    return np.exp(distances, out=distances)


def sigmoid_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, params: KernelParams
) -> FloatArray:
    r"""K(x, z) = tanh(γ x·z + r). Not positive semi-definite in general: a local solution."""
    return np.tanh(params.gamma * products + params.offset)


SVM_KERNELS: dict[str, Callable[[FloatArray, FloatArray, FloatArray, KernelParams], FloatArray]] = {
    "linear": linear_kernel,
    "polynomial": polynomial_kernel,
    "gaussian": rbf_kernel,
    "sigmoid": sigmoid_kernel,
}


class KernelPoints:
    """A set of points (keys) whose kernel with other points is evaluated."""

    def __init__(self, points: FloatArray, kernel: str, params: KernelParams):
        self.kernel, self.params = SVM_KERNELS[kernel], params
        # distances do not depend on the origin, but are more accurate with one nearby
        self.origin = points.mean(axis=0) if kernel == "gaussian" else np.zeros(points.shape[1])
        self.points = points - self.origin
        self.squares = _squares(self.points)

    def kernel_with(self, queries: FloatArray) -> FloatArray:
        """Return the kernel of each query with each key, (T, S)."""
        centered = queries - self.origin
        return self.kernel(
            centered @ self.points.T, _squares(centered)[:, None], self.squares, self.params
        )

    def rows(self, numbers: IntArray) -> FloatArray:
        """Return some rows of the kernel matrix of the keys, (T, S)."""
        products = self.points[numbers] @ self.points.T
        return self.kernel(products, self.squares[numbers][:, None], self.squares, self.params)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of the kernel matrix of the keys, (S,)."""
        return self.kernel(self.squares, self.squares, self.squares, self.params)


def _squares(points: FloatArray) -> FloatArray:
    return np.einsum("nd,nd->n", points, points)


# --- classifier -----------------------------------------------------------------------------------


class PairFit(NamedTuple):
    """Objective values and optimality of one pair of classes; the second is the positive one."""

    classes: tuple[int, int]
    steps: int
    primal: float
    dual: float
    conditions: KKTResiduals  # of the dual

    @property
    def gap(self) -> float:
        """Relative duality gap, an upper bound of the relative suboptimality."""
        return (self.primal - self.dual) / max(abs(self.primal), 1e-300)


class SVM:
    """Classifier of rows of numbers; scale the columns before fitting."""

    def __init__(self, config: SVMConfig | None = None):
        self.config = config or SVMConfig()
        self.gamma = self.config.gamma or 0.0
        self.classes: NDArray[Any] = np.zeros(0)
        self.vectors: FloatArray = np.zeros((0, 0))  # (S, D), the support vectors of all pairs
        self.weights: FloatArray = np.zeros((0, 0))  # (pairs, S), y α
        self.biases: FloatArray = np.zeros(0)  # (pairs,)
        self.support: IntArray = np.zeros(0, np.int64)  # (S,) their row numbers in the data
        self.fits: list[PairFit] = []

    def fit(
        self, inputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None = None
    ) -> "SVM":
        """Fit one binary classifier per pair of classes; a row's weight multiplies its C."""
        points, weight = _check_training_data(inputs, labels, weights)
        self.classes, which = np.unique(np.asarray(labels), return_inverse=True)
        variance = float(points.var())
        self.gamma = self.config.gamma or (1 / (points.shape[1] * variance) if variance else 1.0)
        pairs = list(combinations(range(len(self.classes)), 2))
        table = np.zeros((len(pairs), len(points)))
        self.biases, self.fits = np.zeros(len(pairs)), []
        for number, (first, second) in enumerate(pairs):
            rows = np.flatnonzero((which == first) | (which == second))
            signs = np.where(which[rows] == second, 1.0, -1.0)
            bounds = self.config.cost * weight[rows]
            solution = self._solve(points[rows], signs, bounds)
            bias = _bias(solution, signs, bounds)
            table[number, rows], self.biases[number] = signs * solution.alpha, bias
            self.fits.append(_pair_fit((first, second), solution, signs, bounds, bias))
        self.support = np.flatnonzero(table.any(axis=0))
        self.vectors, self.weights = points[self.support], table[:, self.support]
        return self

    def _solve(self, points: FloatArray, signs: FloatArray, bounds: FloatArray) -> SMOSolution:
        keys = KernelPoints(points, self.config.kernel, self._kernel_params())
        rows = KernelRowCache(keys.rows, len(points), self.config.cache_megabytes)
        max_steps = max(MIN_STEP_LIMIT, STEPS_PER_ROW * len(points))
        solution = solve_svm_dual(
            rows, keys.diagonal(), signs, bounds, self.config.tolerance, max_steps
        )
        if not solution.converged:
            raise TrainingError(
                f"the support vector machine did not converge in {max_steps:,} steps: got inputs "
                f"from {points.min():.3g} to {points.max():.3g}, cost {self.config.cost:g}; try "
                "scaling the columns to numbers near 1, or a lower cost."
            )
        return solution

    def _kernel_params(self) -> KernelParams:
        return KernelParams(self.gamma, self.config.degree, self.config.offset)

    def decision_function(self, inputs: NDArray[Any]) -> FloatArray:
        """Return f(x): (N,) for two classes, else (N, pairs).

        The pairs are (0, 1), (0, 2), …, (1, 2), …; a positive value is a vote for the later class.
        """
        if not len(self.biases):
            raise ValueError("this SVM is not fitted; call fit(inputs, labels) first.")
        points = _points(inputs)
        if points.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"got rows of {points.shape[1]} numbers; expected {self.vectors.shape[1]}, as in "
                "fit."
            )
        keys = KernelPoints(self.vectors, self.config.kernel, self._kernel_params())
        step = max(SVM_KERNEL_CHUNK // len(self.vectors), 1)
        decisions = np.empty((len(points), len(self.biases)))
        for start in range(0, len(points), step):
            table = keys.kernel_with(points[start : start + step])
            decisions[start : start + step] = table @ self.weights.T + self.biases
        return decisions[:, 0] if len(self.biases) == 1 else decisions

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the class with most votes for each row; of a tie, the first."""
        decisions = self.decision_function(inputs).reshape(-1, len(self.biases))
        votes = np.zeros((len(decisions), len(self.classes)), np.int64)
        for number, (first, second) in enumerate(combinations(range(len(self.classes)), 2)):
            votes[:, second] += decisions[:, number] > 0
            votes[:, first] += decisions[:, number] <= 0
        return self.classes[votes.argmax(axis=1)]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted model as named arrays, for `from_arrays`."""
        return {
            "classes": self.classes,
            "vectors": self.vectors,
            "weights": self.weights,
            "biases": self.biases,
            "gamma": np.array(self.gamma),
            "support": self.support,
        }

    @classmethod
    def from_arrays(cls, config: SVMConfig, arrays: dict[str, NDArray[Any]]) -> "SVM":
        """Restore a model from the arrays of `to_arrays`."""
        model = cls(config)
        model.classes, model.vectors = arrays["classes"], arrays["vectors"]
        model.weights, model.biases = arrays["weights"], arrays["biases"]
        model.gamma, model.support = float(arrays["gamma"]), arrays["support"]
        count, vectors = len(model.classes), len(model.vectors)
        pairs = count * (count - 1) // 2
        shapes = {
            "classes": (count,),
            "vectors": (vectors, *model.vectors.shape[1:2]),
            "weights": (pairs, vectors),
            "biases": (pairs,),
            "support": (vectors,),
        }
        for name, shape in shapes.items():
            if arrays[name].shape != shape or arrays[name].dtype.kind not in "fi":
                raise ValueError(
                    f"got {name} of shape {arrays[name].shape}, {arrays[name].dtype}; expected "
                    f"numbers of shape {shape}"
                )
        if count < 2 or model.classes.dtype.kind != "i":
            raise ValueError(f"got {count} classes, {model.classes.dtype}; expected 2 or more ids")
        return model


def _bias(solution: SMOSolution, signs: FloatArray, bounds: FloatArray) -> float:
    """Return b: the mean F of the free α, or without any the middle of the feasible interval."""
    alpha, scores = solution.alpha, solution.scores
    free = (alpha > 0) & (alpha < bounds)
    if free.any():
        return float(scores[free].mean())
    positive, at_zero, at_bound = signs > 0, alpha <= 0, alpha >= bounds
    may_increase = np.where(positive, ~at_bound, ~at_zero)
    may_decrease = np.where(positive, ~at_zero, ~at_bound)
    lower = scores[may_increase].max(initial=-np.inf)
    upper = scores[may_decrease].min(initial=np.inf)
    ends = [end for end in (lower, upper) if np.isfinite(end)]
    return float(np.mean(ends)) if ends else 0.0


def _pair_fit(
    classes: tuple[int, int],
    solution: SMOSolution,
    signs: FloatArray,
    bounds: FloatArray,
    bias: float,
) -> PairFit:
    """Return both objectives, and the KKT residuals with b as the multiplier of Σ yα = 0.

    The multiplier of an active bound is the rest of the gradient; elsewhere it is 0 by
    complementary slackness, and the rest of the gradient violates stationarity.
    """
    alpha, scores = solution.alpha, solution.scores
    slack = signs * (scores - bias)  # 1 - y f(x)
    at_zero, at_bound = alpha <= 0, (alpha >= bounds) & (alpha > 0)
    fixed = bounds <= 0  # rows of weight 0: both bounds are active
    lower = np.where(at_zero, np.where(fixed, np.maximum(-slack, 0), -slack), 0)
    upper = np.where(at_bound, slack, 0) + np.where(fixed, np.maximum(slack, 0), 0)
    squared_norm = float(alpha.sum()) - float((alpha * signs * scores).sum())  # ‖w‖²
    return PairFit(
        classes,
        solution.steps,
        primal=squared_norm / 2 + float((bounds * np.maximum(slack, 0)).sum()),
        dual=float(alpha.sum()) - squared_norm / 2,
        conditions=kkt_residuals(
            [signs @ alpha],
            np.concatenate([-alpha, alpha - bounds]),
            np.concatenate([lower, upper]),
            -slack - lower + upper,
        ),
    )


def _points(inputs: NDArray[Any]) -> FloatArray:
    points = np.asarray(inputs, np.float64)
    if points.ndim != 2 or not points.shape[1] or not np.isfinite(points).all():
        detail = "" if points.ndim != 2 else ", with numbers that are not finite"
        raise ValueError(
            f"got inputs of shape {points.shape}{detail}; expected a table of finite numbers, "
            "(rows, columns)."
        )
    return points


def _check_training_data(
    inputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None
) -> tuple[FloatArray, FloatArray]:
    points = _points(inputs)
    if np.shape(labels) != (len(points),):
        raise ValueError(
            f"got {len(points)} rows and labels of shape {np.shape(labels)}; expected one label "
            "per row."
        )
    weight = np.ones(len(points)) if weights is None else np.asarray(weights, np.float64)
    if weight.shape != (len(points),) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(
            f"got weights of shape {weight.shape} for {len(points)} rows; expected one finite "
            "number per row, 0 or more."
        )
    weighted = np.unique(np.asarray(labels)[weight > 0])
    if len(weighted) < 2 or len(weighted) < len(np.unique(np.asarray(labels))):
        raise ValueError(
            f"got {len(points)} rows, of which those with weight have {len(weighted)} classes: "
            f"{weighted.tolist()}; expected two or more, and rows with weight in each."
        )
    return points, weight
