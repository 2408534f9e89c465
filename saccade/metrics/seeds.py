r"""Statistics of scores over seeds: the interquartile mean with a stratified bootstrap interval.

Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice". Agrees
with rliable: `scipy.stats.trim_mean(scores, 0.25)` and percentile intervals of resampled runs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from saccade.seeding import generator
from saccade.types.arrays import FloatArray

TRIMMED_SHARE = 0.25  # at each end
BOOTSTRAP_CHUNK = 1 << 20  # scores resampled at a time


class SeedInterval(NamedTuple):
    """An interquartile mean with its confidence interval."""

    iqm: float
    low: float
    high: float
    runs: int


def interquartile_mean(scores: ArrayLike, axis: int | None = None) -> FloatArray:
    r"""Return the mean of the middle half of the scores: without ⌊n / 4⌋ at each end.

    Less sensitive to single runs than the mean, with a smaller variance than the median.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=axis)
    axis = 0 if axis is None else axis
    n = ordered.shape[axis]
    if n == 0:
        raise ValueError("got no scores; expected one or more.")
    cut = int(TRIMMED_SHARE * n)
    middle = np.take(ordered, np.arange(cut, n - cut), axis=axis)
    return np.asarray(middle.mean(axis=axis))


def stratified_bootstrap(
    scores: Sequence[ArrayLike],
    *,
    seed: int = 0,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
) -> SeedInterval:
    """Return the interquartile mean of the scores of all tasks, and its percentile interval.

    `scores` has one sequence for each task (stratum), a score for each run. Each resample draws, in
    each task, as many runs with replacement as there are; the statistic is over all of them.
    """
    strata = [np.asarray(task, dtype=np.float64) for task in scores]
    if not strata or any(task.ndim != 1 or len(task) == 0 for task in strata):
        raise ValueError(
            f"got scores of the shapes {[task.shape for task in strata]}; expected one sequence of "
            "scores for each task, none of them empty."
        )
    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"got {n_resamples} resamples and a confidence level of {confidence_level}; expected 1 "
            "resample or more and a level between 0 and 1."
        )
    random = generator(seed, "stratified bootstrap")
    size = sum(len(task) for task in strata)
    statistics = []
    rows = max(BOOTSTRAP_CHUNK // size, 1)
    for start in range(0, n_resamples, rows):
        count = min(rows, n_resamples - start)
        drawn = [task[random.integers(len(task), size=(count, len(task)))] for task in strata]
        statistics.append(interquartile_mean(np.concatenate(drawn, axis=1), axis=1))
    tail = (1 - confidence_level) / 2
    low, high = np.quantile(np.concatenate(statistics), [tail, 1 - tail])
    return SeedInterval(
        float(interquartile_mean(np.concatenate(strata))), float(low), float(high), size
    )
