"""Tokenizers: character, word, whitespace and byte-pair encoding (BPE); GPT's for imported models.

BERT's is `saccade.data.wordpiece`, RoBERTa's `saccade.data.byte_pieces`.

Every tokenizer applies `normalise` to its input: Unicode NFC, and "�" for a lone surrogate. With
`collapse_spaces` it applies `collapse_whitespace`: runs of white space, including no-break spaces,
become one space, and none is left at the ends. The setting is stored in the tokenizer's JSON, so
that training and prediction see the same form. Nothing else is changed, except by GPT's: case,
punctuation and control characters are kept. Input is one line, without a line end. After that, BPE
is lossless; `round_trip_loss` describes what the others lose.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from reprlib import repr as short_repr
from typing import Any, Protocol, runtime_checkable

from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers, pre_tokenizers, trainers

from saccade.data.byte_pieces import BytePieceTokenizer
from saccade.data.special_tokens import SPECIAL_TOKENS, UNK, UNK_SYMBOL
from saccade.data.token_display import SPECIAL_SYMBOLS, decode_characters, make_visible
from saccade.data.word_splitting import join_words, split_words
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.errors import ConfigError, DataError, RunError
from saccade.io.normalisation import normalise_unicode
from saccade.registry import lookup

DEFAULT_BPE_SIZE = 8000
SINGLE_SPACES = "one"  # value of "spaces" in the JSON of a tokenizer that collapses spaces
WORD_END = "</w>"  # suffix of the last token of a word, in GPT's tokenizer
MAX_CHARS_PER_TOKEN = 32  # assumed by `truncate`, so that a long text is not tokenized whole

_SURROGATE = re.compile("[\ud800-\udfff]")


def normalise(text: str) -> str:
    """Return the text in NFC, with "�" for a lone surrogate."""
    if text.isascii():
        return text
    if not text.isprintable():  # surrogates are not printable; most text is
        text = _SURROGATE.sub(UNK_SYMBOL, text)
    return normalise_unicode(text)


def collapse_whitespace(text: str) -> str:
    """Apply `normalise`, collapse every run of white space to one space, and strip the ends."""
    return " ".join(normalise(text).split())


def _normaliser(collapse_spaces: bool) -> Callable[[str], str]:
    return collapse_whitespace if collapse_spaces else normalise


@runtime_checkable
class Tokenizer(Protocol):
    """Interface of a tokenizer. The caller adds BOS and EOS."""

    kind: str
    round_trip_loss: str  # what decode(encode(text)) may lose of the normalised text
    collapse_spaces: bool

    @property
    def vocab_size(self) -> int:
        """Number of ids, including the four special tokens."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts, in parallel if possible."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text, without special tokens and with "�" for the unknown token."""

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable string for each id, for plots."""

    def to_json(self) -> dict[str, Any]:
        """Return the tokenizer as plain values for `tokenizer_from_json`."""


# --- characters and words: a listed vocabulary --------------------------------------------------


class Vocabulary:
    """A list of distinct tokens; the first has the id 4, after the four special tokens."""

    def __init__(self, tokens: Sequence[str]):
        self.tokens = tuple(tokens)
        self._ids = {token: id for id, token in enumerate(self.tokens, start=len(SPECIAL_TOKENS))}
        if len(self._ids) != len(self.tokens):
            repeated = [token for token, times in Counter(self.tokens).items() if times > 1]
            raise ValueError(
                f"got the token {short_repr(repeated[0])} twice; expected distinct tokens."
            )

    @classmethod
    def from_counts(
        cls, tokens: Iterable[str], min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """Return the vocabulary of the `max_size` most frequent tokens, sorted by frequency.

        Tokens with fewer than `min_count` occurrences are left out. A `Counter` is taken as counts.
        Equal counts are ordered by code point, so that the same text gives the same ids.
        """
        counts = Counter(tokens)
        kept = [token for token, times in counts.items() if times >= min_count]
        kept.sort(key=lambda token: (-counts[token], token))
        return cls(kept[:max_size])

    def __len__(self) -> int:
        """Return the number of ids, including the special tokens."""
        return len(SPECIAL_TOKENS) + len(self.tokens)

    def id_of(self, token: str) -> int:
        """Return the id of a token, or UNK."""
        return self._ids.get(token, UNK)

    def ids_of(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of tokens; unknown ones are UNK."""
        get = self._ids.get
        return [get(token, UNK) for token in tokens]

    def token_of(self, id: int) -> str:
        """Return the token of an id; for a special token, its display name."""
        if not 0 <= id < len(self):
            raise ValueError(f"got token id {id}; expected 0 to {len(self) - 1}.")
        return (
            SPECIAL_TOKENS[id]
            if id < len(SPECIAL_TOKENS)
            else self.tokens[id - len(SPECIAL_TOKENS)]
        )


class _Listed:
    """Base class of the tokenizers with a listed vocabulary."""

    kind: str
    round_trip_loss: str
    _split: Callable[[str], Iterable[str]]
    _join: Callable[[Iterable[str]], str]

    def __init__(self, tokens: Sequence[str], collapse_spaces: bool = False):
        self.vocabulary = Vocabulary(tokens)
        self.collapse_spaces = collapse_spaces
        self._read = _normaliser(collapse_spaces)

    @property
    def vocab_size(self) -> int:
        """Number of ids, including the four special tokens."""
        return len(self.vocabulary)

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable string for each id, for plots."""
        return [
            SPECIAL_SYMBOLS[id]
            if 0 <= id < len(SPECIAL_SYMBOLS)
            else make_visible(self.vocabulary.token_of(id))
            for id in ids
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the tokenizer as plain values for `tokenizer_from_json`."""
        return {
            "kind": self.kind,
            "tokens": list(self.vocabulary.tokens),
            **_spaces_field(self.collapse_spaces),
        }

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        return self.vocabulary.ids_of(self._split(self._read(text)))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text, without special tokens and with "�" for the unknown token."""
        tokens = (
            UNK_SYMBOL if id == UNK else self.vocabulary.token_of(id)
            for id in ids
            if not 0 <= id < UNK
        )
        return self._join(tokens)


class CharacterTokenizer(_Listed):
    """Tokenizer with one token for each code point."""

    kind = "character"
    round_trip_loss = f"characters that were not seen in training become {UNK_SYMBOL}"
    _split = staticmethod(iter)
    _join = "".join


class WordTokenizer(_Listed):
    """Tokenizer with one token for each word, number or symbol (`saccade.data.word_splitting`)."""

    kind = "word"
    round_trip_loss = (
        f"words that were not seen often enough become {UNK_SYMBOL}; spaces are put where they "
        "are usual, not where they were"
    )
    _split = staticmethod(split_words)
    _join = staticmethod(join_words)


class WhitespaceTokenizer(_Listed):
    """Tokenizer that splits at spaces, for text that is already tokenized."""

    kind = "whitespace"
    round_trip_loss = f"words that were not seen become {UNK_SYMBOL}; runs of spaces become one"
    _split = staticmethod(str.split)
    _join = " ".join


# --- byte-pair encoding -------------------------------------------------------------------------


def _byte_letters() -> str:
    """Return the character for each byte in a merge: itself if it is printable.

    The table of GPT-2 (Radford et al. 2019): the others have the code points from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in printable else next(others)) for byte in range(256))


_LETTERS = _byte_letters()
_BYTE_OF = {letter: byte for byte, letter in enumerate(_LETTERS)}


class BPETokenizer:
    """Byte-level BPE: merges of byte pairs, the most frequent first (Sennrich et al. 2016).

    Any text can be written in the 256 bytes, so nothing is unknown. The merges are the only state:
    ids 4 to 259 are the bytes (in the order of their characters), and each merge that gives a new
    token has the next id. The special tokens are not in the engine, so that no text can be taken
    for one.
    """

    kind = "bpe"
    round_trip_loss = ""

    def __init__(self, merges: Sequence[tuple[str, str]], collapse_spaces: bool = False):
        self.merges = tuple(merges)
        self.collapse_spaces = collapse_spaces
        self._read = _normaliser(collapse_spaces)
        known = dict.fromkeys(sorted(_LETTERS))
        for left, right in self.merges:
            if left not in known or right not in known:
                raise ValueError(
                    f"got the merge of {short_repr(left)} and {short_repr(right)} before its "
                    "parts; expected it after."
                )
            known[left + right] = None
        vocabulary = {token: id for id, token in enumerate(known)}
        self._engine = Engine(models.BPE(vocab=vocabulary, merges=list(self.merges)))
        self._engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._known = tuple(known)
        special = [b"", b"", b"", UNK_SYMBOL.encode()]
        self._bytes = special + [bytes(_BYTE_OF[letter] for letter in token) for token in known]

    @classmethod
    def fit(cls, texts: Iterable[str], size: int) -> "BPETokenizer":
        """Merge the most frequent pair repeatedly until there are `size` ids."""
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
        """Number of ids, including the four special tokens."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        return [id + len(SPECIAL_TOKENS) for id in self._engine.encode(self._read(text)).ids]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts on all cores."""
        encodings = self._engine.encode_batch_fast([self._read(text) for text in texts])
        return [[id + len(SPECIAL_TOKENS) for id in encoding.ids] for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text, without special tokens and with "�" for invalid UTF-8."""
        return b"".join(map(self._bytes_of, ids)).decode("utf-8", "replace")

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable string for each id, for plots.

        A character whose bytes are spread over several tokens is shown at each of them with the
        number of the part (年₁ 年₂ 年₃); invalid bytes as ⟨e5⟩.
        """
        owners = [position for position, id in enumerate(ids) for _ in self._bytes_of(id)]
        pieces = [SPECIAL_SYMBOLS[id] if id < len(SPECIAL_SYMBOLS) else "" for id in ids]
        at = 0
        for letter, length in decode_characters(b"".join(map(self._bytes_of, ids))):
            positions = list(dict.fromkeys(owners[at : at + length]))
            at += length
            for part, position in enumerate(positions, start=1):
                if ids[position] != UNK:
                    pieces[position] += letter + (chr(0x2080 + part) if len(positions) > 1 else "")
        return [
            piece if id < len(SPECIAL_SYMBOLS) else make_visible(piece)
            for id, piece in zip(ids, pieces, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the tokenizer as plain values for `tokenizer_from_json`."""
        merges = [f"{left} {right}" for left, right in self.merges]
        return {"kind": self.kind, "merges": merges, **_spaces_field(self.collapse_spaces)}

    def get_vocab(self) -> dict[str, int]:
        """Return token → id, with a character for each byte, without the special tokens."""
        return {token: id for id, token in enumerate(self._known, start=len(SPECIAL_TOKENS))}

    def _bytes_of(self, id: int) -> bytes:
        if not 0 <= id < len(self._bytes):
            raise ValueError(f"got token id {id}; expected 0 to {len(self._bytes) - 1}.")
        return self._bytes[id]


class LowercaseBPETokenizer:
    """GPT's tokenizer (Radford et al. 2018) in Hugging Face's form, for imported models.

    A text is normalised and split into words and punctuation as by BERT's uncased tokenizer: lower
    case, without accents. A word is then a sequence of characters, the last of them with "</w>",
    and pairs are merged as in BPE. Characters without a token are unknown. It cannot be fitted.
    """

    kind = "lowercase_bpe"
    round_trip_loss = (
        "upper case, accents and control characters; a space is put between words and punctuation; "
        f"characters that are not in the vocabulary become {UNK_SYMBOL}"
    )

    def __init__(
        self,
        tokens: Sequence[str],
        merges: Sequence[tuple[str, str]],
        collapse_spaces: bool = False,
    ):
        self.vocabulary, self.merges = Vocabulary(tokens), tuple(merges)
        self.collapse_spaces = collapse_spaces
        self._read = _normaliser(collapse_spaces)
        ids = {token: id for id, token in enumerate(tokens, start=len(SPECIAL_TOKENS))}
        made = {token for token in tokens if len(token.removesuffix(WORD_END)) == 1}
        for left, right in self.merges:
            if left not in made or right not in made:
                raise ValueError(
                    f"got the merge of {short_repr(left)} and {short_repr(right)} before its "
                    "parts; expected it after."
                )
            if left + right not in ids or " " in left + right:
                raise ValueError(
                    f"got the merge of {short_repr(left)} and {short_repr(right)}; expected parts "
                    f"without spaces, and {short_repr(left + right)} among the tokens."
                )
            made.add(left + right)
        unknown = SPECIAL_TOKENS[UNK]
        wrong = [token for token in tokens if token == unknown or _SURROGATE.search(token)]
        if wrong:
            raise ValueError(f"got the token {short_repr(wrong[0])}; expected tokens of text only.")
        self._engine = lowercase_bpe_engine({unknown: UNK, **ids}, self.merges)

    @property
    def vocab_size(self) -> int:
        """Number of ids, including the four special tokens."""
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        return list(self._engine.encode(self._read(text)).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts on all cores."""
        encodings = self._engine.encode_batch_fast([self._read(text) for text in texts])
        return [list(encoding.ids) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text, without special tokens and with "�" for the unknown token."""
        pieces = (UNK_SYMBOL if id == UNK else self._piece(id) for id in ids if not 0 <= id < UNK)
        return "".join(pieces).removesuffix(" ")

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable string for each id, for plots."""
        return [
            SPECIAL_SYMBOLS[id] if 0 <= id < len(SPECIAL_SYMBOLS) else make_visible(self._piece(id))
            for id in ids
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the tokenizer as plain values for `tokenizer_from_json`."""
        return {
            "kind": self.kind,
            "tokens": list(self.vocabulary.tokens),
            "merges": [f"{left} {right}" for left, right in self.merges],
            **_spaces_field(self.collapse_spaces),
        }

    def _piece(self, id: int) -> str:
        return self.vocabulary.token_of(id).replace(WORD_END, " ")


def lowercase_bpe_engine(ids: dict[str, int], merges: Sequence[tuple[str, str]]) -> Engine:
    """Return GPT's tokenizer as one of the tokenizers library, with any ids."""
    engine = Engine(
        models.BPE(
            vocab=ids,
            merges=list(merges),
            unk_token=SPECIAL_TOKENS[UNK],
            end_of_word_suffix=WORD_END,
            continuing_subword_prefix="",
            fuse_unk=False,
        )
    )
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return engine


# --- fitting and loading ------------------------------------------------------------------------


def _train_character(texts: Iterable[str], size: int | None) -> Tokenizer:
    letters = chain.from_iterable(map(normalise, texts))
    return CharacterTokenizer(
        Vocabulary.from_counts(letters, max_size=_without_special_tokens(size)).tokens
    )


def _train_word(texts: Iterable[str], size: int | None) -> Tokenizer:
    counts = Counter(chain.from_iterable(split_words(normalise(text)) for text in texts))
    # the model needs unknown words in training, so words seen once are left out, unless all are
    min_count = 2 if size is None and any(times > 1 for times in counts.values()) else 1
    return WordTokenizer(
        Vocabulary.from_counts(
            counts, min_count=min_count, max_size=_without_special_tokens(size)
        ).tokens
    )


def _train_whitespace(texts: Iterable[str], size: int | None) -> Tokenizer:
    # text that is already tokenized has its own token for unknown words
    words = chain.from_iterable(normalise(text).split() for text in texts)
    return WhitespaceTokenizer(
        Vocabulary.from_counts(words, max_size=_without_special_tokens(size)).tokens
    )


def _train_bpe(texts: Iterable[str], size: int | None) -> Tokenizer:
    return BPETokenizer.fit(texts, DEFAULT_BPE_SIZE if size is None else size)


def _without_special_tokens(size: int | None) -> int | None:
    return None if size is None else size - len(SPECIAL_TOKENS)


TOKENIZER_TRAINERS: dict[str, Callable[[Iterable[str], int | None], Tokenizer]] = {
    "character": _train_character,
    "whitespace": _train_whitespace,
    "word": _train_word,
    "bpe": _train_bpe,
}


def train_tokenizer(
    kind: str, texts: Iterable[str], size: int | None = None, collapse_spaces: bool = False
) -> Tokenizer:
    """Fit a tokenizer to texts, which are read once.

    The same texts in another order give the same tokenizer. `size` is the maximum number of tokens,
    including the special ones; by default it is every character, every word seen twice, or 8000
    byte pairs (fewer if the text repeats less).
    """
    fit = lookup(TOKENIZER_TRAINERS, kind, "tokenizer")
    smallest = len(SPECIAL_TOKENS) + (256 if kind == "bpe" else 1)
    if size is not None and size < smallest:
        raise ConfigError(f"got size={size} for a {kind} tokenizer; expected at least {smallest}.")
    tokenizer = fit(map(_normaliser(collapse_spaces), texts), size)
    if collapse_spaces:
        tokenizer = tokenizer_from_json({**tokenizer.to_json(), "spaces": SINGLE_SPACES})
    if tokenizer.vocab_size == len(SPECIAL_TOKENS):
        raise DataError(f"got no text to fit a {kind} tokenizer to; expected at least one {kind}.")
    return tokenizer


def tokenizer_from_json(value: Any) -> Tokenizer:
    """Return the tokenizer that `to_json` described; nothing in the value is executed."""
    try:
        match value:
            case {"kind": "character", "tokens": [*tokens], **others}:
                return CharacterTokenizer(_texts(tokens), _collapses_spaces(dict(others)))
            case {"kind": "word", "tokens": [*tokens], **others}:
                return WordTokenizer(_texts(tokens), _collapses_spaces(dict(others)))
            case {"kind": "whitespace" | "spaced", "tokens": [*tokens], **others}:
                return WhitespaceTokenizer(_texts(tokens), _collapses_spaces(dict(others)))
            case {"kind": "bpe" | "bytepair", "merges": [*merges], **others}:
                return BPETokenizer(
                    [_merge(merge) for merge in _texts(merges)], _collapses_spaces(dict(others))
                )
            case {
                "kind": LowercaseBPETokenizer.kind,
                "tokens": [*tokens],
                "merges": [*merges],
                **others,
            }:
                return LowercaseBPETokenizer(
                    _texts(tokens),
                    [_merge(merge) for merge in _texts(merges)],
                    _collapses_spaces(dict(others)),
                )
            case {"kind": BytePieceTokenizer.kind, "tokens": [*tokens], "merges": [*merges]}:
                return BytePieceTokenizer(
                    _texts(tokens), [_merge(merge) for merge in _texts(merges)]
                )
            case {"kind": WordPieceTokenizer.kind, "tokens": [*tokens], **others}:
                return WordPieceTokenizer(_texts(tokens), **_wordpiece_settings(dict(others)))
        reason = f"expected a kind ({', '.join(TOKENIZER_TRAINERS)}) and its tokens or merges."
    except ValueError as error:
        reason = str(error)
    raise RunError(
        f"This is not a tokenizer that Saccade wrote: {reason} "
        "Copy tokenizer.json again from its source, or train again."
    )


def _spaces_field(collapse_spaces: bool) -> dict[str, str]:
    """Return the JSON field for collapsed spaces; none if they are kept, as in older files."""
    return {"spaces": SINGLE_SPACES} if collapse_spaces else {}


def _collapses_spaces(others: dict[Any, Any]) -> bool:
    if others.get("spaces", SINGLE_SPACES) != SINGLE_SPACES:
        raise ValueError(f"got spaces={short_repr(others['spaces'])}; expected {SINGLE_SPACES!r}.")
    return "spaces" in others


def _wordpiece_settings(others: dict[Any, Any]) -> dict[str, bool]:
    for name, value in others.items():
        allowed = (True, False, None) if name == "strip_accents" else (True, False)
        if name not in ("lowercase", "strip_accents", "split_chinese") or value not in allowed:
            raise ValueError(f"got {name}={short_repr(value)}; expected settings of WordPiece.")
    return others


def _texts(values: list[Any]) -> list[str]:
    for value in values:
        if not isinstance(value, str) or not value:
            raise ValueError(f"got {short_repr(value)} in a list of tokens; expected text.")
    return values


def _merge(text: str) -> tuple[str, str]:
    left, _, right = text.partition(" ")
    return left, right


# --- lengths ------------------------------------------------------------------------------------


def truncate(text: str, tokenizer: Tokenizer, max_length: int) -> str:
    """Return the text, or its longest prefix of at most `max_length` tokens.

    Of a text that is much too long only `MAX_CHARS_PER_TOKEN` characters for each token are
    tokenized, whatever the length of the rest.
    """
    prefix = text[: max_length * MAX_CHARS_PER_TOKEN]
    # a token has at least one byte, so that most texts need not be tokenized
    if len(prefix) == len(text) and len(normalise(text).encode()) <= max_length:
        return text
    if len(tokenizer.encode(prefix)) <= max_length:
        return prefix
    fits, too_long = 0, len(prefix)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if len(tokenizer.encode(prefix[:middle])) <= max_length:
            fits = middle
        else:
            too_long = middle
    return prefix[:fits]


def group_by_length(
    rows: Sequence[int], encoded: Sequence[Sequence[int]], max_tokens: int, max_rows: int
) -> Iterator[list[int]]:
    """Yield groups of rows of similar length, at most `max_rows` and about `max_tokens` padded."""
    group: list[int] = []
    for row in sorted(rows, key=lambda row: len(encoded[row])):
        padded_tokens = (len(encoded[row]) + 1) * (len(group) + 1)
        if group and (padded_tokens > max_tokens or len(group) == max_rows):
            yield group
            group = []
        group.append(row)
    if group:
        yield group
