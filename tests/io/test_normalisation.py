"""Unicode normal forms: those of unicodedata, in time linear in the text."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.tokenizers import normalise
from saccade.io import normalisation
from saccade.io.normalisation import UnicodeForm, normalise_unicode, sort_combining

MARKS = [chr(code) for code in range(0x10000) if unicodedata.combining(chr(code))]
# letters that are composed, or that compose with a letter after them
LETTERS = "aé\u1ea5\uac00\u1100\u1161\u11a8\u09c7\u09be\ufb1d\u0f73"


@given(st.text(st.sampled_from(MARKS) | st.sampled_from(LETTERS), max_size=40))
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normal_form_is_that_of_unicodedata(form: UnicodeForm, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalisation, "MAX_UNORDERED", 2)
        assert normalise_unicode(text, form) == unicodedata.normalize(form, text)


def test_long_sequences_of_marks_are_in_order_before_they_are_inserted() -> None:
    half = normalisation.MAX_UNORDERED
    text = "a" + "\u0315" * half + "\u0344" * half + "b"
    ordered = sort_combining(text)
    classes = [unicodedata.combining(mark) for mark in ordered]
    # insertion moves a mark once for each mark before it that has a higher class
    assert not any(before > after > 0 for before, after in pairwise(classes))
    assert normalise(text) == unicodedata.normalize("NFC", text)
