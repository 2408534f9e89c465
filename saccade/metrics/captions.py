r"""Metrics of captions with several references: BLEU, ROUGE-L and CIDEr-D.

Conventions are those of the COCO evaluation (Chen et al. 2015), on words that are already in lower
case and without punctuation:

    BLEU-n    corpus BLEU of n-grams up to n, closest reference length, no smoothing; computed by
              sacreBLEU, from 0 to 100
    ROUGE-L   F with β = 1.2 of the largest precision and the largest recall over the references,
              mean over the images, from 0 to 1
    CIDEr-D   Vedantam et al. 2015, section 4 and appendix, from 0 to 10
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from saccade.metrics.rouge import lcs_length
from saccade.metrics.translation import check_paired, ngram_counter
from saccade.types.arrays import FloatArray

Words = Sequence[str]
BLEU_ORDERS = (1, 2, 3, 4)
ROUGE_BETA = 1.2
CIDER_ORDER = 4  # the longest n-grams
CIDER_SIGMA = 6.0  # deviation, in words, of the penalty for another length
CIDER_SCALE = 10.0

_Vector = dict[Hashable, float]


def caption_bleu(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """Return BLEU-1 to BLEU-4 of captions, each of which has one reference or more."""
    _check(hypotheses, references)
    count = max(map(len, references))
    streams: Any = [  # sacreBLEU takes None where an image has fewer references
        [" ".join(texts[number]) if number < len(texts) else None for texts in references]
        for number in range(count)
    ]
    joined = [" ".join(words) for words in hypotheses]
    scores = []
    for order in BLEU_ORDERS:
        metric = BLEU(max_ngram_order=order, smooth_method="none", tokenize="none", force=True)
        scores.append(float(metric.corpus_score(joined, streams).score))
    return scores


def caption_rouge(hypothesis: Words, references: Sequence[Words]) -> float:
    r"""Return ROUGE-L of one caption: (1 + β²) P R / (R + β² P), each the best over references."""
    matches = [lcs_length(hypothesis, reference) for reference in references]
    if not hypothesis or not any(matches):
        return 0.0
    precision = max(matches) / len(hypothesis)
    recall = max(found / len(text) for found, text in zip(matches, references, strict=True))
    beta = ROUGE_BETA**2
    return (1 + beta) * precision * recall / (recall + beta * precision)


def cider_each(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> FloatArray:
    r"""Return CIDEr-D of each caption; its mean is CIDEr-D of the set.

        g_k(c) = count of the n-gram k in c · log(N / number of images with k in a reference)
        CIDEr-D_n(c, S) = 10/|S| Σ_{s ∈ S} e^{-(|c| - |s|)² / 2σ²} min(g(c), g(s)) · g(s) /
                          (‖g(c)‖ ‖g(s)‖)

    and the mean over n = 1 to 4. N is the number of images; an n-gram in no reference counts as
    one in one. As in the published code, the length is that in bigrams, and so |c| - |s| in words.
    """
    _check(hypotheses, references)
    containing: Counter[Hashable] = Counter()
    for texts in references:
        containing.update({gram for text in texts for gram in _ngrams(text)})
    log_images = math.log(len(references))

    def weigh(text: Words) -> list[_Vector]:
        vectors: list[_Vector] = [{} for _ in range(CIDER_ORDER)]
        for gram, count in _ngrams(text).items():
            weight = log_images - math.log(max(1, containing[gram]))
            vectors[len(gram) - 1][gram] = count * weight
        return vectors

    scores = []
    for hypothesis, texts in zip(hypotheses, references, strict=True):
        own = weigh(hypothesis)
        found = [_similarity(own, weigh(text), len(hypothesis) - len(text)) for text in texts]
        scores.append(CIDER_SCALE * sum(found) / len(found))
    return np.array(scores, np.float64)


def _similarity(one: list[_Vector], two: list[_Vector], longer: int) -> float:
    """Return the mean over n of the clipped cosine, with the penalty for the length."""
    total = 0.0
    for a, b in zip(one, two, strict=True):
        lengths = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
        if lengths:
            total += sum(min(v, b.get(gram, 0.0)) * b.get(gram, 0.0) for gram, v in a.items()) / (
                lengths
            )
    return total / len(one) * math.exp(-(longer**2) / (2 * CIDER_SIGMA**2))


def _ngrams(words: Words) -> Counter[tuple[Hashable, ...]]:
    counts: Counter[tuple[Hashable, ...]] = Counter()
    for n in range(1, CIDER_ORDER + 1):
        counts += ngram_counter(words, n)
    return counts


def _check(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> None:
    check_paired(hypotheses, references)
    if not all(references):
        raise ValueError("got an image without references; expected one or more for each.")
