"""Precision, recall and F1 of labelled spans, by the rules of conlleval. Does not import torch.

A span is correct if its first token, its last token and its label are those of a true span. Of tags
that are no valid BIO, I-x starts a span where no span of type x precedes it, as in the script
conlleval of the CoNLL shared tasks (Tjong Kim Sang 2002) and in seqeval's default mode.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE_TAG = "O"


class TagSpan(NamedTuple):
    """Tokens start … end - 1 with a label."""

    start: int
    end: int
    label: str


class SpanCounts(NamedTuple):
    """Numbers of true spans, of predicted spans, and of those that are both."""

    true: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are correct; 0 without any."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the true spans that are found; 0 without any."""
        return self.correct / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.true + self.predicted
        return 2 * self.correct / total if total else 0.0


def tag_spans(tags: Sequence[str]) -> list[TagSpan]:
    """Return the spans of BIO tags, in order."""
    spans: list[TagSpan] = []
    start, label = 0, ""
    for index, tag in enumerate((*tags, OUTSIDE_TAG)):
        letter, _, name = tag.partition("-")
        if label and not (letter == "I" and name == label):
            spans.append(TagSpan(start, index, label))
            label = ""
        if letter != OUTSIDE_TAG and not label:
            start, label = index, name
    return spans


def span_counts(
    true: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]
) -> dict[str, SpanCounts]:
    """Return the counts of each label that occurs in the true or the predicted BIO tags."""
    counts: dict[str, Counter[str]] = {"true": Counter(), "predicted": Counter()}
    correct: Counter[str] = Counter()
    for true_tags, predicted_tags in zip(true, predicted, strict=True):
        found, given = tag_spans(predicted_tags), tag_spans(true_tags)
        counts["true"].update(span.label for span in given)
        counts["predicted"].update(span.label for span in found)
        correct.update(span.label for span in {*found} & {*given})
    labels = sorted({*counts["true"], *counts["predicted"]})
    return {n: SpanCounts(counts["true"][n], counts["predicted"][n], correct[n]) for n in labels}


def total_counts(by_label: Iterable[SpanCounts]) -> SpanCounts:
    """Return the sums over labels, by which micro-averaged metrics are computed."""
    sums = [sum(column) for column in zip(*by_label, strict=True)]
    return SpanCounts(*sums) if sums else SpanCounts(0, 0, 0)
