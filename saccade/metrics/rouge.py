r"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004), in agreement with the rouge-score package.

Conventions: scores run from 0 to 1, with one reference per hypothesis. `rouge` tokenizes as
rouge-score does (lower case, runs of a–z and 0–9) without stemming, and averages over the
hypotheses. ROUGE-L is computed on the whole text, as `rougeL`, not line by line as `rougeLsum`.
"""

import math
import re
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from saccade.metrics.translation import check_paired, ngram_counter


class RougeScore(NamedTuple):
    """Precision (of the hypothesis), recall (of the reference) and F1, their harmonic mean."""

    precision: float
    recall: float
    f1: float


def rouge_n(hypothesis: Sequence[Hashable], reference: Sequence[Hashable], n: int) -> RougeScore:
    r"""Return ROUGE-N: clipped n-gram matches over the n-grams of hypothesis and reference.

    \[ R = \frac{\sum_g \min(c_h(g), c_r(g))}{\sum_g c_r(g)}, \qquad
       P = \frac{\sum_g \min(c_h(g), c_r(g))}{\sum_g c_h(g)} \]

    Lin 2004, section 2, defines the recall. All scores are 0 if either side has no n-gram.
    """
    if n < 1:
        raise ValueError(f"got n = {n}; expected 1 or more.")
    hypothesis_ngrams, reference_ngrams = ngram_counter(hypothesis, n), ngram_counter(reference, n)
    matches = (hypothesis_ngrams & reference_ngrams).total()
    return _rouge(matches, hypothesis_ngrams.total(), reference_ngrams.total())


def rouge_l(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> RougeScore:
    r"""Return ROUGE-L, from the longest common subsequence (LCS) of hypothesis and reference.

    \[ R = LCS(r, h) / |r|, \qquad P = LCS(r, h) / |h| \]

    Lin 2004, section 3.1, with β = 1. A subsequence is in order but need not be contiguous.
    """
    return _rouge(lcs_length(hypothesis, reference), len(hypothesis), len(reference))


def lcs_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence, in O(|first| · |second|) time."""
    row = [0] * (len(second) + 1)
    for first_token in first:
        diagonal = 0  # the entry above and to the left
        for j, second_token in enumerate(second, start=1):
            above = row[j]
            row[j] = diagonal + 1 if first_token == second_token else max(above, row[j - 1])
            diagonal = above
    return row[-1]


def rouge_tokenize(text: str) -> list[str]:
    """Return the lower-cased runs of a–z and 0–9; other scripts give no tokens."""
    return re.findall("[a-z0-9]+", text.lower())


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokens: Callable[[str], Sequence[Hashable]] = rouge_tokenize,
) -> dict[str, RougeScore]:
    """Return the means of "rouge1", "rouge2" and "rougeL" over the hypotheses.

    `tokens` tokenizes a text; for scripts other than Latin use `str.split`, or `list` for
    characters.
    """
    check_paired(hypotheses, references)
    pairs = [(tokens(h), tokens(r)) for h, r in zip(hypotheses, references, strict=True)]
    return {
        "rouge1": _mean([rouge_n(h, r, 1) for h, r in pairs]),
        "rouge2": _mean([rouge_n(h, r, 2) for h, r in pairs]),
        "rougeL": _mean([rouge_l(h, r) for h, r in pairs]),
    }


def _rouge(matches: int, hypothesis_size: int, reference_size: int) -> RougeScore:
    precision, recall = matches / max(hypothesis_size, 1), matches / max(reference_size, 1)
    f1 = 2 * precision * recall / (precision + recall) if matches else 0.0
    return RougeScore(precision, recall, f1)


def _mean(scores: list[RougeScore]) -> RougeScore:
    return RougeScore(*(math.fsum(column) / len(scores) for column in zip(*scores, strict=True)))
