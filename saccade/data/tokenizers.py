"""Text to numbers and back: by character, by word, by byte pair.

Every tokenizer reads text as `normalise` leaves it: in Unicode's composed form (NFC), with a
lone surrogate, which is half a character and none by itself, as "�". A tokenizer made with
`one_space` reads it as `single_spaced` leaves it: runs of white space, no-break spaces among
them, are one space, and there is none at the ends. That is the tokenizer's own, kept in its JSON,
so that a model sees one form in training and in answering. Nothing else is changed: case,
punctuation and control characters stay. Text comes a line at a time, so that line ends do not
occur in it. After that, `bytepair` gives any text back exactly; `character` and `word` say in
`loses` what they do not.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Protocol, runtime_checkable
from unicodedata import is_normalized, normalize

from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, trainers

from saccade.data.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary
from saccade.data.word_splitting import join_words, split_words
from saccade.errors import ConfigError, DataError, RunError
from saccade.registry import lookup

UNK_SYMBOL = "�"  # what an unknown token is shown as
SPECIAL_SYMBOLS = ("∅", "▷", "⏎", UNK_SYMBOL)  # the four special tokens, in pictures
DEFAULT_BPE_SIZE = 8000
SINGLE_SPACES = "one"  # how JSON says that text is read with single spaces

_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(text: str) -> str:
    """The text as the tokenizers read it: NFC, and "�" for a lone surrogate."""
    if text.isascii():
        return text
    if not text.isprintable():  # surrogates count as not printable; most text is
        text = _SURROGATE.sub(UNK_SYMBOL, text)
    return text if is_normalized("NFC", text) else normalize("NFC", text)


def collapse_whitespace(text: str) -> str:
    """`normalise`, with one plain space for every run of white space and none at the ends."""
    return " ".join(normalise(text).split())


def _reading(collapse_spaces: bool) -> Callable[[str], str]:
    return collapse_whitespace if collapse_spaces else normalise


@runtime_checkable
class Tokenizer(Protocol):
    """What every tokenizer can do. Begin and end marks are the caller's to add."""

    kind: str
    round_trip_loss: str  # in words, what decode(encode(text)) may lose of the text as it is read
    collapse_spaces: bool  # whether text is read with single spaces

    @property
    def vocab_size(self) -> int:
        """How many numbers there are, the four marks included."""

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without begin and end marks."""

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for each of them, in the fastest way there is."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text; marks are left out and the unknown token is "�"."""

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """One readable piece for each number, for pictures."""

    def to_json(self) -> dict[str, Any]:
        """The tokenizer as plain JSON values, for `from_json`."""


# --- by character and by word: a list of what was seen ------------------------------------------


class _Listed:
    """What the tokenizers with a listed vocabulary share."""

    kind: str

    def __init__(self, tokens: Sequence[str], collapse_spaces: bool = False):
        self.vocabulary = Vocabulary(tokens)
        self.collapse_spaces = collapse_spaces
        self._read = _reading(collapse_spaces)

    @property
    def vocab_size(self) -> int:
        """How many numbers there are, the four marks included."""
        return len(self.vocabulary)

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """One readable piece for each number, for pictures."""
        return [
            SPECIAL_SYMBOLS[id]
            if 0 <= id < len(SPECIAL_SYMBOLS)
            else make_visible(self.vocabulary.token_of(id))
            for id in ids
        ]

    def to_json(self) -> dict[str, Any]:
        """The tokenizer as plain JSON values, for `from_json`."""
        return {
            "kind": self.kind,
            "tokens": list(self.vocabulary.tokens),
            **_spaces(self.collapse_spaces),
        }

    def _shown(self, ids: Sequence[int]) -> list[str]:
        """The tokens that a reader sees: no marks, and "�" for the unknown."""
        return [
            UNK_SYMBOL if id == UNK else self.vocabulary.token_of(id)
            for id in ids
            if not 0 <= id < UNK
        ]


class CharacterTokenizer(_Listed):
    """One token for each code point."""

    kind = "character"
    round_trip_loss = f"characters that were not seen in training become {UNK_SYMBOL}"

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without begin and end marks."""
        return self.vocabulary.ids_of(self._read(text))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for each of them."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; marks are left out and the unknown token is "�"."""
        return "".join(self._shown(ids))


class WordTokenizer(_Listed):
    """One token for each word, number or sign; `saccade.data.word_splitting` has the rule."""

    kind = "word"
    round_trip_loss = (
        f"words that were not seen often enough become {UNK_SYMBOL}; spaces are put where they "
        "usually stand, not where they stood"
    )

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without begin and end marks."""
        return self.vocabulary.ids_of(split_words(self._read(text)))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for each of them."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; marks are left out and the unknown token is "�"."""
        return join_words(self._shown(ids))


class WhitespaceTokenizer(_Listed):
    """One token for each word between spaces: texts that others have cut up already."""

    kind = "whitespace"
    round_trip_loss = f"words that were not seen become {UNK_SYMBOL}; runs of spaces become one"

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without begin and end marks."""
        return self.vocabulary.ids_of(self._read(text).split())

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for each of them."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; marks are left out and the unknown token is "�"."""
        return " ".join(self._shown(ids))


# --- by byte pair -------------------------------------------------------------------------------


def _byte_letters() -> str:
    """The letter that stands for each byte inside a merge: itself where it can be seen.

    The table of GPT-2 (Radford et al. 2019): the others take the code points from 256 on.
    """
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in seen else next(others)) for byte in range(256))


_LETTERS = _byte_letters()
_BYTE_OF = {letter: byte for byte, letter in enumerate(_LETTERS)}


class BPETokenizer:
    """Bytes, and the pairs of them that were merged, most frequent first (Sennrich et al. 2016).

    Any text can be written in the 256 bytes, so nothing is unknown. The merges are all there is
    to keep: numbers 4 to 259 are the bytes (in the order of their letters), and each merge that
    makes something new takes the next. Our marks are not in the engine at all, so that no text
    can be taken for one.
    """

    kind = "bpe"
    round_trip_loss = ""

    def __init__(self, merges: Sequence[tuple[str, str]], collapse_spaces: bool = False):
        self.merges = tuple(merges)
        self.collapse_spaces = collapse_spaces
        self._read = _reading(collapse_spaces)
        known = dict.fromkeys(sorted(_LETTERS))
        for left, right in self.merges:
            if left not in known or right not in known:
                raise ValueError(f"The merge of {left!r} and {right!r} comes before its parts.")
            known[left + right] = None
        vocabulary = {token: id for id, token in enumerate(known)}
        self._engine = Engine(models.BPE(vocab=vocabulary, merges=list(self.merges)))
        self._engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._known = tuple(known)
        marks = [b"", b"", b"", UNK_SYMBOL.encode()]
        self._bytes = marks + [bytes(_BYTE_OF[letter] for letter in token) for token in known]

    @classmethod
    def fit(cls, texts: Iterable[str], size: int) -> "BPETokenizer":
        """Merge the most frequent pair, again and again, until there are `size` numbers."""
        engine = Engine(models.BPE())
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=size - len(SPECIAL_TOKENS),
            min_frequency=2,
            initial_alphabet=list(_LETTERS),
            show_progress=False,
        )
        engine.train_from_iterator(map(normalise, texts), trainer)
        return cls(
            [(left, right) for left, right in json.loads(engine.to_str())["model"]["merges"]]
        )

    @property
    def vocab_size(self) -> int:
        """How many numbers there are, the four marks included."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without begin and end marks."""
        return [id + len(SPECIAL_TOKENS) for id in self._engine.encode(self._read(text)).ids]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for each of them, on all cores."""
        encodings = self._engine.encode_batch_fast([self._read(text) for text in texts])
        return [[id + len(SPECIAL_TOKENS) for id in encoding.ids] for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; marks are left out, and bytes that make no letter become "�"."""
        return b"".join(map(self._bytes_of, ids)).decode("utf-8", "replace")

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """One readable piece for each number, for pictures.

        A letter whose bytes are spread over several numbers is shown at each of them with the
        number of the part (年₁ 年₂ 年₃); bytes that make no letter as ⟨e5⟩.
        """
        owners = [place for place, id in enumerate(ids) for _ in self._bytes_of(id)]
        shown = [SPECIAL_SYMBOLS[id] if id < len(SPECIAL_SYMBOLS) else "" for id in ids]
        at = 0
        for letter, length in _letters(b"".join(map(self._bytes_of, ids))):
            places = list(dict.fromkeys(owners[at : at + length]))
            at += length
            for part, place in enumerate(places, start=1):
                if ids[place] != UNK:
                    shown[place] += letter + (chr(0x2080 + part) if len(places) > 1 else "")
        return [
            piece if id < len(SPECIAL_SYMBOLS) else make_visible(piece)
            for id, piece in zip(ids, shown, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """The tokenizer as plain JSON values, for `from_json`."""
        merges = [f"{left} {right}" for left, right in self.merges]
        return {"kind": self.kind, "merges": merges, **_spaces(self.collapse_spaces)}

    def get_vocab(self) -> dict[str, int]:
        """Each token, in the letters that stand for bytes, and its number; no marks."""
        return {token: id for id, token in enumerate(self._known, start=len(SPECIAL_TOKENS))}

    def _bytes_of(self, id: int) -> bytes:
        if not 0 <= id < len(self._bytes):
            raise ValueError(f"There is no token {id}; there are 0 to {len(self._bytes) - 1}.")
        return self._bytes[id]


def _letters(content: bytes) -> Iterable[tuple[str, int]]:
    """Each letter and how many bytes it takes; a byte of no letter as its hexadecimal."""
    for letter in content.decode("utf-8", "surrogateescape"):
        if "\udc80" <= letter <= "\udcff":
            yield f"⟨{ord(letter) - 0xDC00:02x}⟩", 1
        else:
            yield letter, len(letter.encode())


def make_visible(piece: str) -> str:
    """A piece with its spaces and control characters to be seen (␣ ␉), for pictures."""
    shown = "".join(map(_visible_letter, piece))
    if any(map(str.isprintable, shown)):
        return shown
    return "".join(f"⟨{ord(letter):04x}⟩" for letter in shown)


def _visible_letter(letter: str) -> str:
    if letter < " ":
        return chr(0x2400 + ord(letter))
    if letter == "\x7f":
        return "␡"
    return "␣" if letter.isspace() else letter


# --- making one ---------------------------------------------------------------------------------


def _train_character(texts: Iterable[str], size: int | None) -> Tokenizer:
    letters = chain.from_iterable(map(normalise, texts))
    return CharacterTokenizer(Vocabulary.from_counts(letters, max_size=_room(size)).tokens)


def _train_word(texts: Iterable[str], size: int | None) -> Tokenizer:
    counts = Counter(chain.from_iterable(split_words(normalise(text)) for text in texts))
    # a model must meet the unknown word to bear it, so those seen once stay out, unless that
    # would leave none
    often = 2 if size is None and any(times > 1 for times in counts.values()) else 1
    return WordTokenizer(
        Vocabulary.from_counts(counts, min_count=often, max_size=_room(size)).tokens
    )


def _train_spaced(texts: Iterable[str], size: int | None) -> Tokenizer:
    # whoever cut the text up has also said which words are unknown
    words = chain.from_iterable(normalise(text).split() for text in texts)
    return WhitespaceTokenizer(Vocabulary.from_counts(words, max_size=_room(size)).tokens)


def _train_bytepair(texts: Iterable[str], size: int | None) -> Tokenizer:
    return BPETokenizer.fit(texts, DEFAULT_BPE_SIZE if size is None else size)


def _room(size: int | None) -> int | None:
    return None if size is None else size - len(SPECIAL_TOKENS)


TOKENIZER_TRAINERS: dict[str, Callable[[Iterable[str], int | None], Tokenizer]] = {
    "character": _train_character,
    "whitespace": _train_spaced,
    "word": _train_word,
    "bpe": _train_bytepair,
}


def train_tokenizer(
    kind: str, texts: Iterable[str], size: int | None = None, collapse_spaces: bool = False
) -> Tokenizer:
    """A tokenizer of that kind for these texts, which are read once.

    The same texts in another order give the same tokenizer. `size` is the largest number of
    tokens, marks included. Left open, it is every character, every word seen twice, or 8000 byte
    pairs (fewer if the text repeats less). `one_space`: see the top of this file.
    """
    fit = lookup(TOKENIZER_TRAINERS, kind, "tokenizer")
    smallest = len(SPECIAL_TOKENS) + (256 if kind == "bpe" else 1)
    if size is not None and size < smallest:
        raise ConfigError(
            f"A {kind} tokenizer of {size} tokens is too small; it needs {smallest} at least."
        )
    tokenizer = fit(map(_reading(collapse_spaces), texts), size)
    if collapse_spaces:
        tokenizer = tokenizer_from_json({**tokenizer.to_json(), "spaces": SINGLE_SPACES})
    if tokenizer.vocab_size == len(SPECIAL_TOKENS):
        raise DataError(
            f"There was no text to make a {kind} tokenizer from: no line holds a {kind}. "
            "Give it some text."
        )
    return tokenizer


def tokenizer_from_json(value: Any) -> Tokenizer:
    """The tokenizer that `to_json` described; nothing is executed, whatever the value holds."""
    try:
        match value:
            case {"kind": "character", "tokens": [*tokens], **others}:
                return CharacterTokenizer(_texts(tokens), _one_space(dict(others)))
            case {"kind": "word", "tokens": [*tokens], **others}:
                return WordTokenizer(_texts(tokens), _one_space(dict(others)))
            case {"kind": "whitespace" | "spaced", "tokens": [*tokens], **others}:
                return WhitespaceTokenizer(_texts(tokens), _one_space(dict(others)))
            case {"kind": "bpe" | "bytepair", "merges": [*merges], **others}:
                return BPETokenizer(
                    [_merge(merge) for merge in _texts(merges)], _one_space(dict(others))
                )
        reason = f"a kind ({', '.join(TOKENIZER_TRAINERS)}) and its tokens or merges were wanted."
    except ValueError as error:
        reason = str(error)
    raise RunError(
        f"This is not a tokenizer that Saccade wrote: {reason} "
        "Copy tokenizer.json again from where it came, or train again."
    )


def _spaces(collapse_spaces: bool) -> dict[str, str]:
    """What JSON says of the spaces: nothing where they are kept, as it was before they could go."""
    return {"spaces": SINGLE_SPACES} if collapse_spaces else {}


def _one_space(others: dict[Any, Any]) -> bool:
    if others.get("spaces", SINGLE_SPACES) != SINGLE_SPACES:
        raise ValueError(
            f"It has spaces {others['spaces']!r:.40} where {SINGLE_SPACES!r} was wanted."
        )
    return "spaces" in others


def _texts(values: list[Any]) -> list[str]:
    for value in values:
        if not isinstance(value, str) or not value:
            raise ValueError(f"It lists {value!r:.40} where some text was wanted.")
    return values


def _merge(text: str) -> tuple[str, str]:
    left, _, right = text.partition(" ")
    return left, right
