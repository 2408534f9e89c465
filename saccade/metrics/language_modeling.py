r"""How well a model of language guesses: entropy, perplexity, bits a character.

Conventions, stated once: log-probabilities that are handed in are natural, as `log_softmax`
gives them, one for each event (a token the model had to guess, end marks among them if it had
to guess those). What comes out says its unit, and over how many events it is a mean: figures
per token of different vocabularies cannot be compared, those per character or word can.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class LanguageMetric(NamedTuple):
    """A figure, the number of events that it is a mean over, and what it is counted in."""

    value: float
    num_events: int
    unit: str


# --- of distributions ---------------------------------------------------------------------------


def entropy(p: ArrayLike, base: float = 2.0) -> float:
    r"""H(p) = -Σ_i p_i log_b p_i, of a distribution; in bits, or nats with `base=math.e`.

    Shannon 1948. What cannot happen adds nothing: 0 log 0 = 0.
    """
    return distribution_cross_entropy(p, p, base)


def distribution_cross_entropy(p: ArrayLike, q: ArrayLike, base: float = 2.0) -> float:
    r"""H(p, q) = -Σ_i p_i log_b q_i: the mean length of a code made for q when p happens.

    In bits, or nats with `base=math.e`. At least H(p), and infinite if q excludes what p may do.
    """
    logs = _logarithm(base)
    sure, guess = _distribution(p, "p"), _distribution(q, "q")
    if sure.shape != guess.shape:
        raise ValueError(
            f"p has {sure.size} outcomes and q has {guess.size}; give both a probability for "
            "the same outcomes, in the same order."
        )
    happens = sure > 0
    if (guess[happens] == 0).any():
        return math.inf
    return float(-(sure[happens] * np.log(guess[happens])).sum()) / logs + 0.0  # never -0


def kl_divergence(p: ArrayLike, q: ArrayLike, base: float = 2.0) -> float:
    r"""D(p ‖ q) = Σ_i p_i log_b (p_i / q_i) = H(p, q) - H(p): what guessing q costs too much.

    In bits, or nats with `base=math.e`. Kullback and Leibler 1951. Zero only for q = p, infinite
    if q excludes what p may do; the two sides cannot be swapped.
    """
    return max(
        distribution_cross_entropy(p, q, base) - entropy(p, base), 0.0
    )  # rounding may go below


def _distribution(p: ArrayLike, name: str) -> NDArray[np.float64]:
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} has the shape {values.shape}; wanted one row of probabilities.")
    if not (values >= 0).all() or abs(values.sum() - 1) > 1e-6:
        raise ValueError(
            f"{name} has a least value of {values.min():g} and sums to {values.sum():g}; wanted "
            "probabilities, 0 or more, that sum to 1: divide counts by their sum, give logits to "
            "a softmax."
        )
    return values


def _logarithm(base: float) -> float:
    if not base > 1:
        raise ValueError(f"the base is {base}; wanted more than 1: 2 for bits, math.e for nats.")
    return math.log(base)


# --- of a text under a model --------------------------------------------------------------------


def text_cross_entropy(
    log_probabilities: ArrayLike, base: float = 2.0, num_events: int | None = None
) -> LanguageMetric:
    r"""-1/N Σ_t log_b P(x_t | x_<t): the mean surprise at a text, in bits or units of `base`.

    By default N is the number of log-probabilities; `events` states another, when a text is
    guessed in one kind of piece and measured in another (subwords and words).
    """
    total, N = _summed(log_probabilities, num_events)
    return LanguageMetric(-total / N / _logarithm(base) + 0.0, N, f"{_unit(base)} an event")


def perplexity(log_probabilities: ArrayLike, num_events: int | None = None) -> LanguageMetric:
    r"""exp(-1/N Σ_t ln P(x_t | x_<t)) = (Π_t 1 / P(x_t | x_<t))^{1/N}, whatever the base.

    The geometric mean of 1/P, the number of equally likely choices that would be as hard to
    guess (it is often called their harmonic mean; that is another number). 1 for a model that is
    always sure and right, V for one that guesses blindly among V. `events` is as in
    `text_cross_entropy`: the number of words there gives the perplexity by word.
    """
    total, N = _summed(log_probabilities, num_events)
    with np.errstate(over="ignore"):
        return LanguageMetric(float(np.exp(-total / N)), N, "equally likely choices an event")


def bits_per_character(log_probabilities: ArrayLike, text: str) -> LanguageMetric:
    r"""-Σ_t log_2 P(x_t | x_<t) / |text|, of all the events that wrote the text.

    A character is a code point of Unicode, spaces and line ends included, as `len` counts; end
    marks add to the sum and are no character. Divide by `len(text.encode())` for bits a byte.
    """
    total, N = _summed(log_probabilities, len(text))
    return LanguageMetric(-total / N / math.log(2) + 0.0, N, "bits a character")


def bits_per_word(log_probabilities: ArrayLike, text: str) -> LanguageMetric:
    r"""-Σ_t log_2 P(x_t | x_<t) / words, of all the events that wrote the text.

    A word is what white space parts, as `str.split` does; end marks add to the sum and are no
    word. Two to the power of it is the perplexity by word.
    """
    total, N = _summed(log_probabilities, len(text.split()))
    return LanguageMetric(-total / N / math.log(2) + 0.0, N, "bits a word")


def _summed(log_probabilities: ArrayLike, num_events: int | None) -> tuple[float, int]:
    values = np.asarray(log_probabilities, dtype=np.float64)
    if values.size == 0:
        raise ValueError("got no log-probabilities; there is nothing to measure.")
    if (values > 1e-4).any():  # a sure guess may be rounded to a little more than 0
        raise ValueError(
            f"got a log-probability of {values.max():g}; wanted natural logarithms of "
            "probabilities, 0 or less: a loss has the other sign."
        )
    count = values.size if num_events is None else num_events
    if count < 1:
        raise ValueError(f"the figure is to be a mean over {count} events; wanted 1 or more.")
    return math.fsum(values.ravel()), count


def _unit(base: float) -> str:
    return {2.0: "bits", math.e: "nats"}.get(base, f"units of log {base:g}")
