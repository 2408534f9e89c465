r"""The support vector machine (Boser et al. 1992, Cortes and Vapnik 1995), through its dual.

With classes y = ±1 and f(x) = w·φ(x) + b, the widest margin, at a price C for what is inside it:

    primal   minimise ½‖w‖² + C Σ_t ξ_t   where y_t f(x_t) ≥ 1 - ξ_t and ξ_t ≥ 0
             (that is ½‖w‖² + C Σ_t max(0, 1 - y_t f(x_t)): the hinge loss and a penalty)
    dual     maximise Σ_t α_t - ½ Σ_st α_s α_t y_s y_t K(x_s, x_t)
             where Σ_t y_t α_t = 0 and 0 ≤ α_t ≤ C

α_t is the multiplier of row t's constraint. Only products of rows are left in the dual, so that
any kernel K(x, z) = φ(x)·φ(z) will do, and φ is never computed; f(x) = Σ_t α_t y_t K(x_t, x) + b.
Complementary slackness says which rows count: those beyond the margin have α = 0 and can be thrown
away, the others are the support vectors; those inside it have α = C.

With K classes there is a machine for each pair (one against one), and each has a vote. Equal to
scikit-learn's SVC (libsvm) but for signs: here the later class of a pair is the positive one.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.config import Config
from saccade.errors import TrainingError
from saccade.estimators.svm.smo import (
    FloatArray,
    IntArray,
    KernelRowCache,
    SMOSolution,
    solve_svm_dual,
)
from saccade.types.kkt import KKTResiduals, kkt_residuals

SVM_KERNEL_CHUNK = 1 << 21  # entries of the kernel's table that are in memory at a time


class SVMConfig(Config):
    """A support vector machine. `gamma` left open is 1 / (D · variance of all inputs)."""

    name: Literal["svm"] = "svm"
    kernel: Literal["linear", "polynomial", "gaussian", "sigmoid"] = "gaussian"
    cost: float = Field(1.0, gt=0, allow_inf_nan=False)  # C
    gamma: float | None = Field(None, gt=0, allow_inf_nan=False)
    degree: int = Field(3, ge=1)
    offset: float = Field(0.0, allow_inf_nan=False)
    tolerance: float = Field(1e-3, gt=0)  # how far F may be from its conditions
    cache_megabytes: float = Field(200.0, gt=0)


# --- kernels, from the products x·z and the squares ‖x‖², ‖z‖² ------------------------------------


class KernelParams(NamedTuple):
    """The numbers in a kernel."""

    gamma: float
    degree: int
    offset: float


def linear_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, shape: KernelParams
) -> FloatArray:
    r"""K(x, z) = x·z."""
    return products


def polynomial_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, shape: KernelParams
) -> FloatArray:
    r"""K(x, z) = (γ x·z + r)^d."""
    base = shape.gamma * products + shape.offset
    power = base.copy()
    for _ in range(shape.degree - 1):  # many times as fast as `**`
        power *= base
    return power


def rbf_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, shape: KernelParams
) -> FloatArray:
    r"""K(x, z) = exp(-γ ‖x - z‖²), the radial basis function (rbf)."""
    apart = left + right - 2 * products
    np.maximum(apart, 0, out=apart)  # rounding may make a little less than nothing
    apart *= -shape.gamma
    return np.exp(apart, out=apart)


def sigmoid_kernel(
    products: FloatArray, left: FloatArray, right: FloatArray, shape: KernelParams
) -> FloatArray:
    r"""K(x, z) = tanh(γ x·z + r). Not always a product: what is found is a local solution."""
    return np.tanh(shape.gamma * products + shape.offset)


SVM_KERNELS: dict[str, Callable[[FloatArray, FloatArray, FloatArray, KernelParams], FloatArray]] = {
    "linear": linear_kernel,
    "polynomial": polynomial_kernel,
    "gaussian": rbf_kernel,
    "sigmoid": sigmoid_kernel,
}


class KernelPoints:
    """Points that are held against others by a kernel."""

    def __init__(self, points: FloatArray, kernel: str, shape: KernelParams):
        self.kernel, self.shape = SVM_KERNELS[kernel], shape
        # distances are the same from any origin, and exact only from one nearby
        self.origin = points.mean(axis=0) if kernel == "gaussian" else np.zeros(points.shape[1])
        self.points = points - self.origin
        self.squares = _squares(self.points)

    def kernel_with(self, queries: FloatArray) -> FloatArray:
        """(T, S): the kernel of each query with each key."""
        moved = queries - self.origin
        return self.kernel(
            moved @ self.points.T, _squares(moved)[:, None], self.squares, self.shape
        )

    def rows(self, numbers: IntArray) -> FloatArray:
        """(T, S): the kernel of some of the keys with each."""
        products = self.points[numbers] @ self.points.T
        return self.kernel(products, self.squares[numbers][:, None], self.squares, self.shape)

    def diagonal(self) -> FloatArray:
        """(S,): the kernel of each key with itself."""
        return self.kernel(self.squares, self.squares, self.squares, self.shape)


def _squares(points: FloatArray) -> FloatArray:
    return np.einsum("nd,nd->n", points, points)


# --- the machine ----------------------------------------------------------------------------------


class PairFit(NamedTuple):
    """How one pair of classes came out; the second is the positive one."""

    classes: tuple[int, int]
    steps: int
    primal: float
    dual: float
    conditions: KKTResiduals  # of the dual, as `saccade.types.kkt` has them

    @property
    def gap(self) -> float:
        """Primal minus dual, as a share: the solution cannot be better by more than this."""
        return (self.primal - self.dual) / max(abs(self.primal), 1e-300)


class SVM:
    """Classes from rows of numbers: `fit`, `decide`, `predict`. Scale the columns before."""

    def __init__(self, config: SVMConfig | None = None):
        self.config = config or SVMConfig()
        self.gamma = self.config.gamma or 0.0
        self.classes: NDArray[Any] = np.zeros(0)
        self.vectors: FloatArray = np.zeros((0, 0))  # (S, D), the support vectors of all pairs
        self.weights: FloatArray = np.zeros((0, 0))  # (pairs, S), y α
        self.biases: FloatArray = np.zeros(0)  # (pairs,)
        self.support: IntArray = np.zeros(0, np.int64)  # (S,) which rows they were
        self.fits: list[PairFit] = []

    def fit(
        self, inputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None = None
    ) -> "SVM":
        """Find the support vectors; a row's weight multiplies its C."""
        points, weight = _checked(inputs, labels, weights)
        self.classes, which = np.unique(np.asarray(labels), return_inverse=True)
        spread = float(points.var())
        self.gamma = self.config.gamma or (1 / (points.shape[1] * spread) if spread else 1.0)
        pairs = list(combinations(range(len(self.classes)), 2))
        table = np.zeros((len(pairs), len(points)))
        self.biases, self.fits = np.zeros(len(pairs)), []
        for number, (first, second) in enumerate(pairs):
            rows = np.flatnonzero((which == first) | (which == second))
            signs = np.where(which[rows] == second, 1.0, -1.0)
            bounds = self.config.cost * weight[rows]
            solved = self._solve(points[rows], signs, bounds)
            bias = _bias(solved, signs, bounds)
            table[number, rows], self.biases[number] = signs * solved.alpha, bias
            self.fits.append(_fitted((first, second), solved, signs, bounds, bias))
        self.support = np.flatnonzero(table.any(axis=0))
        self.vectors, self.weights = points[self.support], table[:, self.support]
        return self

    def _solve(self, points: FloatArray, signs: FloatArray, bounds: FloatArray) -> SMOSolution:
        keys = KernelPoints(points, self.config.kernel, self._shape())
        rows = KernelRowCache(keys.rows, len(points), self.config.cache_megabytes)
        most = max(10_000_000, 100 * len(points))
        solved = solve_svm_dual(rows, keys.diagonal(), signs, bounds, self.config.tolerance, most)
        if not solved.converged:
            raise TrainingError(
                f"a support vector machine did not come to rest in {most:,} steps: inputs from "
                f"{points.min():.3g} to {points.max():.3g}, cost {self.config.cost:g}. Scale the "
                "columns to numbers near 1, or lower the cost."
            )
        return solved

    def _shape(self) -> KernelParams:
        return KernelParams(self.gamma, self.config.degree, self.config.offset)

    def decision_function(self, inputs: NDArray[Any]) -> FloatArray:
        """f(x): (N,) for two classes, over 0 for the second; else (N, pairs), in their order.

        The pairs are (0, 1), (0, 2), …, (1, 2), …; over 0 is for the later class.
        """
        if not len(self.biases):
            raise ValueError("this machine has no support vectors yet; call fit(inputs, labels).")
        points = _points(inputs)
        if points.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"got rows of {points.shape[1]} numbers; wanted {self.vectors.shape[1]}, as in fit."
            )
        keys = KernelPoints(self.vectors, self.config.kernel, self._shape())
        step = max(SVM_KERNEL_CHUNK // len(self.vectors), 1)
        found = np.empty((len(points), len(self.biases)))
        for start in range(0, len(points), step):
            table = keys.kernel_with(points[start : start + step])
            found[start : start + step] = table @ self.weights.T + self.biases
        return found[:, 0] if len(self.biases) == 1 else found

    def predict(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """The class with most votes of each row; of equal ones the first."""
        decided = self.decision_function(inputs).reshape(-1, len(self.biases))
        votes = np.zeros((len(decided), len(self.classes)), np.int64)
        for number, (first, second) in enumerate(combinations(range(len(self.classes)), 2)):
            votes[:, second] += decided[:, number] > 0
            votes[:, first] += decided[:, number] <= 0
        return self.classes[votes.argmax(axis=1)]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What `decide` needs, and which rows they were; `SVM.of` makes a machine of it again."""
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
        """The machine that was kept."""
        machine = cls(config)
        machine.classes, machine.vectors = arrays["classes"], arrays["vectors"]
        machine.weights, machine.biases = arrays["weights"], arrays["biases"]
        machine.gamma, machine.support = float(arrays["gamma"]), arrays["support"]
        return machine


def _bias(solved: SMOSolution, signs: FloatArray, bounds: FloatArray) -> float:
    """The mean F of those on the margin, where F = b; without any the middle of what is left."""
    free = (solved.alpha > 0) & (solved.alpha < bounds)
    if free.any():
        return float(solved.slope[free].mean())
    positive, low, high = signs > 0, solved.alpha <= 0, solved.alpha >= bounds
    may_rise, may_fall = np.where(positive, ~high, ~low), np.where(positive, ~low, ~high)
    least = solved.slope[may_rise].max(initial=-np.inf)
    most = solved.slope[may_fall].min(initial=np.inf)
    ends = [end for end in (least, most) if np.isfinite(end)]
    return float(np.mean(ends)) if ends else 0.0


def _fitted(
    classes: tuple[int, int],
    solved: SMOSolution,
    signs: FloatArray,
    bounds: FloatArray,
    bias: float,
) -> PairFit:
    """Both objectives, and the conditions of the dual with b as the multiplier of Σ yα = 0.

    At a bound the multiplier of that bound is what is left of the slope; elsewhere it is 0 by
    slackness, and what is left is a violation of stationarity.
    """
    alpha = solved.alpha
    short = signs * (solved.slope - bias)  # 1 - y f(x): how much of the margin is missing
    at_zero, at_bound = alpha <= 0, (alpha >= bounds) & (alpha > 0)
    closed = bounds <= 0  # a row without weight is held from both sides
    low = np.where(at_zero, np.where(closed, np.maximum(-short, 0), -short), 0)
    high = np.where(at_bound, short, 0) + np.where(closed, np.maximum(short, 0), 0)
    inside = float((alpha * signs * solved.slope).sum())  # Σα - ‖w‖²
    norm = float(alpha.sum()) - inside
    return PairFit(
        classes,
        solved.steps,
        primal=norm / 2 + float((bounds * np.maximum(short, 0)).sum()),
        dual=float(alpha.sum()) - norm / 2,
        conditions=kkt_residuals(
            [signs @ alpha],
            np.concatenate([-alpha, alpha - bounds]),
            np.concatenate([low, high]),
            -short - low + high,
        ),
    )


def _points(inputs: NDArray[Any]) -> FloatArray:
    points = np.asarray(inputs, np.float64)
    if points.ndim != 2 or not points.shape[1] or not np.isfinite(points).all():
        broken = "" if points.ndim != 2 else ", with numbers that are not finite"
        raise ValueError(
            f"got inputs of shape {points.shape}{broken}; wanted a row of finite numbers for each."
        )
    return points


def _checked(
    inputs: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None
) -> tuple[FloatArray, FloatArray]:
    points = _points(inputs)
    if np.shape(labels) != (len(points),):
        raise ValueError(
            f"got {len(points)} rows and labels of shape {np.shape(labels)}; wanted a label each."
        )
    weight = np.ones(len(points)) if weights is None else np.asarray(weights, np.float64)
    if weight.shape != (len(points),) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(
            f"got weights of shape {weight.shape} for {len(points)} rows; wanted a finite number "
            "for each, 0 or more."
        )
    here = np.unique(np.asarray(labels)[weight > 0])
    if len(here) < 2 or len(here) < len(np.unique(np.asarray(labels))):
        raise ValueError(
            f"got {len(points)} rows, of which those with weight have {len(here)} classes: "
            f"{here.tolist()}; wanted two or more, and rows with weight in each."
        )
    return points, weight
