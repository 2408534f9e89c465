r"""Paired bootstrap test of the difference between two systems (Koehn 2004).

Conventions: a difference is a minus b. The p-value is two-sided, with the resampled differences
shifted to mean 0, the null hypothesis (Riezler and Maxwell 2005); the confidence interval is the
percentile interval of the unshifted differences. sacreBLEU's paired bootstrap takes absolute values
before it shifts them, which makes its test one-sided: its p is about half of this one where systems
differ, and close to 0 for a system against itself, where this one is 1.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from saccade.seeding import generator
from saccade.types.arrays import FloatArray


class PairedBootstrapResult(NamedTuple):
    """Comparison of two systems on one test set.

    `p` is the two-sided p-value; `win_rate` is Koehn's fraction of resampled test sets on which a
    scores higher, ties counting half.
    """

    a: float
    b: float
    difference: float  # a - b
    low: float  # confidence interval of the difference
    high: float
    p: float
    win_rate: float
    n_resamples: int


def paired_bootstrap(
    scores_a: ArrayLike,
    scores_b: ArrayLike,
    *,
    statistic: Callable[[FloatArray], float] | None = None,
    seed: int = 0,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
) -> PairedBootstrapResult:
    r"""Resample the N sentences with replacement, the same for both systems, `n_resamples` times.

    Koehn 2004, section 4; with δ = f(a) - f(b), and δ_i the same on the i-th of n resamples,

    \[ p = \frac{1 + \#\{ i : |\delta_i - \bar\delta| \ge |\delta| \}}{1 + n} \]

    so p is never 0. `scores_a` and `scores_b` are one score per sentence (N,), whose mean is
    compared; or, with `statistic`, one row of statistics per sentence (N, K): `statistic` gets
    their sum over a resample, as for corpus BLEU (`bleu_statistics`, `bleu_from_statistics`).
    """
    a, b = _table(scores_a, scores_b, statistic is None)
    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"got {n_resamples} resamples and a confidence level of {confidence_level}; expected 1 "
            "resample or more and a level between 0 and 1."
        )
    N = len(a)
    score = statistic or (lambda sums: float(sums[0]) / N)
    random = generator(seed, "paired bootstrap")
    differences = np.empty(n_resamples)
    for i in range(n_resamples):
        counts = np.bincount(random.integers(N, size=N), minlength=N)
        differences[i] = score(counts @ a) - score(counts @ b)
    score_a, score_b = score(a.sum(axis=0)), score(b.sum(axis=0))
    difference = score_a - score_b
    low, high = np.quantile(differences, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
    # identical systems have a difference of 0 in every resample; rounding must not change that
    tolerance = 1e-12 * max(abs(score_a), abs(score_b))
    extreme = np.abs(differences - differences.mean()) >= abs(difference) - tolerance
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


def _table(scores_a: ArrayLike, scores_b: ArrayLike, single: bool) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(scores_a, dtype=np.float64), np.asarray(scores_b, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(
            f"got scores of the shapes {a.shape} and {b.shape}; expected scores of both systems "
            "for the same sentences, in the same order."
        )
    if a.ndim != (1 if single else 2):
        raise ValueError(
            f"got scores of the shape {a.shape}; expected one score per sentence, or with "
            "`statistic` one row of statistics per sentence."
        )
    if len(a) == 0:
        raise ValueError("got the scores of 0 sentences; expected one or more.")
    return (a[:, None], b[:, None]) if single else (a, b)
