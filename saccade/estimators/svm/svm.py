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
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import TrainingError
from saccade.estimators.svm.config import KernelMachineConfig, SVMConfig
from saccade.estimators.svm.smo import (
    DualConstants,
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
        has_origin = kernel == "gaussian" and len(points) > 0
        self.origin = points.mean(axis=0) if has_origin else np.zeros(points.shape[1])
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


# --- machine --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DualFit:
    """Objective values and optimality of a solution of the dual."""

    steps: int
    primal: float
    dual: float
    conditions: KKTResiduals  # of the dual

    @property
    def gap(self) -> float:
        """Relative duality gap, an upper bound of the relative suboptimality."""
        return (self.primal - self.dual) / max(abs(self.primal), 1e-300)


@dataclass(frozen=True)
class PairFit(DualFit):
    """Fit of one pair of classes; the second is the positive one."""

    classes: tuple[int, int]


class KernelMachine:
    r"""Functions f(x) = Σ_t w_t K(x_t, x) + b of rows of numbers, of the same support vectors."""

    arrays: tuple[str, ...] = ("vectors", "weights", "biases", "gamma", "support")  # of `to_arrays`

    def __init__(self, config: KernelMachineConfig):
        self.config = config
        self.gamma = config.gamma or 0.0
        self.vectors: FloatArray = np.zeros((0, 0))  # (S, D), the support vectors of all functions
        self.weights: FloatArray = np.zeros((0, 0))  # (functions, S), y α
        self.biases: FloatArray = np.zeros(0)  # (functions,)
        self.support: IntArray = np.zeros(0, np.int64)  # (S,) their row numbers in the data

    def _choose_gamma(self, points: FloatArray) -> None:
        variance = float(points.var())
        self.gamma = self.config.gamma or (1 / (points.shape[1] * variance) if variance else 1.0)

    def _keep_support(self, points: FloatArray, table: FloatArray) -> None:
        """Keep the rows that have a weight in one of the functions, (functions, N)."""
        self.support = np.flatnonzero(table.any(axis=0))
        self.vectors, self.weights = points[self.support], table[:, self.support]

    def _solve(self, points: FloatArray, constants: DualConstants) -> SMOSolution:
        """Solve a dual; the multipliers are those of the points, once or several times."""
        keys = KernelPoints(points, self.config.kernel, self._kernel_params())
        copies = len(constants.signs) // len(points)
        rows = KernelRowCache(keys.rows, len(points), self.config.cache_megabytes, copies)
        max_steps = max(MIN_STEP_LIMIT, STEPS_PER_ROW * len(points))
        diagonal = np.tile(keys.diagonal(), copies)
        solution = solve_svm_dual(rows, diagonal, constants, self.config.tolerance, max_steps)
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
        """Return f(x): (N,) of one function, else (N, functions)."""
        if not len(self.biases):
            name = type(self).__name__
            raise ValueError(f"this {name} is not fitted; call fit(inputs, labels) first.")
        points = check_points(inputs)
        if points.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"got rows of {points.shape[1]} numbers; expected {self.vectors.shape[1]}, as in "
                "fit."
            )
        keys = KernelPoints(self.vectors, self.config.kernel, self._kernel_params())
        step = max(SVM_KERNEL_CHUNK // max(len(self.vectors), 1), 1)
        decisions = np.empty((len(points), len(self.biases)))
        for start in range(0, len(points), step):
            table = keys.kernel_with(points[start : start + step])
            decisions[start : start + step] = table @ self.weights.T + self.biases
        return decisions[:, 0] if len(self.biases) == 1 else decisions

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted model as named arrays, for `load_arrays`."""
        return {name: np.asarray(getattr(self, name)) for name in self.arrays}

    def load_arrays(self, arrays: dict[str, NDArray[Any]], functions: int) -> None:
        """Load the arrays of `to_arrays`, of so many functions."""
        vectors = len(arrays["vectors"])
        shapes = {
            "vectors": (vectors, *arrays["vectors"].shape[1:2]),
            "weights": (functions, vectors),
            "biases": (functions,),
            "support": (vectors,),
        }
        for name, shape in shapes.items():
            if arrays[name].shape != shape or arrays[name].dtype.kind not in "fi":
                raise ValueError(
                    f"got {name} of shape {arrays[name].shape}, {arrays[name].dtype}; expected "
                    f"numbers of shape {shape}"
                )
        self.vectors, self.weights = arrays["vectors"], arrays["weights"]
        self.biases, self.support = arrays["biases"], arrays["support"]
        self.gamma = float(arrays["gamma"])


# --- classifier -----------------------------------------------------------------------------------


class SVM(KernelMachine):
    """Classifier of rows of numbers; scale the columns before fitting.

    Its functions are those of the pairs of classes (0, 1), (0, 2), …, (1, 2), …; a positive value
    is a vote for the later class.
    """

    config: SVMConfig
    arrays = ("classes", *KernelMachine.arrays)

    def __init__(self, config: SVMConfig | None = None):
        super().__init__(config or SVMConfig())
        self.classes: NDArray[Any] = np.zeros(0)
        self.fits: list[PairFit] = []

    def fit(
        self, inputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None = None
    ) -> "SVM":
        """Fit one binary classifier per pair of classes; a row's weight multiplies its C."""
        points, weight = check_training_data(inputs, labels, weights)
        _check_classes(labels, weight)
        self.classes, which = np.unique(np.asarray(labels), return_inverse=True)
        self._choose_gamma(points)
        pairs = list(combinations(range(len(self.classes)), 2))
        table = np.zeros((len(pairs), len(points)))
        self.biases, self.fits = np.zeros(len(pairs)), []
        for number, (first, second) in enumerate(pairs):
            rows = np.flatnonzero((which == first) | (which == second))
            signs = np.where(which[rows] == second, 1.0, -1.0)
            bounds = self.config.cost * weight[rows]
            constants = DualConstants(-np.ones(len(rows)), signs, bounds)
            solution = self._solve(points[rows], constants)
            bias = dual_bias(solution, constants)
            table[number, rows], self.biases[number] = signs * solution.alpha, bias
            fit = dual_fit(solution, constants, bias)
            self.fits.append(PairFit(**vars(fit), classes=(first, second)))
        self._keep_support(points, table)
        return self

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the class with most votes for each row; of a tie, the first."""
        decisions = self.decision_function(inputs).reshape(-1, len(self.biases))
        votes = np.zeros((len(decisions), len(self.classes)), np.int64)
        for number, (first, second) in enumerate(combinations(range(len(self.classes)), 2)):
            votes[:, second] += decisions[:, number] > 0
            votes[:, first] += decisions[:, number] <= 0
        return self.classes[votes.argmax(axis=1)]

    @classmethod
    def from_arrays(cls, config: SVMConfig, arrays: dict[str, NDArray[Any]]) -> "SVM":
        """Restore a model from the arrays of `to_arrays`."""
        model, classes = cls(config), arrays["classes"]
        count = classes.size
        model.load_arrays(arrays, count * (count - 1) // 2)
        if classes.shape != (count,) or count < 2 or classes.dtype.kind != "i":
            raise ValueError(f"got {count} classes, {classes.dtype}; expected 2 or more ids")
        model.classes = classes
        return model


# --- from multipliers to a function ---------------------------------------------------------------


def dual_bias(solution: SMOSolution, constants: DualConstants) -> float:
    """Return b: the mean F of the free α, or without any the middle of the feasible interval."""
    alpha, scores = solution.alpha, solution.scores
    signs, bounds = constants.signs, constants.bounds
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


def dual_fit(solution: SMOSolution, constants: DualConstants, bias: float) -> DualFit:
    """Return both objectives, and the KKT residuals with b as the multiplier of Σ yα = 0.

    The multiplier of an active bound is the rest of the gradient; elsewhere it is 0 by
    complementary slackness, and the rest of the gradient violates stationarity.
    """
    alpha, scores = solution.alpha, solution.scores
    linear, signs, bounds = constants
    slack = signs * (scores - bias)  # of a class 1 - y f(x); of a number |y - f(x)| - ε
    at_zero, at_bound = alpha <= 0, (alpha >= bounds) & (alpha > 0)
    fixed = bounds <= 0  # rows of weight 0: both bounds are active
    lower = np.where(at_zero, np.where(fixed, np.maximum(-slack, 0), -slack), 0)
    upper = np.where(at_bound, slack, 0) + np.where(fixed, np.maximum(slack, 0), 0)
    linear_value = float(linear @ alpha)
    squared_norm = -linear_value - float((alpha * signs * scores).sum())  # ‖w‖²
    return DualFit(
        solution.steps,
        primal=squared_norm / 2 + float((bounds * np.maximum(slack, 0)).sum()),
        dual=-linear_value - squared_norm / 2,
        conditions=kkt_residuals(
            [signs @ alpha],
            np.concatenate([-alpha, alpha - bounds]),
            np.concatenate([lower, upper]),
            -slack - lower + upper,
        ),
    )


def check_points(inputs: NDArray[Any]) -> FloatArray:
    """Return rows of finite numbers as float64, or refuse them."""
    points = np.asarray(inputs, np.float64)
    if points.ndim != 2 or not points.shape[1] or not np.isfinite(points).all():
        detail = "" if points.ndim != 2 else ", with numbers that are not finite"
        raise ValueError(
            f"got inputs of shape {points.shape}{detail}; expected a table of finite numbers, "
            "(rows, columns)."
        )
    return points


def check_training_data(
    inputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None
) -> tuple[FloatArray, FloatArray]:
    """Return points and row weights, or refuse what does not fit together."""
    points = check_points(inputs)
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
    return points, weight


def _check_classes(labels: NDArray[Any], weight: FloatArray) -> None:
    weighted = np.unique(np.asarray(labels)[weight > 0])
    if len(weighted) < 2 or len(weighted) < len(np.unique(np.asarray(labels))):
        raise ValueError(
            f"got {len(weight)} rows, of which those with weight have {len(weighted)} classes: "
            f"{weighted.tolist()}; expected two or more, and rows with weight in each."
        )
