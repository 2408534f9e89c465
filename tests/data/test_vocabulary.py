"""Tokens and their numbers."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary


def test_the_marks_have_the_first_four_numbers():
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    vocabulary = Vocabulary(["a", "b"])
    assert [vocabulary.token_of(id) for id in range(6)] == [*SPECIAL_TOKENS, "a", "b"]
    assert len(vocabulary) == 6


def test_the_most_frequent_comes_first_and_equals_go_by_code_point():
    assert Vocabulary.from_counts("zabbaczz").tokens == ("z", "a", "b", "c")
    assert Vocabulary.from_counts(iter("zabbaczz"), min_count=2).tokens == ("z", "a", "b")
    assert Vocabulary.from_counts("zabbaczz", max_size=2).tokens == ("z", "a")
    assert Vocabulary.from_counts("zabbaczz", max_size=0).tokens == ()


def test_counts_that_are_there_are_not_counted_again():
    assert Vocabulary.from_counts(Counter("abb"), min_count=2).tokens == ("b",)


@given(st.lists(st.text()), st.randoms())
@settings(deadline=None)
def test_the_order_of_the_text_does_not_matter(tokens, random):
    shuffled = random.sample(tokens, len(tokens))
    assert Vocabulary.from_counts(tokens).tokens == Vocabulary.from_counts(shuffled).tokens


@given(st.lists(st.text(), unique=True), st.text())
@settings(deadline=None)
def test_number_and_token_are_each_others_inverse(tokens, stranger):
    vocabulary = Vocabulary(tokens)
    assert [vocabulary.token_of(vocabulary.id_of(token)) for token in tokens] == tokens
    assert vocabulary.ids_of(tokens) == list(range(4, 4 + len(tokens)))
    assert (vocabulary.id_of(stranger) == UNK) == (stranger not in tokens)


@pytest.mark.parametrize("name", SPECIAL_TOKENS)
def test_text_that_looks_like_a_mark_is_text(name):
    assert Vocabulary(["a"]).id_of(name) == UNK
    assert Vocabulary(["a", name]).id_of(name) == 5


def test_a_token_listed_twice_is_refused():
    with pytest.raises(ValueError, match="'b' is listed twice"):
        Vocabulary(["a", "b", "b"])


@pytest.mark.parametrize("id", [-1, 5])
def test_a_number_that_is_not_there_is_refused(id):
    with pytest.raises(ValueError, match=f"no token {id}; there are 0 to 4"):
        Vocabulary(["a"]).token_of(id)
