"""Tokens and their numbers."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from saccade.data.tokenizers import Vocabulary


def test_vocabulary_special_tokens_have_the_first_ids():
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    vocabulary = Vocabulary(["a", "b"])
    assert [vocabulary.token_of(id) for id in range(6)] == [*SPECIAL_TOKENS, "a", "b"]
    assert len(vocabulary) == 6


def test_vocabulary_is_sorted_by_count_then_code_point():
    assert Vocabulary.from_counts("zabbaczz").tokens == ("z", "a", "b", "c")
    assert Vocabulary.from_counts(iter("zabbaczz"), min_count=2).tokens == ("z", "a", "b")
    assert Vocabulary.from_counts("zabbaczz", max_size=2).tokens == ("z", "a")
    assert Vocabulary.from_counts("zabbaczz", max_size=0).tokens == ()


def test_vocabulary_accepts_a_counter():
    assert Vocabulary.from_counts(Counter("abb"), min_count=2).tokens == ("b",)


@given(st.lists(st.text()), st.randoms())
@settings(deadline=None)
def test_vocabulary_does_not_depend_on_the_order(tokens, random):
    shuffled = random.sample(tokens, len(tokens))
    assert Vocabulary.from_counts(tokens).tokens == Vocabulary.from_counts(shuffled).tokens


@given(st.lists(st.text(), unique=True), st.text())
@settings(deadline=None)
def test_vocabulary_id_and_token_are_inverse(tokens, other_token):
    vocabulary = Vocabulary(tokens)
    assert [vocabulary.token_of(vocabulary.id_of(token)) for token in tokens] == tokens
    assert vocabulary.ids_of(tokens) == list(range(4, 4 + len(tokens)))
    assert (vocabulary.id_of(other_token) == UNK) == (other_token not in tokens)


@pytest.mark.parametrize("name", SPECIAL_TOKENS)
def test_vocabulary_does_not_find_special_tokens_in_text(name):
    assert Vocabulary(["a"]).id_of(name) == UNK
    assert Vocabulary(["a", name]).id_of(name) == 5


def test_vocabulary_rejects_repeated_tokens():
    with pytest.raises(ValueError, match="got the token 'b' twice"):
        Vocabulary(["a", "b", "b"])


@pytest.mark.parametrize("id", [-1, 5])
def test_vocabulary_rejects_ids_out_of_range(id):
    with pytest.raises(ValueError, match=f"got token id {id}; expected 0 to 4"):
        Vocabulary(["a"]).token_of(id)
