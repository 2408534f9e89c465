r"""Sequential minimal optimisation: the dual of a support vector machine, two rows at a time.

    minimise ½ Σ_st α_s α_t y_s y_t K_st - Σ_t α_t   where Σ_t y_t α_t = 0 and 0 ≤ α_t ≤ C_t

Platt 1998: two is the least number that can be changed while Σ yα stays 0, and for two the least
is known in closed form. With F_t = y_t - Σ_s y_s α_s K_st (the slope, but for its sign y_t), a pair
(i, j) moves by α_i ← α_i + y_i δ, α_j ← α_j - y_j δ, where

    δ = (F_i - F_j) / (K_ii + K_jj - 2 K_ij), or what the bounds leave of it,

and then F_t ← F_t - δ (K_it - K_jt). Which pair: i has the largest F of those that may rise, j of
those that may fall promises the largest gain (F_i - F_j)² / (K_ii + K_jj - 2 K_ij) (Fan et al.
2005). When no F that may rise is above one that may fall by more than the tolerance, all is done.

As libsvm does it, but without its shrinking, and with the kernel's rows in float64. Rows of K are
computed when they are asked for and kept as long as there is room.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.compiled.jit import jit_nogil

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_PRECOMPUTED_ROWS = 1000  # as many rows or fewer are computed all at once
MIN_CURVATURE = 1e-12  # the bend along a pair, where the kernel gives none or a negative one
CONVERGED, STEP_LIMIT_REACHED = -1, -2
_FAR = 1e300  # fastmath knows no infinity


class KernelRowCache:
    """Rows of the kernel's table; the one that was not used for longest makes room."""

    def __init__(self, row: Callable[[IntArray], FloatArray], size: int, megabytes: float):
        places = min(max(int(megabytes * 2**20 / (8 * size)), 2), size)
        self.row, self.size = row, size
        self.table = np.empty((places, size))
        self.slot = np.full(size, -1)  # of each row; -1: not there
        self.row_in_slot = np.full(places, -1)
        self.last_used = np.zeros(places, np.int64)  # when
        if size <= min(MAX_PRECOMPUTED_ROWS, places):
            self.table[:] = row(np.arange(size))
            self.slot[:] = self.row_in_slot[:] = np.arange(size)

    def fetch(self, number: int) -> None:
        """Compute a row and keep it."""
        slot = int(self.last_used.argmin())
        if self.row_in_slot[slot] >= 0:
            self.slot[self.row_in_slot[slot]] = -1
        self.table[slot] = self.row(np.array([number]))[0]
        self.row_in_slot[slot], self.slot[number] = number, slot


class SMOSolution(NamedTuple):
    """The multipliers of the dual, and F."""

    alpha: FloatArray
    slope: FloatArray  # F, as above
    steps: int
    converged: bool


def solve_svm_dual(
    rows: KernelRowCache,
    diagonal: FloatArray,
    signs: FloatArray,
    bounds: FloatArray,
    tolerance: float,
    most: int,
) -> SMOSolution:
    """From α = 0, until no pair can gain more than the tolerance, or for so many steps."""
    alpha, slope = np.zeros(rows.size), signs.copy()
    counts = np.zeros(2, np.int64)  # rows used, steps taken
    while True:
        missing_row = smo_steps(
            rows.table,
            rows.slot,
            rows.last_used,
            diagonal,
            signs,
            bounds,
            alpha,
            slope,
            tolerance,
            most,
            counts,
        )
        if missing_row < 0:
            return SMOSolution(alpha, slope, int(counts[1]), missing_row == CONVERGED)
        rows.fetch(missing_row)


@jit_nogil
def smo_steps(
    table: FloatArray,
    slot: IntArray,
    last_used: IntArray,
    diagonal: FloatArray,
    signs: FloatArray,
    bounds: FloatArray,
    alpha: FloatArray,
    slope: FloatArray,
    tolerance: float,
    most: int,
    counts: IntArray,
) -> int:
    """Step after step, as long as the rows that are needed are there; the row that is not."""
    while counts[1] < most:
        i = max_violating_row(signs, bounds, alpha, slope)
        if i < 0:
            return CONVERGED
        if slot[i] < 0:
            return i
        counts[0] += 1
        last_used[slot[i]] = counts[0]
        j = second_order_partner(
            i, table[slot[i]], diagonal, signs, bounds, alpha, slope, tolerance
        )
        if j < 0:
            return CONVERGED
        if slot[j] < 0:
            return j
        counts[0] += 1
        last_used[slot[j]] = counts[0]
        update_pair(i, j, table[slot[i]], table[slot[j]], diagonal, signs, bounds, alpha, slope)
        counts[1] += 1
    return STEP_LIMIT_REACHED


@jit_nogil
def max_violating_row(
    signs: FloatArray, bounds: FloatArray, alpha: FloatArray, slope: FloatArray
) -> int:
    """The largest F of those whose yα may rise; -1 if there is none."""
    best, top = -1, -_FAR
    for t in range(len(signs)):
        may_rise = alpha[t] < bounds[t] if signs[t] > 0 else alpha[t] > 0
        if may_rise and slope[t] > top:
            best, top = t, slope[t]
    return best


@jit_nogil
def second_order_partner(
    i: int,
    row: FloatArray,
    diagonal: FloatArray,
    signs: FloatArray,
    bounds: FloatArray,
    alpha: FloatArray,
    slope: FloatArray,
    tolerance: float,
) -> int:
    """Of those whose yα may fall the one that gains most with i; -1 if all are near enough."""
    best, most, bottom = -1, 0.0, _FAR
    top = slope[i]
    for t in range(len(signs)):
        may_fall = alpha[t] > 0 if signs[t] > 0 else alpha[t] < bounds[t]
        if may_fall:
            bottom = min(bottom, slope[t])
            apart = top - slope[t]
            if apart > 0:
                gain = apart * apart / max(diagonal[i] + diagonal[t] - 2 * row[t], MIN_CURVATURE)
                if gain > most:
                    best, most = t, gain
    return best if top - bottom > tolerance else -1


@jit_nogil
def update_pair(
    i: int,
    j: int,
    row_i: FloatArray,
    row_j: FloatArray,
    diagonal: FloatArray,
    signs: FloatArray,
    bounds: FloatArray,
    alpha: FloatArray,
    slope: FloatArray,
) -> None:
    """Move a pair, as far as the bounds let it; what reaches a bound is put exactly there."""
    bend = max(diagonal[i] + diagonal[j] - 2 * row_i[j], MIN_CURVATURE)
    room_i = bounds[i] - alpha[i] if signs[i] > 0 else alpha[i]
    room_j = alpha[j] if signs[j] > 0 else bounds[j] - alpha[j]
    move = min((slope[i] - slope[j]) / bend, room_i, room_j)
    if move == room_i:
        alpha[i] = bounds[i] if signs[i] > 0 else 0.0
    else:
        alpha[i] += signs[i] * move
    if move == room_j:
        alpha[j] = 0.0 if signs[j] > 0 else bounds[j]
    else:
        alpha[j] -= signs[j] * move
    for t in range(len(slope)):
        slope[t] -= move * (row_i[t] - row_j[t])
