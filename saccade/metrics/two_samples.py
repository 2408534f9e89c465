r"""Two-sample tests, and Holm's correction for multiple tests; in agreement with SciPy.

Convention: p is the probability, under the null hypothesis of one common distribution, of a
statistic at least as large as the observed one. SciPy is not needed.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.seeding import generator
from saccade.types.arrays import FloatArray

MAX_EXACT_KS_PAIRS = 10_000  # N₁ · N₂ up to which p is exact; beyond it is asymptotic


class TwoSampleResult(NamedTuple):
    """A test statistic and its p-value."""

    statistic: float
    p: float


# --- numbers --------------------------------------------------------------------------------------


def kolmogorov_smirnov_test(first: ArrayLike, second: ArrayLike) -> TwoSampleResult:
    r"""Test D = max_x |F₁(x) - F₂(x)|, the largest difference of the empirical distributions.

    Smirnov 1939. p is exact for small samples (`ks_exact_p_value`), else Kolmogorov's limit with
    Stephens' correction (1970): \(Q(\lambda) = 2 \sum_k (-1)^{k-1} e^{-2 k^2 \lambda^2}\) at
    \(\lambda = (\sqrt e + 0.12 + 0.11 / \sqrt e) D\), with e = N₁N₂ / (N₁ + N₂).
    """
    a, b = (np.sort(_sample(values)) for values in (first, second))
    both = np.concatenate([a, b])
    below_a, below_b = (np.searchsorted(values, both, side="right") for values in (a, b))
    # in integer multiples of 1 / (N₁ N₂), so that ties are exact
    steps = int(np.abs(below_a * len(b) - below_b * len(a)).max())
    pairs = len(a) * len(b)
    if pairs <= MAX_EXACT_KS_PAIRS:
        return TwoSampleResult(steps / pairs, ks_exact_p_value(steps, len(a), len(b)))
    root = math.sqrt(pairs / (len(a) + len(b)))
    return TwoSampleResult(
        steps / pairs, ks_asymptotic_p_value((root + 0.12 + 0.11 / root) * steps / pairs)
    )


def ks_exact_p_value(steps: int, m: int, n: int) -> float:
    """Return P(D ≥ steps / mn): the fraction of lattice paths in an m × n grid that exceed D.

    The fraction of paths to (i, j) is P(i, j) = i / (i + j) P(i - 1, j) + j / (i + j) P(i, j - 1),
    and 1 where |i n - j m| ≥ steps; computed one diagonal at a time (Hodges 1958).
    """
    if steps <= 0:
        return 1.0
    i = np.arange(m + 1)
    exceeding = np.zeros(m + 1)
    for k in range(1, m + n + 1):
        j = k - i
        shifted = np.concatenate([[0.0], exceeding[:-1]])
        exceeding = shifted * i / k + exceeding * np.maximum(j, 0) / k
        exceeding[np.abs(i * n - j * m) >= steps] = 1.0
        exceeding[(j < 0) | (j > n)] = 0.0
    return float(exceeding[m])


def ks_asymptotic_p_value(scaled_statistic: float) -> float:
    """Return Kolmogorov's Q(λ) (1933), the asymptotic p-value."""
    if scaled_statistic < 0.2:
        return 1.0  # 1 - Q is below 1e-12 there, and the sum would need many terms
    k = np.arange(1, 101)
    terms = np.exp(-2 * (k * scaled_statistic) ** 2)
    return float(np.clip(2 * (terms[::2].sum() - terms[1::2].sum()), 0.0, 1.0))


# --- categories -----------------------------------------------------------------------------------


def chi_squared_test(counts: ArrayLike) -> TwoSampleResult:
    r"""Test independence in a contingency table: Σ (O - E)² / E (Pearson 1900), no correction.

    E follows from the margins; χ² has (rows - 1)(columns - 1) degrees of freedom. Agrees with
    SciPy's `chi2_contingency(correction=False)`.
    """
    table = np.asarray(counts, np.float64)
    if table.ndim != 2 or not (np.isfinite(table) & (table >= 0)).all() or not table.sum():
        raise ValueError(
            f"got counts of shape {table.shape}; expected a non-empty table of numbers, 0 or more."
        )
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return TwoSampleResult(
        statistic, chi_squared_sf(statistic, (len(table) - 1) * (table.shape[1] - 1))
    )


def chi_squared_sf(statistic: float, degrees_of_freedom: int) -> float:
    r"""Return P(χ²_k ≥ x) = Γ(k/2, x/2) / Γ(k/2), a finite sum for integer k."""
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
    """Test the frequencies of categories in two samples by χ², with rare categories merged.

    A category is rare if its expected count in the smaller sample is below `min_expected`, where
    the χ² approximation does not hold.
    """
    _, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    size = int(codes.max(initial=0)) + 1
    table = np.stack(
        [np.bincount(part, minlength=size) for part in np.split(codes, [len(first)])]
    ).astype(np.float64)
    if not len(first) or not len(second):
        raise ValueError(
            f"got samples of {len(first)} and {len(second)} values; expected 1 or more in each."
        )
    fraction = min(len(first), len(second)) / (len(first) + len(second))
    rare = table.sum(axis=0) * fraction < min_expected
    return chi_squared_test(np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)]))


# --- multiple tests, and classifier two-sample tests ----------------------------------------------


def holm_correction(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted for the family-wise error rate (Holm 1979).

    The i-th smallest of n is multiplied by n - i + 1 and is at least the one before it.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    scaled = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(scaled, 1.0)
    return adjusted


class AUCTestResult(NamedTuple):
    """The AUC of a score that separates two samples, its 95 % range under the null, and p."""

    auc: float
    low: float  # 2.5 % and 97.5 % quantiles of the AUC of random permutations
    high: float
    p: float


def auc(first: ArrayLike, second: ArrayLike) -> float:
    """Return P(value of second > value of first), ties counting half: the area under the ROC."""
    a, b = np.sort(_sample(first)), _sample(second)
    ranks = np.searchsorted(a, b, side="left") + np.searchsorted(a, b, side="right")
    return float(ranks.mean()) / (2 * len(a))


def auc_permutation_test(
    first: ArrayLike, second: ArrayLike, seed: int = 0, n_resamples: int = 999
) -> AUCTestResult:
    """Test whether the AUC exceeds that of random permutations of the two samples."""
    a, b = _sample(first), _sample(second)
    both = np.concatenate([a, b])
    ordered = np.sort(both)
    ranks = np.searchsorted(ordered, both, side="left") + np.searchsorted(ordered, both, "right")
    random = generator(seed, "told apart")
    rank_sums = [random.permutation(ranks)[: len(b)].sum() / 2 for _ in range(n_resamples)]
    # Mann–Whitney U from the rank sum of the second sample
    permuted = (np.array(rank_sums) - len(b) * len(b) / 2) / (len(a) * len(b))
    observed = auc(a, b)
    low, high = np.quantile(permuted, [0.025, 0.975])
    as_large = int((permuted >= observed - 1e-12).sum())
    return AUCTestResult(observed, float(low), float(high), (1 + as_large) / (1 + n_resamples))


def _sample(values: ArrayLike) -> FloatArray:
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or not len(sample) or np.isnan(sample).any():
        raise ValueError(
            f"got a sample of shape {sample.shape}; expected a one-dimensional array of numbers "
            "without NaN, at least one."
        )
    return sample
