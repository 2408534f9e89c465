r"""How often words and runs of words occur, and the law that the frequencies follow.

Zipf's law: the frequency of the r-th most frequent word is f_r = C / r^α, α near 1 for single
words (Zipf 1935); for pairs and triples of words α is smaller, since there are so many of them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.word_splitting import split_words

IntArray = NDArray[np.int64]

NGRAM_ORDERS = (1, 2, 3)
FIRST_ZIPF_RANK = 10  # the few words before it bend away from the law (Mandelbrot 1953)
MIN_ZIPF_FREQUENCY = 5  # below it the curve is stairs: whole ranges of ranks have one frequency


class ZipfFit(NamedTuple):
    """The law fitted to the ranks from `first` to `last`, both included."""

    exponent: float  # α by least squares on log f = log C − α log r
    constant: float  # C of the same line
    likelihood_exponent: float  # α by maximum likelihood
    first: int
    last: int


def word_ids(lines: Iterable[str]) -> IntArray:
    """The words of a text as numbers, in the order of first sight; capitals are made small.

    Words run on over the ends of lines.
    """
    numbers: dict[str, int] = {}
    ids = [
        numbers.setdefault(word, len(numbers))
        for line in lines
        for word in split_words(line.lower())
    ]
    return np.array(ids, np.int64)


def ngram_frequencies(ids: NDArray[Any], order: int) -> IntArray:
    """How often each run of `order` ids occurs, the most frequent first."""
    if order < 1:
        raise ValueError(f"got runs of {order} tokens; wanted 1 or more.")
    tokens = runs = _numbered(ids)
    for length in range(1, order):
        # a run is the number of all but its last token, and that token: no product can overflow
        runs = _numbered(runs[:-1] * (len(ids) + 1) + tokens[length:])
    return np.sort(np.bincount(runs))[::-1].astype(np.int64)


def _numbered(ids: NDArray[Any]) -> IntArray:
    """The ids as numbers from 0 without gaps."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def rank_frequencies(ids: NDArray[Any]) -> dict[int, IntArray]:
    """`ranked` for single tokens, pairs and triples, as far as the text is long enough."""
    return {order: ngram_frequencies(ids, order) for order in NGRAM_ORDERS if len(ids) >= order}


def zipf_range(frequencies: IntArray) -> tuple[int, int]:
    """The ranks to fit: from 10 on while the frequency is 5 or more; in a small text, all."""
    last = int((frequencies >= MIN_ZIPF_FREQUENCY).sum())
    return (FIRST_ZIPF_RANK, last) if last >= 2 * FIRST_ZIPF_RANK else (1, len(frequencies))


def fit_zipf(frequencies: IntArray, first: int | None = None, last: int | None = None) -> ZipfFit:
    """The exponent in two ways, over the ranks that `zipf_range` gives or those named."""
    start, end = zipf_range(frequencies)
    first, last = start if first is None else first, end if last is None else last
    if not 1 <= first < last <= len(frequencies):
        raise ValueError(
            f"got ranks {first} to {last} of {len(frequencies)}; wanted two different ranks at "
            "least: give a longer text or a wider range."
        )
    logs = np.log(np.arange(first, last + 1))
    inside = frequencies[first - 1 : last].astype(np.float64)
    slope, height = np.polyfit(logs, np.log(inside), 1)
    likeliest = _likeliest_exponent(logs, inside)
    return ZipfFit(float(-slope), float(np.exp(height)), likeliest, first, last)


def _likeliest_exponent(logs: NDArray[np.float64], frequencies: NDArray[np.float64]) -> float:
    r"""The α that makes Π_r p(r)^f_r largest, with p(r) = r^−α / Σ_s s^−α over the range.

    There the mean of log r under the law equals the mean that was seen; the mean falls as α
    rises, so halving finds it.
    """
    seen = float(frequencies @ logs / frequencies.sum())
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        scores = -middle * logs
        shares = np.exp(scores - scores.max())
        if shares @ logs / shares.sum() > seen:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def fit_zipf_by_order(counts: Mapping[int, IntArray]) -> dict[int, ZipfFit]:
    """The law for each order that has two ranks or more."""
    return {
        order: fit_zipf(frequencies)
        for order, frequencies in counts.items()
        if len(frequencies) > 1
    }
