r"""Language-model metrics: cross-entropy, perplexity, bits per character and per word.

Conventions: log-probabilities are natural logarithms, as `log_softmax` returns them, one for each
event (a predicted token, including end-of-sequence tokens if the model predicts them). Results
state their unit and the number of events that they average over. Values per token of different
vocabularies are not comparable; values per character or per word are.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from saccade.types.arrays import FloatArray


class LanguageMetric(NamedTuple):
    """A value, the number of events that it averages over, and its unit."""

    value: float
    num_events: int
    unit: str


# --- distributions ------------------------------------------------------------------------------


def entropy(p: ArrayLike, base: float = 2.0) -> float:
    r"""Return H(p) = -Σ_i p_i log_b p_i of a distribution, in bits, or nats with `base=math.e`.

    Shannon 1948; 0 log 0 = 0. Agrees with `scipy.stats.entropy`.
    """
    return distribution_cross_entropy(p, p, base)


def distribution_cross_entropy(p: ArrayLike, q: ArrayLike, base: float = 2.0) -> float:
    r"""Return H(p, q) = -Σ_i p_i log_b q_i, the mean length of a code for q on samples of p.

    In bits, or nats with `base=math.e`. At least H(p); infinite if q is 0 where p is not.
    """
    log_base = _log_base(base)
    true, predicted = _distribution(p, "p"), _distribution(q, "q")
    if true.shape != predicted.shape:
        raise ValueError(
            f"got p with {true.size} outcomes and q with {predicted.size}; expected probabilities "
            "of the same outcomes, in the same order."
        )
    support = true > 0
    if (predicted[support] == 0).any():
        return math.inf
    return float(-(true[support] * np.log(predicted[support])).sum()) / log_base + 0.0  # never -0


def kl_divergence(p: ArrayLike, q: ArrayLike, base: float = 2.0) -> float:
    r"""Return D(p ‖ q) = Σ_i p_i log_b (p_i / q_i) = H(p, q) - H(p).

    In bits, or nats with `base=math.e`. Kullback and Leibler 1951. Zero only for q = p, infinite
    if q is 0 where p is not; not symmetric.
    """
    # rounding may give a slightly negative difference
    return max(distribution_cross_entropy(p, q, base) - entropy(p, base), 0.0)


def _distribution(p: ArrayLike, name: str) -> FloatArray:
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"got {name} of shape {values.shape}; expected a one-dimensional array of "
            "probabilities."
        )
    if not (values >= 0).all() or abs(values.sum() - 1) > 1e-6:
        raise ValueError(
            f"got {name} with a minimum of {values.min():g} and a sum of {values.sum():g}; "
            "expected probabilities, 0 or more, that sum to 1; try dividing counts by their sum, "
            "or a softmax of logits."
        )
    return values


def _log_base(base: float) -> float:
    if not base > 1:
        raise ValueError(f"got base {base}; expected more than 1: 2 for bits, math.e for nats.")
    return math.log(base)


# --- texts under a model ------------------------------------------------------------------------


def text_cross_entropy(
    log_probabilities: ArrayLike, base: float = 2.0, num_events: int | None = None
) -> LanguageMetric:
    r"""Return the cross-entropy -1/N Σ_t log_b P(x_t | x_<t) of a text, in bits by default.

    N is the number of log-probabilities unless `num_events` is given, for a text that is predicted
    in one unit and measured in another (subwords and words).
    """
    total, N = _sum_log_probabilities(log_probabilities, num_events)
    return LanguageMetric(-total / N / _log_base(base) + 0.0, N, f"{_unit(base)} per event")


def perplexity(log_probabilities: ArrayLike, num_events: int | None = None) -> LanguageMetric:
    r"""Return exp(-1/N Σ_t ln P(x_t | x_<t)) = (Π_t 1 / P(x_t | x_<t))^{1/N}.

    The geometric mean of 1/P (not the harmonic mean, as it is often called): the number of equally
    probable outcomes with the same uncertainty. 1 for a model that is always certain and right, V
    for the uniform distribution over V tokens. `num_events` is as in `text_cross_entropy`: the
    number of words gives the word-level perplexity.
    """
    total, N = _sum_log_probabilities(log_probabilities, num_events)
    with np.errstate(over="ignore"):
        return LanguageMetric(float(np.exp(-total / N)), N, "equally probable outcomes per event")


def bits_per_character(log_probabilities: ArrayLike, text: str) -> LanguageMetric:
    r"""Return -Σ_t log_2 P(x_t | x_<t) / |text|, summed over all events of the text.

    A character is a Unicode code point, including spaces and line ends, as `len` counts them;
    end-of-sequence tokens add to the sum but not to the characters. Bits per byte have
    `len(text.encode())` as the denominator instead.
    """
    total, N = _sum_log_probabilities(log_probabilities, len(text))
    return LanguageMetric(-total / N / math.log(2) + 0.0, N, "bits per character")


def bits_per_word(log_probabilities: ArrayLike, text: str) -> LanguageMetric:
    r"""Return -Σ_t log_2 P(x_t | x_<t) / words, summed over all events of the text.

    Words are separated by white space, as in `str.split`; end-of-sequence tokens add to the sum but
    not to the words. Two to this power is the word-level perplexity.
    """
    total, N = _sum_log_probabilities(log_probabilities, len(text.split()))
    return LanguageMetric(-total / N / math.log(2) + 0.0, N, "bits per word")


def _sum_log_probabilities(
    log_probabilities: ArrayLike, num_events: int | None
) -> tuple[float, int]:
    values = np.asarray(log_probabilities, dtype=np.float64)
    if values.size == 0:
        raise ValueError("got no log-probabilities; expected one or more.")
    if (values > 1e-4).any():  # rounding may give slightly more than 0
        raise ValueError(
            f"got a log-probability of {values.max():g}; expected natural logarithms of "
            "probabilities, 0 or less; a loss has the opposite sign."
        )
    count = values.size if num_events is None else num_events
    if count < 1:
        raise ValueError(f"got {count} events; expected 1 or more to average over.")
    return math.fsum(values.ravel()), count


def _unit(base: float) -> str:
    return {2.0: "bits", math.e: "nats"}.get(base, f"units of log {base:g}")
