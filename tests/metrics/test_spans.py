"""Span scores are equal to those of seqeval."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.metrics.spans import SpanCounts, TagSpan, span_counts, tag_spans, total_counts

TAG = st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y", "B-a-b", "I-a-b"])
PAIRS = st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=9), min_size=1, max_size=5)


@given(PAIRS)
def test_scores_equal_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    true = [[a for a, _ in row] for row in pairs]
    predicted = [[b for _, b in row] for row in pairs]
    by_label = span_counts(true, predicted)
    total = total_counts(by_label.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # undefined precision is 0 there as here
        assert total.precision == pytest.approx(seqeval.precision_score(true, predicted))
        assert total.recall == pytest.approx(seqeval.recall_score(true, predicted))
        assert total.f1 == pytest.approx(seqeval.f1_score(true, predicted))
        if by_label:
            report = seqeval.classification_report(true, predicted, output_dict=True)
            for label, counts in by_label.items():
                assert counts.f1 == pytest.approx(report[label]["f1-score"])
                assert counts.true == report[label]["support"]


def test_spans_start_where_a_tag_cannot_continue() -> None:
    tags = ["I-x", "I-x", "I-y", "B-y", "O", "B-x", "I-x", "O", "I-x"]
    assert tag_spans(tags) == [
        TagSpan(0, 2, "x"),
        TagSpan(2, 3, "y"),
        TagSpan(3, 4, "y"),
        TagSpan(5, 7, "x"),
        TagSpan(8, 9, "x"),
    ]


def test_metrics_without_spans_are_zero() -> None:
    counts = total_counts(span_counts([["O"]], [["O"]]).values())
    assert counts == SpanCounts(0, 0, 0)
    assert (counts.precision, counts.recall, counts.f1) == (0, 0, 0)
