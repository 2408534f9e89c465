r"""N-gram frequencies by rank, and fits of Zipf's law to them.

Zipf's law: the frequency of the r-th most frequent word is f_r = C / r^α, with α near 1 for words
(Zipf 1935) and smaller for bigrams and trigrams, which are more numerous and rarer.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.word_splitting import split_words
from saccade.types.arrays import IntArray

NGRAM_ORDERS = (1, 2, 3)
FIRST_ZIPF_RANK = 10  # the most frequent words deviate from the power law (Mandelbrot 1953)
MAX_ZIPF_FACTOR = 4.0  # a frequency further from the line than this: no power law
MIN_ZIPF_FREQUENCY = 5  # below it many ranks share one frequency


class ZipfFit(NamedTuple):
    """Zipf's law fitted to the ranks from `first` to `last`, both included."""

    exponent: float  # α by least squares on log f = log C − α log r
    constant: float  # C of the same line
    likelihood_exponent: float  # α by maximum likelihood
    first: int
    last: int
    max_factor: float = 1.0  # the largest ratio of a frequency and the line, or of both reversed

    @property
    def follows_line(self) -> bool:
        """True if no frequency is far from the line."""
        return self.max_factor <= MAX_ZIPF_FACTOR


def word_ids(lines: Iterable[str]) -> IntArray:
    """Return the lower-cased words of a text as ids, numbered by first occurrence.

    Lines are concatenated, so n-grams cross line ends. A text without spaces between words is
    split into characters (`split_words`).
    """
    vocabulary: dict[str, int] = {}
    ids = [
        vocabulary.setdefault(word, len(vocabulary))
        for line in lines
        for word in split_words(line.lower())
    ]
    return np.array(ids, np.int64)


def ngram_frequencies(ids: NDArray[Any], order: int) -> IntArray:
    """Return the frequency of each n-gram of ids (n = `order`), the most frequent first."""
    if order < 1:
        raise ValueError(f"got n-grams of {order} tokens; expected 1 or more.")
    tokens = ngrams = _consecutive(ids)
    for length in range(1, order):
        # renumber the prefix after each token, so that no product can overflow
        ngrams = _consecutive(ngrams[:-1] * (len(ids) + 1) + tokens[length:])
    return np.sort(np.bincount(ngrams))[::-1].astype(np.int64)


def _consecutive(ids: NDArray[Any]) -> IntArray:
    """Renumber ids from 0 without gaps."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def rank_frequencies(ids: NDArray[Any]) -> dict[int, IntArray]:
    """Return `ngram_frequencies` of n = 1, 2, 3, as far as the text is long enough."""
    return {order: ngram_frequencies(ids, order) for order in NGRAM_ORDERS if len(ids) >= order}


def zipf_range(frequencies: IntArray) -> tuple[int, int]:
    """Return the ranks to fit: from 10 while the frequency is at least 5; in a small text, all."""
    last = int((frequencies >= MIN_ZIPF_FREQUENCY).sum())
    return (FIRST_ZIPF_RANK, last) if last >= 2 * FIRST_ZIPF_RANK else (1, len(frequencies))


def fit_zipf(frequencies: IntArray, first: int | None = None, last: int | None = None) -> ZipfFit:
    """Fit the exponent by least squares and by maximum likelihood over a range of ranks.

    The default range is that of `zipf_range`.
    """
    start, end = zipf_range(frequencies)
    first, last = start if first is None else first, end if last is None else last
    if not 1 <= first < last <= len(frequencies):
        raise ValueError(
            f"got ranks {first} to {last} of {len(frequencies)}; expected at least two different "
            "ranks: give a longer text or a wider range."
        )
    logs = np.log(np.arange(first, last + 1))
    inside = frequencies[first - 1 : last].astype(np.float64)
    slope, height = np.polyfit(logs, np.log(inside), 1)
    likelihood_exponent = _max_likelihood_exponent(logs, inside)
    distance = float(np.abs(np.log(inside) - height - slope * logs).max())
    return ZipfFit(
        float(-slope),
        float(np.exp(height)),
        likelihood_exponent,
        first,
        last,
        float(np.exp(distance)),
    )


def _max_likelihood_exponent(logs: NDArray[np.float64], frequencies: NDArray[np.float64]) -> float:
    r"""Return the α that maximises Π_r p(r)^f_r, with p(r) = r^−α / Σ_s s^−α over the range.

    At the maximum the mean of log r under p equals the observed mean; the mean falls as α rises,
    so bisection finds it.
    """
    observed = float(frequencies @ logs / frequencies.sum())
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        scores = -middle * logs
        shares = np.exp(scores - scores.max())
        if shares @ logs / shares.sum() > observed:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def fit_zipf_by_order(counts: Mapping[int, IntArray]) -> dict[int, ZipfFit]:
    """Fit Zipf's law to each order that has at least two ranks."""
    return {
        order: fit_zipf(frequencies)
        for order, frequencies in counts.items()
        if len(frequencies) > 1
    }
