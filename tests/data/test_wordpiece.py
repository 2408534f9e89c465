"""WordPiece against BERT's tokenizer in transformers, its spans, and the fit."""

import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.tokenizers import Tokenizer, tokenizer_from_json
from saccade.data.wordpiece import (
    BERT_SPECIAL_TOKENS,
    CLS,
    MASK,
    PAD,
    SEP,
    UNK,
    WordPieceTokenizer,
)
from saccade.errors import RunError

TEXTS = [
    "The cat sat on the mat, the cat did; unaffable cats!",
    "Le café était fermé à midi. Zoë wasn't there.",
    "2024年3月5日星期二 the 5th of March",
    "вторник, 5 марта 2024 г.",
    "tokenizers tokenize tokens: token, tokenization",
] * 3
ANY_TEXT = st.text(st.characters(codec=None))
TRAINED = WordPieceTokenizer.fit(TEXTS, 150)
CASED = WordPieceTokenizer.fit(TEXTS, 150, lowercase=False)
BOTH = pytest.mark.parametrize("tokenizer", [TRAINED, CASED], ids=["uncased", "cased"])


def longest_match(tokens: set[str], word: str) -> list[str]:
    """Cut a word as Devlin et al. do: the longest piece first, by trying all ends."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in tokens:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def test_words_are_cut_into_the_longest_pieces():
    known = set(TRAINED.tokens)
    for word in "the cat unaffable tokenization tokens zq 2024 catmat".split():
        ids = TRAINED.encode(word)
        assert [TRAINED.token_of(id) for id in ids] == longest_match(known, word)


@BOTH
def test_equals_the_tokenizer_of_transformers(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokenizer.tokens) + "\n", encoding="utf-8")
    theirs = transformers.BertTokenizer(str(path), do_lower_case=tokenizer.lowercase)
    for text in [*TEXTS[:5], "Émile\u0301 naïve\x00\tA\u00a0b", "x" * 101, "", "Ⅷ ﬁ ß İ"]:
        assert tokenizer.encode(text) == theirs.encode(text, add_special_tokens=False)


@BOTH
@given(text=ANY_TEXT)
def test_spans_cover_what_the_pieces_come_from(tokenizer, text):
    pieces = tokenizer.encode_pieces(text)
    assert pieces.ids == tokenizer.encode(text) == tokenizer.encode_many([text])[0]
    assert not set(pieces.ids) & {PAD, CLS, SEP, MASK}
    last = 0
    for id, (start, end), is_start in zip(*pieces, strict=True):
        assert last <= end <= len(text) and start < end
        last = start
        if id != UNK:
            assert is_start != tokenizer.is_continuation[id]
            piece = tokenizer.token_of(id).removeprefix("##")
            if text.isascii():
                shown = text[start:end].lower() if tokenizer.lowercase else text[start:end]
                assert piece == "".join(c for c in shown if unicodedata.category(c)[0] != "C")


def test_special_tokens_cannot_be_written_in_a_text():
    ids = TRAINED.encode(" ".join(BERT_SPECIAL_TOKENS))
    assert not set(ids) & {PAD, CLS, SEP, MASK}


@BOTH
def test_decodes_and_survives_json(tokenizer):
    assert isinstance(tokenizer, Tokenizer)
    back = tokenizer_from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert back.encode_many(TEXTS) == tokenizer.encode_many(TEXTS)
    assert back.to_json() == tokenizer.to_json()
    assert TRAINED.decode([CLS, *TRAINED.encode("The CATS sat, zq"), SEP]) == "the cats sat , �"
    assert TRAINED.display_tokens([CLS, UNK, PAD]) == ["[CLS]", "�", "∅"]


def test_words_of_a_split_text_have_pieces_each():
    assert TRAINED.encode_words(["cats", "", "mat"]) == [
        TRAINED.encode("cats"),
        [UNK],
        TRAINED.encode("mat"),
    ]


FIT = """
import hashlib, sys
from saccade.data.wordpiece import WordPieceTokenizer
tokens = WordPieceTokenizer.fit(sys.stdin.read().splitlines(), 140).tokens
print(hashlib.md5(repr(tokens).encode()).hexdigest())
"""


def test_fit_gives_the_same_in_every_process_and_order():
    found = set()
    for texts in (TEXTS, TEXTS[::-1]):
        run = subprocess.run(
            [sys.executable, "-c", FIT],
            input="\n".join(texts),
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout)
    assert len(found) == 1
    assert TRAINED.tokens[:5] == BERT_SPECIAL_TOKENS
    assert TRAINED.vocab_size == len(set(TRAINED.tokens)) <= 150


def test_bad_vocabularies_are_refused():
    with pytest.raises(ValueError, match="got the token 'a' twice; expected distinct"):
        WordPieceTokenizer(["a", "b", "a"])
    with pytest.raises(RunError, match="got lowercase='yes'; expected settings of WordPiece"):
        tokenizer_from_json({**TRAINED.to_json(), "lowercase": "yes"})
