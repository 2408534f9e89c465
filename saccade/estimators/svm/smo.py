r"""Sequential minimal optimization (SMO) of the dual of support vector machines.

    minimise ½ Σ_st α_s α_t y_s y_t K_st + Σ_t p_t α_t   where Σ_t y_t α_t = 0 and 0 ≤ α_t ≤ C_t

with y_t = ±1, and p_t = -1 for classification. Platt 1998: two multipliers are the fewest that can
change while Σ yα stays 0, and for two the minimum is known in closed form. With the scores
F_t = -y_t p_t - Σ_s y_s α_s K_st, which are -y_t times the gradient of the objective, a step on the
pair (i, j) is α_i ← α_i + y_i δ, α_j ← α_j - y_j δ,

    δ = (F_i - F_j) / (K_ii + K_jj - 2 K_ij), clipped to the bounds,

followed by F_t ← F_t - δ (K_it - K_jt). Working-set selection by second-order information (Fan et
al. 2005, "WSS 2"): i has the largest F of those whose y α may increase; j, of those whose y α may
decrease, has the largest decrease of the objective (F_i - F_j)² / (K_ii + K_jj - 2 K_ij). The
solution is optimal when the largest F of the first set exceeds the smallest of the second by no
more than the tolerance.

This is libsvm's algorithm without shrinking and with kernel rows in float64. Rows of K are computed
on demand and held in an LRU cache.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from saccade.compiled.jit import jit_nogil
from saccade.types.arrays import FloatArray, IntArray

MAX_PRECOMPUTED_ROWS = 1000  # up to this many rows, the whole kernel matrix is precomputed
MIN_CURVATURE = 1e-12  # replaces K_ii + K_jj - 2 K_ij where it is 0 or negative (libsvm: TAU)
CONVERGED, STEP_LIMIT_REACHED = -1, -2  # results of `smo_steps` that are not a row number
_INFINITY = 1e300  # fastmath assumes that there are no infinities


class KernelRowCache:
    """LRU cache of rows of the kernel matrix.

    With `copies` above 1, the matrix is that of the points repeated so many times: each of its rows
    is computed and held once.
    """

    def __init__(
        self,
        row: Callable[[IntArray], FloatArray],
        size: int,
        megabytes: float,
        copies: int = 1,
    ):
        num_slots = min(max(int(megabytes * 2**20 / (8 * size * copies)), 2), size)
        self.row, self.size, self.copies = row, size, copies
        self.table = np.empty((num_slots, size * copies))
        self.slot = np.full(size * copies, -1)  # of each row; -1: not cached
        self.row_in_slot = np.full(num_slots, -1)
        self.last_used = np.zeros(num_slots, np.int64)  # the lookup count at the last use
        if size <= min(MAX_PRECOMPUTED_ROWS, num_slots):
            self.table[:] = np.tile(row(np.arange(size)), copies)
            self.row_in_slot[:] = np.arange(size)
            self.slot[:] = np.tile(np.arange(size), copies)

    def fetch(self, number: int) -> None:
        """Compute a row and store it in the least recently used slot."""
        slot = int(self.last_used.argmin())
        if self.row_in_slot[slot] >= 0:
            self.slot[self.row_in_slot[slot] :: self.size] = -1
        point = number % self.size
        self.table[slot] = np.tile(self.row(np.array([point]))[0], self.copies)
        self.row_in_slot[slot] = point
        self.slot[point :: self.size] = slot


class SMOSolution(NamedTuple):
    """The multipliers α, and the scores F at the solution."""

    alpha: FloatArray
    scores: FloatArray  # F
    steps: int
    converged: bool


class DualConstants(NamedTuple):
    """Constants of the dual, one for each multiplier."""

    linear: FloatArray  # p_t
    signs: FloatArray  # y_t, ±1
    bounds: FloatArray  # C_t


class DualProblem(NamedTuple):
    """Constants of the dual, and its variables α and F, which are updated in place."""

    diagonal: FloatArray  # K_tt
    signs: FloatArray  # y_t, ±1
    bounds: FloatArray  # C_t
    alpha: FloatArray
    scores: FloatArray  # F


class CachedRows(NamedTuple):
    """Arrays of a `KernelRowCache`, as the kernel takes them."""

    table: FloatArray
    slot: IntArray
    last_used: IntArray
    counts: IntArray  # (2,) lookups and steps so far


def solve_svm_dual(
    rows: KernelRowCache,
    diagonal: FloatArray,
    constants: DualConstants,
    tolerance: float,
    max_steps: int,
) -> SMOSolution:
    """Solve from α = 0 until the optimality gap is within the tolerance, or for `max_steps`."""
    linear, signs, bounds = constants
    problem = DualProblem(diagonal, signs, bounds, np.zeros(len(signs)), -signs * linear)
    cached = CachedRows(rows.table, rows.slot, rows.last_used, np.zeros(2, np.int64))
    while True:
        missing_row = smo_steps(cached, problem, tolerance, max_steps)
        if missing_row < 0:
            steps, converged = int(cached.counts[1]), missing_row == CONVERGED
            return SMOSolution(problem.alpha, problem.scores, steps, converged)
        rows.fetch(missing_row)


@jit_nogil
def smo_steps(cached: CachedRows, problem: DualProblem, tolerance: float, max_steps: int) -> int:
    """Take steps while the rows they need are cached.

    Returns the number of the row to fetch, or `CONVERGED` or `STEP_LIMIT_REACHED`.
    """
    table, slot, last_used, counts = cached
    while counts[1] < max_steps:
        i = max_violating_row(problem)
        if i < 0:
            return CONVERGED
        if slot[i] < 0:
            return i
        counts[0] += 1
        last_used[slot[i]] = counts[0]
        j = second_order_partner(i, table[slot[i]], problem, tolerance)
        if j < 0:
            return CONVERGED
        if slot[j] < 0:
            return j
        counts[0] += 1
        last_used[slot[j]] = counts[0]
        update_pair(i, j, table[slot[i]], table[slot[j]], problem)
        counts[1] += 1
    return STEP_LIMIT_REACHED


@jit_nogil
def max_violating_row(problem: DualProblem) -> int:
    """Return the row with the largest F of those whose yα may increase, or -1."""
    _, signs, bounds, alpha, scores = problem
    best, best_score = -1, -_INFINITY
    for t in range(len(signs)):
        may_increase = alpha[t] < bounds[t] if signs[t] > 0 else alpha[t] > 0
        if may_increase and scores[t] > best_score:
            best, best_score = t, scores[t]
    return best


@jit_nogil
def second_order_partner(i: int, row_i: FloatArray, problem: DualProblem, tolerance: float) -> int:
    """Return the row whose step with i decreases the objective most, or -1 at the optimum."""
    diagonal, signs, bounds, alpha, scores = problem
    best, best_gain, min_score = -1, 0.0, _INFINITY
    max_score = scores[i]
    for t in range(len(signs)):
        may_decrease = alpha[t] > 0 if signs[t] > 0 else alpha[t] < bounds[t]
        if may_decrease:
            min_score = min(min_score, scores[t])
            violation = max_score - scores[t]
            if violation > 0:
                curvature = max(diagonal[i] + diagonal[t] - 2 * row_i[t], MIN_CURVATURE)
                gain = violation * violation / curvature
                if gain > best_gain:
                    best, best_gain = t, gain
    return best if max_score - min_score > tolerance else -1


@jit_nogil
def update_pair(i: int, j: int, row_i: FloatArray, row_j: FloatArray, problem: DualProblem) -> None:
    """Take the step on a pair; a multiplier that reaches a bound is set to it exactly."""
    diagonal, signs, bounds, alpha, scores = problem
    curvature = max(diagonal[i] + diagonal[j] - 2 * row_i[j], MIN_CURVATURE)
    max_step_i = bounds[i] - alpha[i] if signs[i] > 0 else alpha[i]
    max_step_j = alpha[j] if signs[j] > 0 else bounds[j] - alpha[j]
    step = min((scores[i] - scores[j]) / curvature, max_step_i, max_step_j)
    if step == max_step_i:
        alpha[i] = bounds[i] if signs[i] > 0 else 0.0
    else:
        alpha[i] += signs[i] * step
    if step == max_step_j:
        alpha[j] = 0.0 if signs[j] > 0 else bounds[j]
    else:
        alpha[j] -= signs[j] * step
    for t in range(len(scores)):
        scores[t] -= step * (row_i[t] - row_j[t])
