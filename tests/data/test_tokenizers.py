"""Text to numbers and back, for every kind of tokenizer."""

import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders

from saccade.data.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from saccade.data.token_display import SPECIAL_SYMBOLS
from saccade.data.tokenizers import (
    TOKENIZER_TRAINERS,
    BPETokenizer,
    Tokenizer,
    collapse_whitespace,
    normalise,
    tokenizer_from_json,
    train_tokenizer,
)
from saccade.errors import ConfigError, DataError, RunError

TEXTS = [
    "the cat sat on the mat, the cat did.",
    "mardi 5 mars 2024; mardi 12 mars 2024",
    "2024年3月5日星期二 2024年3月6日星期三",
    "вторник, 5 марта 2024 г.",
    "मंगलवार, 5 मार्च 2024 मार्च",
    "emoji 😀😀 👩‍👩‍👧 🇩🇪",
    "<s>struck</s> <s>out</s> <pad> <unk>",
]
KINDS = sorted(TOKENIZER_TRAINERS)
TRAINED = {kind: train_tokenizer(kind, TEXTS * 2) for kind in KINDS}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
ANY_TEXT = st.text(st.characters(codec=None))  # lone surrogates and control characters too


@EVERY_KIND
def test_tokenizer_has_the_protocol_and_its_round_trip_loss(kind):
    tokenizer = TRAINED[kind]
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.kind == kind
    assert (tokenizer.round_trip_loss == "") == (kind == "bpe")


SPACED = [" der\u00a0 Hund ", "die\u202fKatze\t!", "Der  HUND\u3000bellt", "\u2028\n "]


@EVERY_KIND
def test_tokenizer_collapses_whitespace(kind):
    tokenizer = train_tokenizer(kind, SPACED * 2, collapse_spaces=True)
    plain = ["der Hund", "die Katze !", "Der HUND bellt", ""]
    assert tokenizer.encode_many(SPACED) == [tokenizer.encode(text) for text in plain]
    assert tokenizer.encode(" ") == []
    assert tokenizer.encode("der Hund") != tokenizer.encode("Der HUND")  # case is kept
    if kind != "word":  # the word tokenizer puts spaces where they are usual
        assert [tokenizer.decode(tokenizer.encode(text)) for text in SPACED] == plain
    same = train_tokenizer(kind, plain * 2)
    assert tokenizer.to_json() == {**same.to_json(), "spaces": "one"}
    back = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert back.collapse_spaces
    assert back.encode_many(SPACED) == tokenizer.encode_many(SPACED)


@EVERY_KIND
def test_tokenizer_keeps_whitespace_by_default(kind):
    tokenizer = TRAINED[kind]
    assert not tokenizer.collapse_spaces
    assert "spaces" not in tokenizer.to_json()
    assert not tokenizer_from_json(tokenizer.to_json()).collapse_spaces
    if kind == "bpe":
        assert tokenizer.decode(tokenizer.encode(SPACED[0])) == SPACED[0]


def test_tokenizer_from_json_rejects_unknown_spaces():
    value = {**TRAINED["bpe"].to_json(), "spaces": "none"}
    with pytest.raises(RunError, match="got spaces='none'; expected 'one'"):
        tokenizer_from_json(value)


@given(text=ANY_TEXT)
@settings(deadline=None)
def test_collapse_whitespace_leaves_single_spaces(text):
    found = collapse_whitespace(text)
    assert collapse_whitespace(found) == found
    assert [letter for letter in found if letter.isspace()] == [" "] * found.count(" ")
    assert "  " not in found
    assert found == found.strip()
    # all other characters are unchanged
    assert "".join(found.split()) == "".join(normalise(text).split())


@EVERY_KIND
@given(order=st.permutations(TEXTS))
@settings(deadline=None, max_examples=15)
def test_train_tokenizer_does_not_depend_on_the_order(kind, order):
    size = 320 if kind == "bpe" else None
    assert (
        train_tokenizer(kind, order * 2, size).to_json()
        == train_tokenizer(kind, TEXTS * 2, size).to_json()
    )


@EVERY_KIND
def test_tokenizer_round_trip_of_training_text(kind):
    for text in (TEXTS[0], TEXTS[1], TEXTS[3], TEXTS[4]):
        assert TRAINED[kind].decode(TRAINED[kind].encode(text)) == text


@EVERY_KIND
@given(text=ANY_TEXT)
@settings(deadline=None)
def test_tokenizer_ids_are_in_range_and_encode_many_agrees(kind, text):
    tokenizer = TRAINED[kind]
    ids = tokenizer.encode(text)
    assert all(UNK <= id < tokenizer.vocab_size for id in ids)
    assert tokenizer.encode_many([text, "", TEXTS[0]]) == [ids, [], tokenizer.encode(TEXTS[0])]


@EVERY_KIND
@given(text=ANY_TEXT)
@settings(deadline=None)
def test_tokenizer_json_round_trip(kind, text):
    value = TRAINED[kind].to_json()
    again = tokenizer_from_json(json.loads(json.dumps(value)))
    assert again.to_json() == value
    assert again.vocab_size == TRAINED[kind].vocab_size
    assert again.encode(text) == TRAINED[kind].encode(text)


@EVERY_KIND
@given(data=st.data())
@settings(deadline=None)
def test_tokenizer_decodes_any_ids(kind, data):
    tokenizer = TRAINED[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    ordinary = [id for id in ids if id not in (PAD, BOS, EOS)]
    assert tokenizer.decode(ids) == tokenizer.decode(ordinary)
    display_tokens = tokenizer.display_tokens(ids)
    assert len(display_tokens) == len(ids)
    for id, piece in zip(ids, display_tokens, strict=True):
        assert piece and not any(letter.isspace() or letter < " " for letter in piece)
        assert (piece in SPECIAL_SYMBOLS) == (id < len(SPECIAL_TOKENS))


@EVERY_KIND
@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_tokenizer_never_encodes_text_as_a_special_token(kind, token):
    tokenizer = train_tokenizer(kind, ["a b", f"x {token} y", f"{token}{token} {token}"] * 9)
    ids = tokenizer.encode(f"a {token}{token} b")
    assert all(id >= len(SPECIAL_TOKENS) for id in ids)
    assert tokenizer.decode(ids).replace(" ", "") == f"a{token}{token}b"


@EVERY_KIND
def test_train_tokenizer_is_deterministic_across_processes(kind):
    here = json.dumps(train_tokenizer(kind, (text for text in TEXTS * 2)).to_json())
    assert here == json.dumps(TRAINED[kind].to_json())
    code = (
        "import json, sys; from saccade.data.tokenizers import train_tokenizer;"
        "kind, *texts = json.loads(sys.argv[1]);"
        "print(json.dumps(train_tokenizer(kind, texts).to_json()))"
    )
    argument = json.dumps([kind, *TEXTS, *TEXTS])
    there = subprocess.run(
        [sys.executable, "-c", code, argument], capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == here
    assert there.stderr == ""  # no progress bar


@EVERY_KIND
def test_train_tokenizer_propagates_errors_of_the_texts(kind):
    def texts():
        yield "a b"
        raise DataError("line 2 is bad")

    with pytest.raises(DataError, match="line 2 is bad"):
        train_tokenizer(kind, texts())


@pytest.mark.parametrize(("kind", "size"), [("character", 20), ("word", 9), ("bpe", 280)])
def test_train_tokenizer_size_includes_special_tokens(kind, size):
    assert train_tokenizer(kind, TEXTS * 2, size).vocab_size == size


@EVERY_KIND
def test_train_tokenizer_rejects_a_small_size(kind):
    needed = 260 if kind == "bpe" else 5
    with pytest.raises(ConfigError, match=f"got size={needed - 1} .* expected at least {needed}"):
        train_tokenizer(kind, TEXTS, needed - 1)
    assert train_tokenizer(kind, TEXTS, needed).vocab_size == needed


def test_train_tokenizer_rejects_an_unknown_kind():
    with pytest.raises(ConfigError, match="no tokenizer 'words'. Did you mean 'word'"):
        train_tokenizer("words", TEXTS)


@pytest.mark.parametrize("kind", ["character", "word"])
def test_train_tokenizer_rejects_empty_text(kind):
    with pytest.raises(DataError, match=f"no text to fit a {kind} tokenizer"):
        train_tokenizer(kind, ["", ""])


def test_bpe_needs_no_training_text():
    tokenizer = train_tokenizer("bpe", [])
    assert tokenizer.vocab_size == 260
    assert tokenizer.decode(tokenizer.encode("年 a")) == "年 a"


# --- normalising --------------------------------------------------------------------------------


@given(ANY_TEXT)
@settings(deadline=None)
def test_normalise_is_nfc_and_idempotent(text):
    clean = "".join("�" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    assert normalise(text) == unicodedata.normalize("NFC", clean)
    assert normalise(normalise(text)) == normalise(text)


def test_tokenizer_treats_composed_and_decomposed_alike():
    for kind in KINDS:
        tokenizer = train_tokenizer(kind, ["Zu\u0308rich e\u0301te\u0301"] * 2)
        assert tokenizer.encode("Zu\u0308rich") == tokenizer.encode("Zürich")
        assert UNK not in tokenizer.encode("Zürich")


# --- characters and words -----------------------------------------------------------------------


def test_character_tokenizer_shows_unknown_characters():
    tokenizer = train_tokenizer("character", ["abc", "ab", "a"])
    assert tokenizer.encode("cab") == [6, 4, 5]
    assert tokenizer.encode("axa") == [4, UNK, 4]
    assert tokenizer.decode([4, UNK, 4]) == "a�a"


@given(ANY_TEXT)
@settings(deadline=None)
def test_character_tokenizer_round_trip(text):
    if text:
        tokenizer = train_tokenizer("character", [text])
        assert tokenizer.decode(tokenizer.encode(text)) == normalise(text)


def test_word_tokenizer_drops_words_seen_once():
    tokenizer = train_tokenizer("word", ["the cat", "the dog"])
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the �"
    tokenizer = train_tokenizer("word", ["the cat", "a dog"])
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"


def test_display_tokens_show_spaces_and_controls():
    tokenizer = train_tokenizer("character", ["a\u00a0\t\x00\x7f\u200f b"])
    display_tokens = tokenizer.display_tokens([*tokenizer.encode("a\u00a0\t\x00\x7f\u200f b"), EOS])
    assert display_tokens == ["a", "␣", "␉", "␀", "␡", "⟨200f⟩", "␣", "b", "⏎"]


# --- BPE ----------------------------------------------------------------------------------------


@given(ANY_TEXT)
@example("  two  spaces \t tab\x00 nul \r\n\x85\u2028 ")
@example("\u202bעברית\u202c العربية 👩‍👩‍👧 e\u0301")
@example("</s><pad>")
@settings(deadline=None, max_examples=500)
def test_bpe_round_trip_of_any_text(text):
    tokenizer = TRAINED["bpe"]
    assert tokenizer.decode(tokenizer.encode(text)) == normalise(text)


@given(st.lists(st.text(), max_size=5), ANY_TEXT)
@settings(deadline=None, max_examples=30)
def test_bpe_round_trip_for_any_training_text(texts, text):
    tokenizer = train_tokenizer("bpe", [*texts, text], 300)
    assert tokenizer.decode(tokenizer.encode(text)) == normalise(text)


@given(st.text(), st.integers(0, 20), st.integers(0, 20))
@settings(deadline=None)
def test_bpe_decodes_partial_sequences_like_the_library(text, start, length):
    tokenizer = train_tokenizer("bpe", [], None)
    assert isinstance(tokenizer, BPETokenizer)
    cut = tokenizer.encode(text)[start : start + length]
    tokens = [tokenizer._engine.id_to_token(id - len(SPECIAL_TOKENS)) for id in cut]
    assert tokenizer.decode(cut) == decoders.ByteLevel().decode(tokens)


def test_bpe_ids_follow_from_the_merges():
    # two merges give "abc": the second must not have an id of its own
    tokenizer = BPETokenizer([("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"), ("abc", "d")])
    assert tokenizer.vocab_size == 260 + 4
    assert tokenizer.display_tokens([260, 261, 262, 263]) == ["ab", "bc", "abc", "abcd"]


def test_bpe_merges_shorten_text():
    tokenizer = train_tokenizer("bpe", ["the cat sat on the mat"] * 9)
    assert len(tokenizer.encode("the cat sat on the mat")) == 6


def test_bpe_display_tokens_number_parts_of_a_character():
    tokenizer = train_tokenizer("bpe", [])
    ids = tokenizer.encode("年a 😀")
    assert tokenizer.display_tokens(ids) == [
        "年₁",
        "年₂",
        "年₃",
        "a",
        "␣",
        "😀₁",
        "😀₂",
        "😀₃",
        "😀₄",
    ]
    assert tokenizer.display_tokens([ids[1], EOS, UNK, ids[0], ids[3]]) == [
        "⟨b9⟩", "⏎", "�", "⟨e5⟩", "a",
    ]  # fmt: skip


# --- malformed values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "a kind .* and its tokens or merges"),
        ([], "a kind"),
        ({"kind": "word"}, "a kind"),
        ({"kind": "os.system", "tokens": ["a"]}, "a kind"),
        ({"kind": "word", "tokens": "abc"}, "a kind"),
        ({"kind": "word", "tokens": ["a", "a"]}, "got the token 'a' twice"),
        ({"kind": "character", "tokens": ["a", 4]}, "got 4 in a list of tokens"),
        ({"kind": "character", "tokens": [""]}, "got '' in a list of tokens"),
        ({"kind": "bpe", "merges": ["a"]}, "merge of 'a' and ''"),
        ({"kind": "bpe", "merges": ["a b", "ab cd"]}, "merge of 'ab' and 'cd'"),
        ({"kind": "bpe", "merges": [["a", "b"]]}, "in a list of tokens"),
    ],
)
def test_tokenizer_from_json_rejects_malformed_values(value, message):
    with pytest.raises(RunError, match=f"not a tokenizer that Saccade wrote: .*{message}"):
        tokenizer_from_json(value)


@EVERY_KIND
@pytest.mark.parametrize("id", [-1, 100_000])
def test_tokenizer_rejects_ids_out_of_range(kind, id):
    with pytest.raises(ValueError, match=f"got token id {id}; expected 0 to"):
        TRAINED[kind].decode([id])
    with pytest.raises(ValueError, match=f"got token id {id}; expected 0 to"):
        TRAINED[kind].display_tokens([id])
