r"""Exact match and F1 of answers by SQuAD's official rules, and the best no-answer threshold.

Rajpurkar et al. 2016 (v1.1) and 2018 (v2.0). An answer is normalised: lower case, without ASCII
punctuation, without the articles a, an and the, runs of white space as one space. Of the normalised
texts,

    exact match = 1 if they are equal, else 0
    F1          = 2 p r / (p + r)      p, r: shares of common words (as multisets)

each the maximum over the references, and the mean over questions. The reference of a question
without an answer is the empty text; if either text is empty, F1 is 1 if both are and else 0.

References that are empty after normalisation are left out, as in the evaluation script of v2.0; if
none is left, the reference is the empty text. Words are separated by white space in every language,
so that F1 of Chinese texts is nearly the exact match.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from saccade.types.arrays import FloatArray

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScore(NamedTuple):
    """Exact match and F1 of one answer, from 0 to 1."""

    exact: float
    f1: float


def normalise_answer(text: str) -> str:
    """Return a text in lower case, without punctuation, articles and runs of white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answer_f1(predicted: str, reference: str) -> float:
    """Return the F1 of the words of two answers."""
    found, expected = (normalise_answer(text).split() for text in (predicted, reference))
    if not found or not expected:
        return float(found == expected)
    common = (Counter(found) & Counter(expected)).total()
    return 2 * common / (len(found) + len(expected))


def score_answer(predicted: str, references: Sequence[str]) -> AnswerScore:
    """Return the best scores of an answer over its references; none: it has no answer."""
    known = [text for text in references if normalise_answer(text)] or [""]
    normal = normalise_answer(predicted)
    return AnswerScore(
        float(any(normalise_answer(text) == normal for text in known)),
        max(answer_f1(predicted, text) for text in known),
    )


class BestThreshold(NamedTuple):
    """The threshold of the no-answer margin with the highest mean score."""

    threshold: float
    score: float


def best_threshold(
    margins: FloatArray, answered: FloatArray, has_answer: Sequence[bool]
) -> BestThreshold:
    """Return the threshold with the highest mean score if larger margins have no answer.

    Args:
        margins: for each question, the score of no answer minus that of the best span.
        answered: the score of the best span of each question, 0 without an answer.
        has_answer: whether each question has an answer; giving none is right, 1, if it has not.

    The threshold is between two margins that are neighbours, or outside all of them by 1.
    """
    order = np.argsort(margins, kind="stable")
    ordered = margins[order]
    gains = np.where(np.asarray(has_answer), answered, -1.0)[order]
    # the first k questions in the order of the margins are answered
    totals = float((~np.asarray(has_answer)).sum()) + np.concatenate([[0.0], np.cumsum(gains)])
    allowed = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    best = int(np.argmax(np.where(allowed, totals, -np.inf)))
    ends = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    return BestThreshold(float(ends[best] + ends[best + 1]) / 2, float(totals[best] / len(margins)))
