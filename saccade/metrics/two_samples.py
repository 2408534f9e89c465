r"""Do two samples come from one source? Tests that ask so, and what to do with many of them.

Conventions, stated once: p is the chance of a difference as large as the one seen, or a larger one,
if there were none. Nothing here needs scipy; the tests hold each against it.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.seeding import generator

FloatArray = NDArray[np.float64]

MAX_EXACT_KS_PAIRS = (
    10_000  # as many pairs of values or fewer are counted out; beyond, the limit is good
)


class TwoSampleResult(NamedTuple):
    """A statistic, and how often chance alone makes one as large."""

    statistic: float
    p: float


# --- numbers --------------------------------------------------------------------------------------


def kolmogorov_smirnov_test(first: ArrayLike, second: ArrayLike) -> TwoSampleResult:
    r"""D = max_x |F₁(x) - F₂(x)|: how far the two shares of values up to x are apart.

    Smirnov 1939. p is exact for small samples (`ks_exact`), else Kolmogorov's limit with Stephens'
    correction (1970) for the sizes: \(Q(\lambda) = 2 \sum_k (-1)^{k-1} e^{-2 k^2 \lambda^2}\) at
    \(\lambda = (\sqrt e + 0.12 + 0.11 / \sqrt e) D\), with e = N₁N₂ / (N₁ + N₂).
    """
    a, b = (np.sort(_sample(values)) for values in (first, second))
    both = np.concatenate([a, b])
    below_a, below_b = (np.searchsorted(values, both, side="right") for values in (a, b))
    # in steps of 1 / (N₁ N₂), so that equal distances are equal
    steps = int(np.abs(below_a * len(b) - below_b * len(a)).max())
    pairs = len(a) * len(b)
    if pairs <= MAX_EXACT_KS_PAIRS:
        return TwoSampleResult(steps / pairs, ks_exact_p_value(steps, len(a), len(b)))
    root = math.sqrt(pairs / (len(a) + len(b)))
    return TwoSampleResult(
        steps / pairs, ks_asymptotic_p_value((root + 0.12 + 0.11 / root) * steps / pairs)
    )


def ks_exact_p_value(steps: int, m: int, n: int) -> float:
    """P(D ≥ steps / mn): the share of all ways through an m × n grid that stray so far.

    P(i, j) of those to (i, j) = i / (i + j) P(i - 1, j) + j / (i + j) P(i, j - 1), and 1 where
    |i n - j m| ≥ steps; a whole diagonal at once (Hodges 1958).
    """
    if steps <= 0:
        return 1.0
    i = np.arange(m + 1)
    strayed = np.zeros(m + 1)
    for k in range(1, m + n + 1):
        j = k - i
        before = np.concatenate([[0.0], strayed[:-1]])
        strayed = before * i / k + strayed * np.maximum(j, 0) / k
        strayed[np.abs(i * n - j * m) >= steps] = 1.0
        strayed[(j < 0) | (j > n)] = 0.0
    return float(strayed[m])


def ks_asymptotic_p_value(reach: float) -> float:
    """Kolmogorov's Q(λ) for large samples (1933)."""
    if reach < 0.2:
        return 1.0  # 1 - Q is below 1e-12 there, and the sum would need many terms
    k = np.arange(1, 101)
    terms = np.exp(-2 * (k * reach) ** 2)
    return float(np.clip(2 * (terms[::2].sum() - terms[1::2].sum()), 0.0, 1.0))


# --- categories -----------------------------------------------------------------------------------


def chi_squared_test(counts: ArrayLike) -> TwoSampleResult:
    r"""Σ (O - E)² / E over a table of counts, E from its margins (Pearson 1900), no correction.

    p is that of χ² with (rows - 1)(columns - 1) degrees of freedom.
    """
    table = np.asarray(counts, np.float64)
    if table.ndim != 2 or not (np.isfinite(table) & (table >= 0)).all() or not table.sum():
        raise ValueError(f"got counts of shape {table.shape}; wanted a table of numbers from 0 on.")
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return TwoSampleResult(
        statistic, chi_squared_sf(statistic, (len(table) - 1) * (table.shape[1] - 1))
    )


def chi_squared_sf(statistic: float, degrees_of_freedom: int) -> float:
    r"""P(χ²_k ≥ x), the sum that Γ(k/2, x/2) / Γ(k/2) is for whole k."""
    x = statistic / 2
    if degrees_of_freedom <= 0 or x <= 0:
        return 1.0
    odd = degrees_of_freedom % 2
    total = math.erfc(math.sqrt(x)) if odd else 0.0
    # Σ e^-x x^a / Γ(a + 1), for a = 0, 1, … or ½, 1½, … up to k/2 - 1
    for a in np.arange(odd / 2, degrees_of_freedom / 2).tolist():
        total += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
    return min(total, 1.0)


def categorical_two_sample_test(
    first: NDArray[Any], second: NDArray[Any], min_expected: float = 5.0
) -> TwoSampleResult:
    """χ² of how often each value is there in two samples; rare ones are counted as one.

    Rare is what is expected fewer than `least` times in the smaller sample: of those χ² is not
    what the sum of squares follows.
    """
    _, which = np.unique(np.concatenate([first, second]), return_inverse=True)
    size = int(which.max(initial=0)) + 1
    table = np.stack(
        [np.bincount(part, minlength=size) for part in np.split(which, [len(first)])]
    ).astype(np.float64)
    if not len(first) or not len(second):
        raise ValueError(f"got samples of {len(first)} and {len(second)}; wanted 1 or more each.")
    share = min(len(first), len(second)) / (len(first) + len(second))
    rare = table.sum(axis=0) * share < min_expected
    return chi_squared_test(np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)]))


# --- many tests, and a score that tells the two apart ---------------------------------------------


def holm_correction(p_values: ArrayLike) -> FloatArray:
    """Each p made larger, so that all tests together err as seldom as one (Holm 1979).

    The i-th smallest of n is multiplied by n - i + 1, and is never below the one before it.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    grown = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(grown, 1.0)
    return adjusted


class AUCTestResult(NamedTuple):
    """How well a score tells the second sample from the first."""

    auc: float
    low: float  # between these two the AUC falls 95 times of 100 if there is nothing to tell
    high: float
    p: float


def auc(first: ArrayLike, second: ArrayLike) -> float:
    """The chance that a value of the second is above one of the first; ties count half."""
    a, b = np.sort(_sample(first)), _sample(second)
    under = np.searchsorted(a, b, side="left") + np.searchsorted(a, b, side="right")
    return float(under.mean()) / (2 * len(a))


def auc_permutation_test(
    first: ArrayLike, second: ArrayLike, seed: int = 0, n_resamples: int = 999
) -> AUCTestResult:
    """The AUC, beside those of `draws` divisions of the same values at random."""
    a, b = _sample(first), _sample(second)
    both = np.concatenate([a, b])
    ordered = np.sort(both)
    ranks = np.searchsorted(ordered, both, side="left") + np.searchsorted(ordered, both, "right")
    random = generator(seed, "told apart")
    drawn = np.array([random.permutation(ranks)[: len(b)].sum() / 2 for _ in range(n_resamples)])
    # Σ of the second's ranks, less what they would be among themselves
    chance = (drawn - len(b) * len(b) / 2) / (len(a) * len(b))
    found = auc(a, b)
    low, high = np.quantile(chance, [0.025, 0.975])
    as_large = int((chance >= found - 1e-12).sum())
    return AUCTestResult(found, float(low), float(high), (1 + as_large) / (1 + n_resamples))


def _sample(values: ArrayLike) -> FloatArray:
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or not len(sample) or np.isnan(sample).any():
        raise ValueError(
            f"got a sample of shape {sample.shape}; wanted a row of numbers, one at least."
        )
    return sample
