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


def test_worked_by_hand():
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


def test_nothing_scores_nothing():
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
    wanted, shared = len(there), 0
    runs = [answer[i : i + n] for i in range(len(answer) - n + 1)]
    for run in runs:
        if run in there:
            there.remove(run)
            shared += 1
    got = rouge_n(answer, reference, n)
    assert got.precision == pytest.approx(shared / len(runs) if runs else 0)
    assert got.recall == pytest.approx(shared / wanted if wanted else 0)
    swapped = rouge_n(reference, answer, n)
    assert (swapped.precision, swapped.recall, swapped.f1) == (got.recall, got.precision, got.f1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4))
def test_it_is_the_rouge_score_packages(pairs):
    peer = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = peer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    answers, references = (list(column) for column in zip(*pairs, strict=True))
    theirs = [scorer.score(r, a) for a, r in pairs]
    for name, ours in rouge(answers, references).items():
        for k, figure in enumerate(("precision", "recall", "fmeasure")):
            mean = sum(getattr(one[name], figure) for one in theirs) / len(pairs)
            assert ours[k] == pytest.approx(mean)


def test_words_are_of_latin_letters_unless_said_otherwise():
    assert rouge_tokenize("Don't stop: 3.5 naïve cafés!") == [
        *["don", "t", "stop", "3", "5", "na", "ve", "caf", "s"]
    ]
    assert rouge(["日本語"], ["日本人"])["rouge1"].f1 == 0
    assert rouge(["日本語"], ["日本人"], tokens=list)["rouge1"].f1 == pytest.approx(2 / 3)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="got 2 answers and 1 references"):
        rouge(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="one string where a list"):
        rouge("ab", "ab")
    with pytest.raises(ValueError, match="n is 0; .* give 1 or more"):
        rouge_n(["a"], ["a"], 0)
