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

from saccade.compiled import compiled

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

AT_ONCE = 1000  # as many rows or fewer are computed all at once
FLATTEST = 1e-12  # the bend along a pair, where the kernel gives none or a negative one
DONE, TIRED = -1, -2
_FAR = 1e300  # fastmath knows no infinity


class Rows:
    """Rows of the kernel's table; the one that was not used for longest makes room."""

    def __init__(self, row: Callable[[Whole], Floats], size: int, megabytes: float):
        places = min(max(int(megabytes * 2**20 / (8 * size)), 2), size)
        self.row, self.size = row, size
        self.table = np.empty((places, size))
        self.place = np.full(size, -1)  # of each row; -1: not there
        self.owner = np.full(places, -1)
        self.used = np.zeros(places, np.int64)  # when
        if size <= min(AT_ONCE, places):
            self.table[:] = row(np.arange(size))
            self.place[:] = self.owner[:] = np.arange(size)

    def fetch(self, number: int) -> None:
        """Compute a row and keep it."""
        place = int(self.used.argmin())
        if self.owner[place] >= 0:
            self.place[self.owner[place]] = -1
        self.table[place] = self.row(np.array([number]))[0]
        self.owner[place], self.place[number] = number, place


class Solved(NamedTuple):
    """The multipliers of the dual, and F."""

    alpha: Floats
    slope: Floats  # F, as above
    steps: int
    finished: bool


def solve(
    rows: Rows, diagonal: Floats, signs: Floats, bounds: Floats, tolerance: float, most: int
) -> Solved:
    """From α = 0, until no pair can gain more than the tolerance, or for so many steps."""
    alpha, slope = np.zeros(rows.size), signs.copy()
    counts = np.zeros(2, np.int64)  # rows used, steps taken
    while True:
        asked = descend(
            rows.table,
            rows.place,
            rows.used,
            diagonal,
            signs,
            bounds,
            alpha,
            slope,
            tolerance,
            most,
            counts,
        )
        if asked < 0:
            return Solved(alpha, slope, int(counts[1]), asked == DONE)
        rows.fetch(asked)


@compiled
def descend(
    table: Floats,
    place: Whole,
    used: Whole,
    diagonal: Floats,
    signs: Floats,
    bounds: Floats,
    alpha: Floats,
    slope: Floats,
    tolerance: float,
    most: int,
    counts: Whole,
) -> int:
    """Step after step, as long as the rows that are needed are there; the row that is not."""
    while counts[1] < most:
        i = highest(signs, bounds, alpha, slope)
        if i < 0:
            return DONE
        if place[i] < 0:
            return i
        counts[0] += 1
        used[place[i]] = counts[0]
        j = partner(i, table[place[i]], diagonal, signs, bounds, alpha, slope, tolerance)
        if j < 0:
            return DONE
        if place[j] < 0:
            return j
        counts[0] += 1
        used[place[j]] = counts[0]
        step(i, j, table[place[i]], table[place[j]], diagonal, signs, bounds, alpha, slope)
        counts[1] += 1
    return TIRED


@compiled
def highest(signs: Floats, bounds: Floats, alpha: Floats, slope: Floats) -> int:
    """The largest F of those whose yα may rise; -1 if there is none."""
    best, top = -1, -_FAR
    for t in range(len(signs)):
        may_rise = alpha[t] < bounds[t] if signs[t] > 0 else alpha[t] > 0
        if may_rise and slope[t] > top:
            best, top = t, slope[t]
    return best


@compiled
def partner(
    i: int,
    row: Floats,
    diagonal: Floats,
    signs: Floats,
    bounds: Floats,
    alpha: Floats,
    slope: Floats,
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
                gain = apart * apart / max(diagonal[i] + diagonal[t] - 2 * row[t], FLATTEST)
                if gain > most:
                    best, most = t, gain
    return best if top - bottom > tolerance else -1


@compiled
def step(
    i: int,
    j: int,
    row_i: Floats,
    row_j: Floats,
    diagonal: Floats,
    signs: Floats,
    bounds: Floats,
    alpha: Floats,
    slope: Floats,
) -> None:
    """Move a pair, as far as the bounds let it; what reaches a bound is put exactly there."""
    bend = max(diagonal[i] + diagonal[j] - 2 * row_i[j], FLATTEST)
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
