r"""How close answers are to references: exact match, BLEU and chrF as sacreBLEU counts them,
and the BLEU that is taught.

Conventions, stated once: `exact` and the taught BLEU run from 0 to 1, sacreBLEU's figures from
0 to 100 with the signature that makes them repeatable. There is one reference for each answer.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence, Sized
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

# Scripts written without spaces between words: words cannot be counted there, letters can.
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
    """A figure from 0 to 100, and sacreBLEU's line that says how it was counted."""

    value: float
    signature: str


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of answers equal to their reference, 0 to 1.

    Both are compared in Unicode's composed form (NFC) and without white space at the ends;
    case, inner spaces and punctuation count.
    """
    check_paired(hypotheses, references)
    same = sum(
        normalize_for_match(a) == normalize_for_match(r)
        for a, r in zip(hypotheses, references, strict=True)
    )
    return same / len(hypotheses)


def normalize_for_match(text: str) -> str:
    """The form in which `exact` compares: NFC, no white space at the ends."""
    return unicodedata.normalize("NFC", text).strip()


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "auto",
    lower: bool = False,
) -> SacreBleuScore:
    r"""Corpus BLEU as sacreBLEU counts it, 0 to 100 (Papineni et al. 2002; Post 2018).

    \[ \min(1, e^{1 - r/c}) \exp \tfrac14 \sum_{n=1}^4 \ln p_n \]

    `tokenize` is any of sacreBLEU's; "auto" counts letters ("char") where most letters of the
    references belong to scripts without spaces (Chinese, Japanese, Thai, …), else words
    ("13a"). With `lower` both sides are read in lower case, which is nearest to the tokenised,
    lower-cased BLEU of older papers. The signature says which.
    """
    check_paired(hypotheses, references)
    if tokenize == "auto":
        tokenize = choose_sacrebleu_tokenizer(references)
    # force: sacreBLEU else warns about text that looks tokenized, which a small model's may be.
    metric = BLEU(tokenize=tokenize, lowercase=lower, force=True)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return SacreBleuScore(float(score.score), str(metric.get_signature()))


def bleu_statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "auto"
) -> NDArray[np.float64]:
    """What corpus BLEU sums up, a row for each sentence: (N, 10).

    The n-grams that are right for n = 1 to 4, those written, and the lengths of answer and
    reference, counted by sacreBLEU as in `bleu`.
    """
    check_paired(hypotheses, references)
    if tokenize == "auto":
        tokenize = choose_sacrebleu_tokenizer(references)
    # the counts do not depend on effective_order; without it sacreBLEU warns about sentences
    metric = BLEU(tokenize=tokenize, force=True, effective_order=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows, dtype=np.float64)


def bleu_from_statistics(sums: NDArray[np.float64]) -> float:
    """Corpus BLEU, 0 to 100, of the summed rows of `bleu_statistics`; equal to `bleu`'s value."""
    counts = [int(count) for count in sums]
    score = BLEU.compute_bleu(
        counts[:4], counts[4:8], counts[8], counts[9], smooth_method="exp", max_ngram_order=4
    )
    return float(score.score)


def chrf(
    hypotheses: Sequence[str], references: Sequence[str], lower: bool = False
) -> SacreBleuScore:
    """Corpus chrF2, 0 to 100, as sacreBLEU counts it (Popović 2015): n-grams of letters.

    With `lower` both sides are read in lower case.
    """
    check_paired(hypotheses, references)
    metric = CHRF(lowercase=lower)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return SacreBleuScore(float(score.score), str(metric.get_signature()))


def choose_sacrebleu_tokenizer(references: Sequence[str]) -> str:
    """sacreBLEU's "char" if most letters are of scripts without spaces, else its "13a"."""
    letters = [letter for text in references for letter in text if letter.isalpha()]
    unspaced = sum(any(a <= ord(letter) <= b for a, b in UNSPACED_SCRIPTS) for letter in letters)
    return "char" if 2 * unspaced > len(letters) else "13a"


def textbook_bleu(
    hypothesis: Sequence[Hashable], reference: Sequence[Hashable], k: int = 4
) -> float:
    r"""The BLEU of one sentence as textbooks teach it, 0 to 1 (Zhang et al., d2l, 10.7).

    \[ \exp(\min(0, 1 - r/c)) \prod_{n=1}^{k} p_n^{1/2^n} \]

    with r and c the lengths of reference and answer, k the longest n-gram, and p_n the share
    of the answer's n-grams found in the reference, each at most as often as it stands there.
    It differs from BLEU: the weights 1/2^n favour short n-grams and do not sum to one, and it is
    counted by sentence. An answer shorter than k is judged up to its own length; an empty
    answer scores 0. Tokens are whatever the sequence holds: a plain string is its letters.
    """
    if k < 1:
        raise ValueError(f"k is {k}; n-grams have at least one token: give 1 or more.")
    if not hypothesis:
        return 0.0
    score = math.exp(min(0.0, 1 - len(reference) / len(hypothesis)))
    for n in range(1, min(k, len(hypothesis)) + 1):
        written, wanted = ngram_counter(hypothesis, n), ngram_counter(reference, n)
        score *= ((written & wanted).total() / written.total()) ** (0.5**n)
    return score


def textbook_corpus_bleu(
    hypotheses: Sequence[Sequence[Hashable]],
    references: Sequence[Sequence[Hashable]],
    k: int = 4,
) -> float:
    """The mean of `taught_bleu` over the sentences, each counting once, long or short."""
    check_paired(hypotheses, references)
    scores = [textbook_bleu(a, r, k) for a, r in zip(hypotheses, references, strict=True)]
    return math.fsum(scores) / len(scores)


def ngram_counter(tokens: Sequence[Hashable], n: int) -> Counter[tuple[Hashable, ...]]:
    """How often each run of n tokens occurs."""
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def check_paired(hypotheses: Sized, references: Sized) -> None:
    """Refuse lists that cannot be scored line by line."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ValueError("got one string where a list of them was wanted; put it in a list.")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"got {len(hypotheses)} answers and {len(references)} references; "
            "give one reference for each answer."
        )
    if len(hypotheses) == 0:
        raise ValueError("got 0 answers and 0 references; there is nothing to score.")
