r"""ROUGE: how much of a reference an answer says again (Lin 2004).

Conventions, stated once: figures run from 0 to 1 and there is one reference for each answer.
On texts, `rouge` cuts words as the rouge-score package does (lower case, runs of the letters a
to z and digits, everything else a gap), stems nothing, and takes the mean over the answers;
ROUGE-L is that of the whole text, its lines not told apart.
"""

import math
import re
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from saccade.metrics.translation import check_paired, ngram_counter


class RougeScore(NamedTuple):
    """The share of the answer that is right, of the reference that was found, and their mean.

    f = 2 · precision · recall / (precision + recall), the harmonic mean.
    """

    precision: float
    recall: float
    f1: float


def rouge_n(hypothesis: Sequence[Hashable], reference: Sequence[Hashable], n: int) -> RougeScore:
    r"""Shared n-grams, each as often as it stands on both sides, of the n-grams of either side.

    \[ R = \frac{\sum_g \min(c_a(g), c_r(g))}{\sum_g c_r(g)}, \qquad
       P = \frac{\sum_g \min(c_a(g), c_r(g))}{\sum_g c_a(g)} \]

    Lin 2004, section 2, is the recall. A side that is shorter than n has no n-gram, and all is 0.
    """
    if n < 1:
        raise ValueError(f"n is {n}; n-grams have at least one token: give 1 or more.")
    written, wanted = ngram_counter(hypothesis, n), ngram_counter(reference, n)
    return _rouge((written & wanted).total(), written.total(), wanted.total())


def rouge_l(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> RougeScore:
    r"""The longest common subsequence, as a share of the answer and of the reference.

    \[ R = LCS(r, a) / |r|, \qquad P = LCS(r, a) / |a| \]

    Lin 2004, section 3.1, with β = 1: the tokens must come in the same order, not side by side.
    """
    return _rouge(lcs_length(hypothesis, reference), len(hypothesis), len(reference))


def lcs_length(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The length of the longest; time is the product of the lengths, one row is kept."""
    row = [0] * (len(other) + 1)
    for token in one:
        before = 0  # the row above, one to the left
        for j, its in enumerate(other, start=1):
            above = row[j]
            row[j] = before + 1 if token == its else max(above, row[j - 1])
            before = above
    return row[-1]


def rouge_tokenize(text: str) -> list[str]:
    """Runs of a to z and 0 to 9 in lower case; of other scripts nothing is left."""
    return re.findall("[a-z0-9]+", text.lower())


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokens: Callable[[str], Sequence[Hashable]] = rouge_tokenize,
) -> dict[str, RougeScore]:
    """The means of "rouge1", "rouge2" and "rougeL" over the answers, each counting once.

    `tokens` cuts a text: for other scripts than Latin give `str.split`, or `list` for letters.
    """
    check_paired(hypotheses, references)
    pairs = [(tokens(a), tokens(r)) for a, r in zip(hypotheses, references, strict=True)]
    return {
        "rouge1": _mean([rouge_n(a, r, 1) for a, r in pairs]),
        "rouge2": _mean([rouge_n(a, r, 2) for a, r in pairs]),
        "rougeL": _mean([rouge_l(a, r) for a, r in pairs]),
    }


def _rouge(shared: int, written: int, wanted: int) -> RougeScore:
    precision, recall = shared / max(written, 1), shared / max(wanted, 1)
    f1 = 2 * precision * recall / (precision + recall) if shared else 0.0
    return RougeScore(precision, recall, f1)


def _mean(scores: list[RougeScore]) -> RougeScore:
    return RougeScore(*(math.fsum(column) / len(scores) for column in zip(*scores, strict=True)))
