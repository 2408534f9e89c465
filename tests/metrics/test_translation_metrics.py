"""Figures for translations, against hand-worked cases, published ones and other code."""

import logging
import math
import unicodedata
from collections import Counter

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.metrics.translation import (
    bleu,
    choose_sacrebleu_tokenizer,
    chrf,
    exact_match,
    textbook_bleu,
    textbook_corpus_bleu,
)

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9)


def slow_bleu(answers: list[str], references: list[str]) -> float:
    """Papineni et al. 2002, equations (1) to (3), for text of words and spaces only."""
    found, written, c, r = Counter(), Counter(), 0, 0
    for answer, reference in zip(answers, references, strict=True):
        a, b = answer.split(), reference.split()
        c, r = c + len(a), r + len(b)
        for n in range(1, 5):
            there = [tuple(b[i : i + n]) for i in range(len(b) - n + 1)]
            for i in range(len(a) - n + 1):
                written[n] += 1
                if tuple(a[i : i + n]) in there:
                    there.remove(tuple(a[i : i + n]))
                    found[n] += 1
    mean = sum(math.log(found[n] / written[n]) for n in range(1, 5)) / 4
    return 100 * math.exp(min(0, 1 - r / c)) * math.exp(mean)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_bleu_is_the_papers(pairs):
    # One right sentence of four words keeps every precision above zero: no smoothing enters.
    answers = ["a b c d", *(" ".join(a) for a, _ in pairs)]
    references = ["a b c d", *(" ".join(r) for _, r in pairs)]
    assert bleu(answers, references).value == pytest.approx(slow_bleu(answers, references))


def test_bleu_worked_by_hand():
    # 5 words of 6 stand in the reference, 3 pairs of 5, 2 threes of 4, 1 four of 3.
    got = bleu(["the cat sat on the mat"], ["the cat sat on a mat"]).value
    assert got == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


def test_a_short_answer_is_punished():
    got = bleu(["a b c d"], ["a b c d e f"]).value
    assert got == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_bleu_and_chrf_are_sacrebleus_with_its_signature():
    answers = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    references = [
        "The dog had bit the man.",
        "No one was surprised.",
        "The man had bitten the dog.",
    ]
    assert bleu(answers, references).value == sacrebleu.corpus_bleu(answers, [references]).score
    assert chrf(answers, references).value == sacrebleu.corpus_chrf(answers, [references]).score
    assert bleu(answers, references).signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|")
    assert chrf(answers, references).signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")


def test_lower_case_bleu_and_chrf_agree_with_sacrebleu():
    answers = ["the Dog bit the Man.", "It WASN'T surprising.", "The man had just bitten him."]
    references = ["The dog had bit the man.", "It wasn't so.", "The Man had bitten the dog."]
    for score, peer in ((bleu, sacrebleu.corpus_bleu), (chrf, sacrebleu.corpus_chrf)):
        cased, lower = score(answers, references), score(answers, references, lower=True)
        options = {"lowercase": True} if score is bleu else {}
        small = [text.lower() for text in answers], [[text.lower() for text in references]]
        assert lower.value == pytest.approx(peer(*small, **options).score)
        assert lower.value > cased.value
        assert "|case:lc|" in lower.signature
        assert lower.signature.replace("case:lc", "case:mixed") == cased.signature
    assert "|tok:13a|" in bleu(answers, references, lower=True).signature


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), st.randoms())
def test_case_does_not_count_in_lower_case(pairs, random):
    def mixed(words):
        return " ".join(random.choice((str.upper, str.lower))(word) for word in words)

    answers, references = (
        ["a b c d", *(" ".join(pair[side]) for pair in pairs)] for side in (0, 1)
    )
    shouted, meant = (["A b C d", *(mixed(pair[side]) for pair in pairs)] for side in (0, 1))
    for score in (bleu, chrf):
        lower = score(shouted, meant, lower=True)
        assert lower.value == pytest.approx(score(answers, references).value)


def test_chrf_worked_by_hand():
    # n = 1: two of three letters on both sides; n = 2: one of two; n = 3: none of one.
    # sacreBLEU takes the mean precision and recall over n = 1 to 3, here equal, so F = mean.
    assert chrf(["abc"], ["abd"]).value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


@pytest.mark.parametrize(
    ("reference", "tokenizer"),
    [
        ("2024年3月5日星期二", "char"),
        ("วันอังคารที่ 5 มีนาคม 2024", "char"),
        ("これはペンです。", "char"),
        ("이것은 펜입니다", "13a"),  # Korean has spaces
        ("mardi 5 mars 2024", "13a"),
        ("2024-03-05", "13a"),
        ("Beijing (北京) is a city", "13a"),
    ],
)
def test_letters_are_counted_where_there_are_no_spaces(reference, tokenizer):
    assert choose_sacrebleu_tokenizer([reference]) == tokenizer
    assert f"|tok:{tokenizer}|" in bleu([reference], [reference]).signature


def test_the_tokenizer_can_be_named():
    assert "|tok:intl|" in bleu(["a"], ["a"], tokenize="intl").signature


def test_bleu_logs_no_warning_for_tokenized_text(caplog):
    with caplog.at_level(logging.DEBUG):
        bleu(["a b ."] * 200, ["a b ."] * 200)
        bleu(["", "x"], ["y", ""])
        chrf(["", ""], ["", ""])
    assert not caplog.records


def test_exact_ignores_composition_and_outer_space_only():
    composed = "é"
    difference = unicodedata.normalize("NFD", composed)
    assert difference != composed
    assert exact_match([difference, " a\n", "A", "a  b"], [composed, "a", "a", "a b"]) == 0.5


# --- the taught BLEU ----------------------------------------------------------------------------


def test_textbook_bleu_equals_d2l_values():
    # d2l, section 10.7, prints 0.658 for this pair with k = 2.
    got = textbook_bleu("il est riche .".split(), "il est calme .".split(), k=2)
    assert round(got, 3) == 0.658


def test_textbook_bleu_equals_worked_example():
    # The book's own example: A B B C D against A B C D E F: p = 4/5, 3/4, 1/3, 0.
    answer, reference = list("ABBCD"), list("ABCDEF")
    short = math.exp(1 - 6 / 5)
    assert textbook_bleu(answer, reference, 1) == pytest.approx(short * (4 / 5) ** 0.5)
    three = short * (4 / 5) ** 0.5 * (3 / 4) ** 0.25 * (1 / 3) ** 0.125
    assert textbook_bleu(answer, reference, 3) == pytest.approx(three)
    assert textbook_bleu(answer, reference, 4) == 0


def test_repeating_a_word_does_not_pay():
    # Papineni et al. 2002, example 2: "the" seven times has a clipped precision of 2/7.
    reference = "the cat is on the mat".split()
    assert textbook_bleu(["the"] * 7, reference, 1) == pytest.approx((2 / 7) ** 0.5)


def test_a_short_answer_is_judged_up_to_its_length():
    assert textbook_bleu(["a", "b"], ["a", "b"]) == 1
    assert textbook_bleu(["a", "b"], ["a", "b", "c"]) == pytest.approx(math.exp(-0.5))


def test_textbook_bleu_of_empty_hypothesis_is_zero():
    assert textbook_bleu([], ["a"]) == 0
    assert textbook_bleu([], []) == 0
    assert textbook_bleu(["a"], []) == 0


@given(WORDS, WORDS, st.integers(1, 5))
def test_textbook_bleu_is_one_only_for_equal_texts(answer, reference, k):
    score = textbook_bleu(answer, reference, k)
    assert 0 <= score <= 1
    assert textbook_bleu(answer, answer, k) == (1 if answer else 0)
    if score == 1 and k >= len(answer):
        assert answer == reference


def test_the_corpus_figure_is_the_mean_over_sentences():
    answers = [["a", "b"], ["x"], list("long and wrong")]
    references = [["a", "b"], ["y"], ["?"]]
    assert textbook_corpus_bleu(answers, references) == pytest.approx(1 / 3)


@pytest.mark.parametrize("score", [exact_match, bleu, chrf, textbook_corpus_bleu])
def test_translation_metrics_refuse_unpaired_lists(score):
    with pytest.raises(ValueError, match="got 2 hypotheses and 1 references; expected one ref"):
        score(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="got 0 hypotheses and 0 references; expected one"):
        score([], [])
    with pytest.raises(ValueError, match="got one string; expected a list"):
        score("ab", "ab")


def test_textbook_bleu_refuses_k_below_one():
    with pytest.raises(ValueError, match="got k = 0; expected 1 or more"):
        textbook_bleu(["a"], ["a"], k=0)
