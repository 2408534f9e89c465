"""Scores of answers: known cases of SQuAD's rules, and thresholds by enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.metrics.answers import answer_f1, best_threshold, normalise_answer, score_answer

WORDS = st.lists(st.sampled_from(["the", "cat", "Cat,", "a", "sat", "mat", "-"]), max_size=6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel\tTower!", "eiffel tower"),
        ("an apple a day", "apple day"),
        ("a.n. apple", "apple"),  # punctuation is removed before the articles
        ("theatre", "theatre"),
        ("$1,000", "1000"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation
        ("The", ""),
    ],
)
def test_normalised_answer(text: str, expected: str) -> None:
    assert normalise_answer(text) == expected


@pytest.mark.parametrize(
    ("predicted", "references", "exact", "f1"),
    [
        ("Denver Broncos", ["Denver Broncos", "Broncos"], 1, 1),
        ("the Broncos.", ["Denver Broncos"], 0, 2 / 3),
        ("b b c", ["b c c d"], 0, 2 * 2 / 7),  # common words as multisets
        ("x", ["y"], 0, 0),
        ("", [], 1, 1),  # v2.0: no answer
        ("x", [], 0, 0),
        ("", ["x"], 0, 0),
        ("", ["the"], 1, 1),  # no reference is left
        ("x", ["the", "x y"], 0, 2 / 3),
    ],
)
def test_scores_of_known_answers(
    predicted: str, references: list[str], exact: float, f1: float
) -> None:
    assert score_answer(predicted, references) == pytest.approx((exact, f1))


@given(WORDS, WORDS)
def test_f1_equals_a_loop_over_words(first: list[str], second: list[str]) -> None:
    found, expected = (normalise_answer(" ".join(words)).split() for words in (first, second))
    left, common = list(expected), 0
    for word in found:
        if word in left:
            left.remove(word)
            common += 1
    if not found or not expected:
        value = float(found == expected)
    elif common == 0:
        value = 0.0
    else:
        precision, recall = common / len(found), common / len(expected)
        value = 2 * precision * recall / (precision + recall)
    assert answer_f1(" ".join(first), " ".join(second)) == pytest.approx(value)


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.sampled_from([0.0, 0.4, 1.0]), st.booleans()), min_size=1
    )
)
def test_best_threshold_by_enumeration(rows: list[tuple[int, float, bool]]) -> None:
    margins = np.array([float(margin) for margin, _, _ in rows])
    scores = np.array([score if has else 0.0 for _, score, has in rows])
    has_answer = [has for _, _, has in rows]

    def mean(threshold: float) -> float:
        kept = margins <= threshold
        return float(np.mean(np.where(kept, scores, 1.0 - np.array(has_answer))))

    best = best_threshold(margins, scores, has_answer)
    assert best.score == pytest.approx(mean(best.threshold))
    assert best.score == pytest.approx(max(mean(t / 2) for t in range(-9, 10)))
