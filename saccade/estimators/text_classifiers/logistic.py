r"""Logistic regression on sparse rows, by L-BFGS with a diagonal preconditioner.

    minimise  (1/N) Σ_n v_n ℓ(W x_n + b, y_n) + λ/(2N) ‖W‖²

with ℓ the cross-entropy of a softmax over the labels, or for each label by itself the binary
cross-entropy (one-vs-all). It is N times smaller than scikit-learn's objective with C = 1/λ, and
has the same minimum; the bias is not penalised.

L-BFGS (Liu and Nocedal 1989) estimates the inverse Hessian from the last steps, starting from a
diagonal. n-grams differ in frequency by factors of thousands, so that the usual multiple of the
identity needs hundreds of steps; with the diagonal of the Hessian at W = 0,

    H_kf = p_k (1 - p_k) Σ_n x_nf² / N + λ/N

for label k with share p_k, it takes some tens.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from saccade.estimators.text_classifiers.sparse import SparseRows
from saccade.types.arrays import BoolArray, Float32Array, FloatArray

MEMORY = 6  # steps from which the inverse Hessian is estimated
MAX_STEPS = 200
MAX_LINE_SEARCH = 20  # evaluations in one line search
ARMIJO, CURVATURE = 1e-4, 0.9  # constants of the Wolfe conditions

ValueAndGradient = Callable[[Float32Array], tuple[float, Float32Array]]


class LinearWeights(NamedTuple):
    """Weights of a linear classifier: logits = W x + b."""

    weights: Float32Array  # (labels, features)
    biases: Float32Array  # (labels,)

    def logits(self, rows: SparseRows) -> Float32Array:
        """Return (rows, labels)."""
        return (rows.dot(self.weights) + self.biases[:, None]).T


class TrainingRows(NamedTuple):
    """Rows, their transpose, the labels of each, and weights of the rows (mean 1)."""

    rows: SparseRows
    transpose: SparseRows
    targets: BoolArray  # (labels, rows)
    row_weights: Float32Array  # (rows,)


def fit_softmax(
    data: TrainingRows,
    penalty: float,
    start: LinearWeights | None = None,
    tolerance: float = 1e-4,
    stop: Callable[[], bool] = lambda: False,
) -> LinearWeights:
    """Fit all labels together by the cross-entropy of a softmax.

    With two labels it is binary logistic regression of the difference of their weights, split
    evenly between the two; its penalty is that of the difference.
    """
    if len(data.targets) == 2:
        binary = data._replace(targets=data.targets[1:])
        first = (
            None if start is None else LinearWeights(2 * start.weights[1:], 2 * start.biases[1:])
        )
        found = _fit(binary, penalty, first, tolerance, stop, _binary_residuals)
        half = np.array([[-0.5], [0.5]], np.float32)
        return LinearWeights(half * found.weights, half[:, 0] * found.biases)
    return _fit(data, penalty, start, tolerance, stop, _softmax_residuals)


def fit_one_vs_all(
    data: TrainingRows,
    penalty: float,
    start: LinearWeights | None = None,
    tolerance: float = 1e-4,
    stop: Callable[[], bool] = lambda: False,
    threads: int = 1,
    on_progress: Callable[[int], None] = lambda done: None,
) -> LinearWeights:
    """Fit each label by itself against all others; the number of threads changes no result."""

    def fit(label: int) -> LinearWeights:
        one = slice(label, label + 1)
        first = None if start is None else LinearWeights(start.weights[one], start.biases[one])
        binary = data._replace(targets=data.targets[one])
        return _fit(binary, penalty, first, tolerance, stop, _binary_residuals)

    labels = range(len(data.targets))
    weights = np.zeros((len(labels), data.rows.num_columns), np.float32)
    biases = np.zeros(len(labels), np.float32)
    with ThreadPoolExecutor(threads) as pool:  # NumPy's loops run in parallel
        for label, found in zip(labels, pool.map(fit, labels), strict=True):
            weights[label], biases[label] = found.weights[0], found.biases[0]
            on_progress(label + 1)
    return LinearWeights(weights, biases)


Residuals = Callable[[Float32Array, BoolArray], tuple[Float32Array, Float32Array]]


def _softmax_residuals(
    logits: Float32Array, targets: BoolArray
) -> tuple[Float32Array, Float32Array]:
    """Return the loss of each row, and p - y of each label and row."""
    shifted = logits - logits.max(0)
    raised = np.exp(shifted)
    totals = raised.sum(0)
    losses = np.log(totals) - np.where(targets, shifted, 0).sum(0)
    return losses, raised / totals - targets


def _binary_residuals(
    logits: Float32Array, targets: BoolArray
) -> tuple[Float32Array, Float32Array]:
    """Return log(1 + exp(z)) - y z of each row, and σ(z) - y."""
    small = np.exp(-np.abs(logits))
    losses = np.log1p(small) + np.maximum(logits, 0) - np.where(targets, logits, 0)
    probabilities = np.where(logits >= 0, 1, small) / (1 + small)
    return losses[0], probabilities - targets


def _fit(
    data: TrainingRows,
    penalty: float,
    start: LinearWeights | None,
    tolerance: float,
    stop: Callable[[], bool],
    residuals: Residuals,
) -> LinearWeights:
    rows, transpose, targets, row_weights = data
    labels, features, count = len(targets), rows.num_columns, rows.num_rows
    size, ridge = labels * features, penalty / count

    def unpack(params: Float32Array) -> LinearWeights:
        return LinearWeights(params[:size].reshape(labels, features), params[size:])

    def objective(params: Float32Array) -> tuple[float, Float32Array]:
        weights, biases = unpack(params)
        losses, errors = residuals(rows.dot(weights) + biases[:, None], targets)
        errors = (errors * (row_weights / np.float32(count))).astype(np.float32)
        gradient = np.empty_like(params)
        gradient[:size] = (transpose.dot(errors) + np.float32(ridge) * weights).ravel()
        gradient[size:] = errors.sum(1)
        loss = float(np.mean(losses * row_weights, dtype=np.float64))
        return loss + ridge / 2 * float(np.vdot(weights, weights)), gradient

    prior = np.zeros(size + labels, np.float32)
    prior[size:] = _prior_logits(targets, row_weights)
    # relative to the label entropy, which is the loss with biases alone
    min_decrease = tolerance * objective(prior)[0]
    params = prior
    if start is not None:
        params = np.concatenate([start.weights.ravel(), start.biases]).astype(np.float32)
    diagonal = _inverse_diagonal(rows, targets, ridge)
    return unpack(minimise_lbfgs(objective, params, diagonal, min_decrease, stop))


def _prior_logits(targets: BoolArray, row_weights: Float32Array) -> FloatArray:
    """Return the biases that give each label its share of the rows."""
    shares = targets @ row_weights.astype(np.float64) / max(float(row_weights.sum()), 1e-9)
    shares = np.clip(shares, 1e-6, 1 - 1e-6)
    return np.log(shares) - np.log1p(-shares) if len(targets) == 1 else np.log(shares)


def _inverse_diagonal(rows: SparseRows, targets: BoolArray, ridge: float) -> Float32Array:
    """Return 1 / H_kf for the weights, then 1 / (p_k (1 - p_k)) for the biases."""
    shares = np.clip(targets.mean(1), 1 / rows.num_rows, 1 - 1 / rows.num_rows)
    spread = np.maximum(shares * (1 - shares), 1e-6)
    squares = np.bincount(rows.columns, weights=np.square(rows.values), minlength=rows.num_columns)
    curvature = spread[:, None] * (squares / rows.num_rows) + ridge
    return np.concatenate([1 / curvature.ravel(), 1 / spread]).astype(np.float32)


class _Step(NamedTuple):
    """A step s, the change y of the gradient, and 1 / (s · y)."""

    change: Float32Array
    gradient_change: Float32Array
    scale: float


def minimise_lbfgs(
    objective: ValueAndGradient,
    params: Float32Array,
    inverse_diagonal: Float32Array,
    min_decrease: float,
    stop: Callable[[], bool] = lambda: False,
) -> Float32Array:
    """Minimise a smooth function whose inverse Hessian is roughly the given diagonal.

    Ends when a step decreases the value by less than `min_decrease`.
    """
    value, gradient = objective(params)
    memory: list[_Step] = []
    for _ in range(MAX_STEPS):
        direction = -_precondition(gradient, memory, inverse_diagonal)
        slope = float(np.vdot(gradient, direction))
        if slope >= 0 or stop():  # rounding errors only
            break
        found = _line_search(objective, params, value, direction, slope)
        if found is None:
            break
        new_params, new_value, new_gradient = found
        change, gradient_change = new_params - params, new_gradient - gradient
        product = float(np.vdot(change, gradient_change))
        if product > 0:
            memory = [*memory[1 - MEMORY :], _Step(change, gradient_change, 1 / product)]
        decrease = value - new_value
        params, value, gradient = new_params, new_value, new_gradient
        if decrease <= min_decrease:
            break
    return params


def _precondition(
    gradient: Float32Array, memory: list[_Step], inverse_diagonal: Float32Array
) -> Float32Array:
    """Return the estimated inverse Hessian times the gradient (the two-loop recursion)."""
    found = gradient.copy()
    factors = []
    for step in reversed(memory):
        factor = np.float32(step.scale * float(np.vdot(step.change, found)))
        factors.append(factor)
        found -= factor * step.gradient_change
    found *= inverse_diagonal
    if memory:
        last = memory[-1].gradient_change
        found *= np.float32(1 / (memory[-1].scale * float(np.vdot(last, inverse_diagonal * last))))
    for step, factor in zip(memory, reversed(factors), strict=True):
        correction = step.scale * float(np.vdot(step.gradient_change, found))
        found += np.float32(factor - correction) * step.change
    return found


def _line_search(
    objective: ValueAndGradient,
    params: Float32Array,
    value: float,
    direction: Float32Array,
    slope: float,
) -> tuple[Float32Array, float, Float32Array] | None:
    """Return a point that satisfies the weak Wolfe conditions, by bisection; None if none is."""
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(MAX_LINE_SEARCH):
        point = params + np.float32(length) * direction
        found, gradient = objective(point)
        if found > value + ARMIJO * length * slope:
            high = length
        elif float(np.vdot(gradient, direction)) < CURVATURE * slope:
            low = length
        else:
            return point, found, gradient
        length = 2 * low if high == np.inf else (low + high) / 2
    return None
