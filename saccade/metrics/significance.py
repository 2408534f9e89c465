r"""Is one system better than another, or is it the luck of the test set? (Koehn 2004)

Conventions, stated once: a difference is a minus b. The p-value is two-sided, with the resampled
differences moved to have their mean at 0, as if there were no difference (Riezler and Maxwell
2005); the interval holds the middle share of the resampled differences as they are. sacreBLEU
takes absolute values before it moves them, and so counts one side: its p is about half of this
one where systems differ, and close to 0 for a system against itself, where this one is 1.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.seeding import generator


class PairedBootstrapResult(NamedTuple):
    """Two systems on one test set.

    `p` is how often a difference as large as this one would be seen if there were none; `wins`
    is Koehn's share of the resampled test sets on which a is the better, ties counting half.
    """

    a: float
    b: float
    difference: float  # a - b
    low: float  # the interval of the difference
    high: float
    p: float
    win_rate: float
    n_resamples: int


def paired_bootstrap(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    *,
    statistic: Callable[[NDArray[np.float64]], float] | None = None,
    seed: int = 0,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
) -> PairedBootstrapResult:
    r"""Draw the N sentences again N at a time, the same for both systems, and see what changes.

    Koehn 2004, section 4; with δ = f(a) - f(b), and δ_i the same on the i-th of n drawn sets,

    \[ p = \frac{1 + \#\{ i : |\delta_i - \bar\delta| \ge |\delta| \}}{1 + n} \]

    so p is never 0. `scores_a` and `scores_b` are one figure a sentence (N,), whose mean is
    compared; or, with `figure`, one row of statistics a sentence (N, K): `figure` gets their sum
    over a set, as corpus BLEU does (`bleu_statistics` and `bleu_from_statistics`). `level` is
    the share of the drawn differences that the interval from `low` to `high` holds.
    """
    a, b = _table(scores_a, scores_b, statistic is None)
    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"{n_resamples} draws and an interval of {confidence_level} were asked for; wanted 1 draw or more and "
            "a level between 0 and 1."
        )
    N = len(a)
    of = statistic or (lambda sums: float(sums[0]) / N)
    random = generator(seed, "paired bootstrap")
    differences = np.empty(n_resamples)
    for i in range(n_resamples):
        times = np.bincount(random.integers(N, size=N), minlength=N)
        differences[i] = of(times @ a) - of(times @ b)
    score_a, score_b = of(a.sum(axis=0)), of(b.sum(axis=0))
    difference = score_a - score_b
    low, high = np.quantile(differences, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
    # equal systems differ by nothing in every set: rounding must not make that rare
    near = 1e-12 * max(abs(score_a), abs(score_b))
    extreme = np.abs(differences - differences.mean()) >= abs(difference) - near
    return PairedBootstrapResult(
        a=score_a,
        b=score_b,
        difference=difference,
        low=float(low),
        high=float(high),
        p=float(1 + extreme.sum()) / (1 + n_resamples),
        win_rate=float((differences > 0).mean() + (differences == 0).mean() / 2),
        n_resamples=n_resamples,
    )


def _table(
    scores_a: ArrayLike, scores_b: ArrayLike, single: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(scores_a, dtype=np.float64), np.asarray(scores_b, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(
            f"got scores of the shapes {a.shape} and {b.shape}; give both systems' for the same "
            "sentences, in the same order."
        )
    if a.ndim != (1 if single else 2):
        raise ValueError(
            f"got scores of the shape {a.shape}; wanted one figure a sentence, or with `figure` "
            "one row of statistics a sentence."
        )
    if len(a) == 0:
        raise ValueError("got the scores of 0 sentences; there is nothing to compare.")
    return (a[:, None], b[:, None]) if single else (a, b)
