r"""Translation metrics: exact match, BLEU and chrF by sacreBLEU, and a textbook variant of BLEU.

Conventions: exact match and the textbook BLEU run from 0 to 1; sacreBLEU's scores from 0 to 100,
with the signature that makes them reproducible. There is one reference per hypothesis.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence, Sized
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from saccade.io.normalisation import normalise_unicode
from saccade.types.arrays import FloatArray

# Scripts written without spaces between words, for which BLEU is computed on characters.
UNSPACED_SCRIPTS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # Japanese kana
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han, compatibility forms
    (0x20000, 0x323AF),  # Han, further extensions
)


class SacreBleuScore(NamedTuple):
    """A score from 0 to 100, and sacreBLEU's signature."""

    value: float
    signature: str


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the fraction of hypotheses equal to their reference, 0 to 1.

    Both are normalised to Unicode NFC and stripped of leading and trailing white space; case, inner
    spaces and punctuation matter.
    """
    check_paired(hypotheses, references)
    matches = sum(
        normalize_for_match(h) == normalize_for_match(r)
        for h, r in zip(hypotheses, references, strict=True)
    )
    return matches / len(hypotheses)


def normalize_for_match(text: str) -> str:
    """Normalise a text as `exact_match` does: NFC, stripped."""
    return normalise_unicode(text).strip()


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "auto",
    lower: bool = False,
) -> SacreBleuScore:
    r"""Return corpus BLEU computed by sacreBLEU, 0 to 100 (Papineni et al. 2002; Post 2018).

    \[ \min(1, e^{1 - r/c}) \exp \tfrac14 \sum_{n=1}^4 \ln p_n \]

    with the brevity penalty from the lengths r and c of references and hypotheses, the clipped
    n-gram precisions p_n, and sacreBLEU's default smoothing ("exp"). `tokenize` is any of
    sacreBLEU's tokenizers; "auto" is "char" where most letters of the references belong to scripts
    without spaces (Chinese, Japanese, Thai, …), else "13a". `lower` lower-cases both sides, which
    comes closest to the tokenized, lower-cased BLEU of older papers. The signature records all of
    this.
    """
    check_paired(hypotheses, references)
    if tokenize == "auto":
        tokenize = choose_sacrebleu_tokenizer(references)
    # force: no warning about text that looks tokenized, which a small model's output may do
    metric = BLEU(tokenize=tokenize, lowercase=lower, force=True)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return SacreBleuScore(float(score.score), str(metric.get_signature()))


def max_bleu_tokens(references: Sequence[str], tokenize: str = "auto") -> tuple[int, str]:
    """Return the length of the longest reference in sacreBLEU's tokens, and the tokenizer's name.

    If it is less than 4 there are no 4-grams to match, and BLEU is 0 or undefined.
    """
    if tokenize == "auto":
        tokenize = choose_sacrebleu_tokenizer(references)
    split = BLEU(tokenize=tokenize, force=True).tokenizer
    return max((len(split(text.strip()).split()) for text in references), default=0), tokenize


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "auto"
) -> FloatArray:
    """Return the sufficient statistics of corpus BLEU, one row per sentence: (N, 10).

    The matching n-grams for n = 1 to 4, the n-grams of the hypothesis, and the lengths of
    hypothesis and reference, counted by sacreBLEU as in `bleu`.
    """
    check_paired(hypotheses, references)
    if tokenize == "auto":
        tokenize = choose_sacrebleu_tokenizer(references)
    # effective_order does not change the counts, and avoids sacreBLEU's warning on sentences
    metric = BLEU(tokenize=tokenize, force=True, effective_order=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows, dtype=np.float64)


def bleu_from_statistics(sums: FloatArray) -> float:
    """Return corpus BLEU, 0 to 100, from summed rows of `bleu_statistics`; equal to `bleu`."""
    counts = [int(count) for count in sums]
    score = BLEU.compute_bleu(
        counts[:4], counts[4:8], counts[8], counts[9], smooth_method="exp", max_ngram_order=4
    )
    return float(score.score)


def chrf(
    hypotheses: Sequence[str], references: Sequence[str], lower: bool = False
) -> SacreBleuScore:
    r"""Return corpus chrF2 computed by sacreBLEU, 0 to 100 (Popović 2015).

    \[ (1 + \beta^2) \frac{P R}{\beta^2 P + R}, \quad \beta = 2 \]

    with P and R the mean precision and recall of character n-grams, n = 1 to 6, white space
    ignored. `lower` lower-cases both sides.
    """
    check_paired(hypotheses, references)
    metric = CHRF(lowercase=lower)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return SacreBleuScore(float(score.score), str(metric.get_signature()))


def choose_sacrebleu_tokenizer(references: Sequence[str]) -> str:
    """Return "char" if most letters belong to scripts without spaces, else "13a"."""
    letters = [letter for text in references for letter in text if letter.isalpha()]
    unspaced = sum(any(a <= ord(letter) <= b for a, b in UNSPACED_SCRIPTS) for letter in letters)
    return "char" if 2 * unspaced > len(letters) else "13a"


def textbook_bleu(
    hypothesis: Sequence[Hashable], reference: Sequence[Hashable], k: int = 4
) -> float:
    r"""Return the BLEU of one sentence as defined in d2l (Zhang et al., section 10.7), 0 to 1.

    \[ \exp(\min(0, 1 - r/c)) \prod_{n=1}^{k} p_n^{1/2^n} \]

    with r and c the lengths of reference and hypothesis, k the longest n-gram, and p_n the clipped
    n-gram precision. It differs from BLEU: the weights 1/2^n favour short n-grams and do not sum
    to one, and it is computed per sentence. For a hypothesis shorter than k, n runs up to its
    length; an empty hypothesis scores 0. Tokens are the items of the sequence: a string is its
    characters.
    """
    if k < 1:
        raise ValueError(f"got k = {k}; expected 1 or more.")
    if not hypothesis:
        return 0.0
    score = math.exp(min(0.0, 1 - len(reference) / len(hypothesis)))
    for n in range(1, min(k, len(hypothesis)) + 1):
        hypothesis_ngrams = ngram_counter(hypothesis, n)
        matches = (hypothesis_ngrams & ngram_counter(reference, n)).total()
        score *= (matches / hypothesis_ngrams.total()) ** (0.5**n)
    return score


def textbook_corpus_bleu(
    hypotheses: Sequence[Sequence[Hashable]],
    references: Sequence[Sequence[Hashable]],
    k: int = 4,
) -> float:
    """Return the unweighted mean of `textbook_bleu` over the sentences."""
    check_paired(hypotheses, references)
    scores = [textbook_bleu(h, r, k) for h, r in zip(hypotheses, references, strict=True)]
    return math.fsum(scores) / len(scores)


def ngram_counter(tokens: Sequence[Hashable], n: int) -> Counter[tuple[Hashable, ...]]:
    """Count the n-grams of a sequence."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def check_paired(hypotheses: Sized, references: Sized) -> None:
    """Raise ValueError unless there are equally many hypotheses and references, at least one."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ValueError("got one string; expected a list of strings; try [text].")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"got {len(hypotheses)} hypotheses and {len(references)} references; "
            "expected one reference per hypothesis."
        )
    if len(hypotheses) == 0:
        raise ValueError("got 0 hypotheses and 0 references; expected one or more.")
