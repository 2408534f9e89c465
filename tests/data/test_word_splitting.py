"""Text to words and back."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import word_splitting
from saccade.data.tokenizers import normalise
from saccade.data.word_splitting import (
    join_words,
    segmented_spans,
    split_segmented,
    split_words,
)
from saccade.errors import MissingPackageError

ODD = st.text(alphabet="๑ ab3.,:'’-/()“”¿\u0301\u200d年か\u3099ก็हि👩🏽🇩🇪❤\ufe0f。「\u093f\u1109a")

SPLIT = [
    ("Don't panic!", ["Don't", "panic", "!"]),
    ("rock ’n’ roll", ["rock", "’", "n", "’", "roll"]),
    ("3.14 or 1,000.5 at 12:30.", ["3.14", "or", "1,000.5", "at", "12:30", "."]),
    ("well-known", ["well", "-", "known"]),
    ("हिन्दी में।", ["हिन्दी", "में", "।"]),
    ("می‌خواهم", ["می‌خواهم"]),
    ("안녕하세요 세계", ["안녕하세요", "세계"]),
    ("今年は2024年", ["今", "年", "は", "2024", "年"]),
    ("ราคา ๒๕.๕๐ บาท", [*"ราคา", "๒๕.๕๐", *"บาท"]),
    ("ที่นี่", ["ที่", "นี่"]),
    ("𠮷野家", ["𠮷", "野", "家"]),
    ("👩‍👩‍👧🇩🇪❤️👋🏽", ["👩‍👩‍👧", "🇩🇪", "❤️", "👋🏽"]),
    ("  a\tb\u00a0c ", ["a", "b", "c"]),
    ("</s>", ["<", "/", "s", ">"]),
    ("", []),
]


@pytest.mark.parametrize(("text", "words"), SPLIT)
def test_split_words_examples(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world! (It is 12:30.) “Don't”, he added: 50%; well-known/unknown… ¿Qué?",
        "2024年3月5日星期二，在12:30。",
        "これは本です。「はい」、と。",
        "我爱你，中国！",
        "ภาษาไทย",
        "हम कहाँ हैं। और, यहाँ!",
        "مرحبا، كيف الحال؟",
        "« Bonjour »".replace(" ", ""),
    ],
)
def test_join_words_restores_ordinary_text(text):
    assert join_words(split_words(text)) == text


@given(st.text() | ODD)
@settings(deadline=None, max_examples=400)
def test_split_words_loses_spaces_only(text):
    text = normalise(text)
    kept = "".join(text.split())
    assert "".join(split_words(text)) == kept
    assert "".join(join_words(split_words(text)).split()) == kept


@given(st.text() | ODD)
@settings(deadline=None, max_examples=400)
def test_split_words_inverts_join_words(text):
    words = split_words(normalise(text))
    joined = join_words(words)
    assert normalise(joined) == joined
    assert split_words(joined) == words


def test_split_words_takes_linear_time():
    # each of these makes a naive pattern backtrack
    for text in ("1.1" * 100_000, "a'" * 200_000, "1" * 300_000, "👩\u200d" * 100_000):
        assert "".join(split_words(text)) == text


# --- Chinese words --------------------------------------------------------------------------------

CHINESE_AND_OTHERS = "我来到北京清华大学, don't pay 3.14! ภาษา 2024年 𠮷野家"


def test_segmented_words_are_those_of_jieba_in_chinese_and_ours_elsewhere() -> None:
    words = split_segmented(CHINESE_AND_OTHERS)
    assert words[:7] == ["我", "来到", "北京", "清华大学", ",", "don't", "pay"]
    assert words[words.index("3.14") :][:2] == ["3.14", "!"]
    assert words[words.index("2024") + 1] == "年"


@given(st.text(st.sampled_from("我来到北京清华大学。 ,ab1\n\u0301"), max_size=40))
def test_segmented_spans_cover_what_words_cover(text: str) -> None:
    def covered(spans: list[tuple[int, int]]) -> list[int]:
        return [at for start, end in spans for at in range(start, end)]

    spans = segmented_spans(text)
    assert covered(spans) == sorted(set(covered(spans)))  # in order, without overlap
    letters = {at for at, letter in enumerate(text) if letter.isalnum()}
    assert letters <= set(covered(spans)) <= {at for at, c in enumerate(text) if not c.isspace()}


def test_missing_jieba_is_answered_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    word_splitting._jieba.cache_clear()
    try:
        with pytest.raises(MissingPackageError, match=r"saccade\[chinese\].*data.split=words"):
            split_segmented("北京市没有")
    finally:
        word_splitting._jieba.cache_clear()
