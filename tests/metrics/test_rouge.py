"""ROUGE, against hand-worked cases, loops and the rouge-score package."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.metrics.rouge import RougeScore, lcs_length, rouge, rouge_l, rouge_n, rouge_tokenize

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8)
TEXT = st.lists(
    st.sampled_from(
        ["The", "cat", "cats", "sat", "running", "3.5", "don't", "é", "-", "\n", "日本"]
    ),
    max_size=12,
).map(" ".join)


def test_rouge_equals_worked_example():
    # Lin 2004, section 3.1: both share "police" and "the gunman", one of them in order.
    reference = "police killed the gunman".split()
    assert rouge_l("police kill the gunman".split(), reference) == RougeScore(0.75, 0.75, 0.75)
    assert rouge_l("the gunman kill police".split(), reference) == RougeScore(0.5, 0.5, 0.5)
    assert rouge_n("police kill the gunman".split(), reference, 2) == pytest.approx(
        RougeScore(1 / 3, 1 / 3, 1 / 3)
    )


def test_precision_and_recall_are_not_swapped():
    got = rouge_n(["a", "b", "c"], ["a", "b", "c", "d"], 1)
    assert got == pytest.approx(RougeScore(1.0, 0.75, 6 / 7))
    assert rouge_l(["a", "b", "c"], ["a", "b", "c", "d"]) == pytest.approx(got)


def test_repeating_a_word_does_not_pay():
    assert rouge_n(["the"] * 7, "the cat is on the mat".split(), 1)[:2] == (2 / 7, 2 / 6)


def test_rouge_of_empty_text_is_zero():
    for answer, reference in ([], ["a"]), (["a"], []), ([], []):
        assert rouge_n(answer, reference, 1) == rouge_l(answer, reference) == RougeScore(0, 0, 0)
    assert rouge_n(["a"], ["a"], 2) == RougeScore(0, 0, 0)


@settings(deadline=None, max_examples=60)
@given(WORDS, WORDS)
def test_the_longest_common_subsequence_is_the_longest_of_all(one, other):
    def subsequences(tokens):
        return {c for n in range(len(tokens) + 1) for c in itertools.combinations(tokens, n)}

    longest = max(map(len, subsequences(one) & subsequences(other)))
    assert lcs_length(one, other) == longest == lcs_length(other, one)


@given(WORDS, WORDS, st.integers(1, 3))
def test_shared_runs_are_counted_one_by_one(answer, reference, n):
    there = [reference[i : i + n] for i in range(len(reference) - n + 1)]
    expected_value, shared = len(there), 0
    runs = [answer[i : i + n] for i in range(len(answer) - n + 1)]
    for run in runs:
        if run in there:
            there.remove(run)
            shared += 1
    got = rouge_n(answer, reference, n)
    assert got.precision == pytest.approx(shared / len(runs) if runs else 0)
    assert got.recall == pytest.approx(shared / expected_value if expected_value else 0)
    swapped = rouge_n(reference, answer, n)
    assert (swapped.precision, swapped.recall, swapped.f1) == (got.recall, got.precision, got.f1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4))
def test_rouge_agrees_with_rouge_score(pairs):
    peer = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = peer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    answers, references = (list(column) for column in zip(*pairs, strict=True))
    theirs = [scorer.score(r, a) for a, r in pairs]
    for name, ours in rouge(answers, references).items():
        for k, figure in enumerate(("precision", "recall", "fmeasure")):
            mean = sum(getattr(one[name], figure) for one in theirs) / len(pairs)
            assert ours[k] == pytest.approx(mean)


def test_rouge_tokenizer_is_latin_by_default():
    assert rouge_tokenize("Don't stop: 3.5 naïve cafés!") == [
        *["don", "t", "stop", "3", "5", "na", "ve", "caf", "s"]
    ]
    assert rouge(["日本語"], ["日本人"])["rouge1"].f1 == 0
    assert rouge(["日本語"], ["日本人"], tokens=list)["rouge1"].f1 == pytest.approx(2 / 3)


def test_rouge_refuses_unpaired_lists():
    with pytest.raises(ValueError, match="got 2 hypotheses and 1 references"):
        rouge(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="got one string; expected a list"):
        rouge("ab", "ab")
    with pytest.raises(ValueError, match="got n = 0; expected 1 or more"):
        rouge_n(["a"], ["a"], 0)
