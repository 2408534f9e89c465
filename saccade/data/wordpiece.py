r"""WordPiece: BERT's tokenizer, with pieces of words and their characters in the text.

A text is normalised and split into words and punctuation as by BERT (control characters removed,
Chinese characters each a word; uncased: lower case, without accents). A word is then cut into the
longest pieces of the vocabulary from its start on, where a piece that continues a word is written
"##piece"; a word that cannot be cut so is unknown as a whole (Wu et al. 2016, section 4.1; Devlin
et al. 2019). The vocabulary is fitted by merging the most frequent pair of pieces, as
byte-pair encoding does.

The first five ids are [PAD], [CLS], [SEP], [UNK] and [MASK] in every vocabulary, the first four of
them with the ids of `saccade.data.special_tokens`. No text can contain them: "[MASK]" in a text is
three tokens. Those of an imported vocabulary are moved there.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from reprlib import repr as short_repr
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers, pre_tokenizers, trainers

from saccade.data.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, UNK_SYMBOL
from saccade.data.token_display import SPECIAL_SYMBOLS, make_visible

CLS, SEP, MASK = BOS, EOS, len(SPECIAL_TOKENS)
BERT_SPECIAL_TOKENS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")  # their ids are 0 to 4
CONTINUATION = "##"  # prefix of a piece that continues a word
DEFAULT_WORDPIECE_SIZE = 8000
MAX_ALPHABET = 1000  # characters of a fitted vocabulary; words with others are unknown
MAX_WORD_CHARS = 100  # longer words are unknown, as in BERT


class TextPieces(NamedTuple):
    """The pieces of a text: ids, and the characters text[start:end] that each comes from.

    `is_start` is True where a piece starts a word.
    """

    ids: list[int]
    spans: list[tuple[int, int]]
    is_start: list[bool]


class WordPieceTokenizer:
    """Tokenizer with pieces of words; it satisfies `saccade.data.tokenizers.Tokenizer`.

    Args:
        tokens: those after the five special tokens, in the order of their ids.
        lowercase: text is lower-cased and accents are removed (uncased); else neither.
        strip_accents: remove accents; as `lowercase` if None.
        split_chinese: each Chinese character is a word.
    """

    kind = "wordpiece"
    collapse_spaces = False  # spaces only separate words
    round_trip_loss = (
        "upper case and accents (uncased), control characters and runs of spaces; a space is put "
        f"between words and punctuation; words without pieces become {UNK_SYMBOL}"
    )

    def __init__(
        self,
        tokens: Sequence[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
    ):
        self.tokens = (*BERT_SPECIAL_TOKENS, *tokens)
        self.lowercase, self.strip_accents, self.split_chinese = (
            lowercase,
            strip_accents,
            split_chinese,
        )
        self._ids = index_tokens(self.tokens)
        self.is_continuation: NDArray[np.bool_] = np.array(
            [token.startswith(CONTINUATION) and token != CONTINUATION for token in self.tokens]
        )
        self._engine = wordpiece_engine(self._ids, lowercase, strip_accents, split_chinese)

    @classmethod
    def fit(
        cls, texts: Iterable[str], size: int | None = None, lowercase: bool = True
    ) -> "WordPieceTokenizer":
        """Merge the most frequent pair of pieces repeatedly until there are `size` ids.

        The vocabulary starts with the characters of the texts, at the start of a word and within
        one. The same texts give the same vocabulary, in any order.
        """
        texts = [_without_surrogates(text) for text in texts]
        engine = wordpiece_engine({BERT_SPECIAL_TOKENS[UNK]: 0}, lowercase)
        letters = _alphabet(engine, texts)
        pieces = [*letters, *(CONTINUATION + letter for letter in letters)]
        trainer = trainers.WordPieceTrainer(
            vocab_size=(size or DEFAULT_WORDPIECE_SIZE) - len(BERT_SPECIAL_TOKENS),
            min_frequency=2,
            # in this order, since the trainer's own is that of a hash table, and breaks ties
            special_tokens=pieces,
            limit_alphabet=len(letters),
            show_progress=False,
        )
        engine.train_from_iterator(texts, trainer)
        ids = engine.get_vocab()
        return cls(sorted(ids, key=ids.__getitem__), lowercase)

    @property
    def vocab_size(self) -> int:
        """Number of ids, including the five special tokens."""
        return len(self.tokens)

    def id_of(self, token: str) -> int:
        """Return the id of a token of the vocabulary, or UNK."""
        return self._ids.get(token, UNK)

    def token_of(self, id: int) -> str:
        """Return the token of an id, "##piece" for one that continues a word."""
        return self.tokens[id]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without [CLS] and [SEP]."""
        return list(self._engine.encode(_without_surrogates(text)).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts on all cores."""
        encodings = self._engine.encode_batch_fast([_without_surrogates(text) for text in texts])
        return [list(encoding.ids) for encoding in encodings]

    def encode_pieces(self, text: str) -> TextPieces:
        """Return the ids of a text with their characters in it, and which of them start a word."""
        encoding = self._engine.encode(_without_surrogates(text))
        words = encoding.word_ids
        is_start = [
            at == 0 or word != words[at - 1] for at, word in enumerate(words)
        ]  # an unknown word is one piece
        return TextPieces(list(encoding.ids), list(encoding.offsets), is_start)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Return the ids of each word of a text that is split already, at least one for each."""
        return [ids or [UNK] for ids in self.encode_many(words)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words with spaces between, without special tokens and with "�" for [UNK]."""
        parts: list[str] = []
        for id in ids:
            if id in (PAD, CLS, SEP):
                continue
            piece = UNK_SYMBOL if id == UNK else self.tokens[id]
            if self.is_continuation[id]:
                parts.append(piece.removeprefix(CONTINUATION))
            else:
                parts += [" ", piece] if parts else [piece]
        return "".join(parts)

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable string for each id, for plots."""
        return [
            SPECIAL_SYMBOLS[id] if id in (PAD, UNK) else make_visible(self.tokens[id]) for id in ids
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the tokenizer as plain values for `tokenizer_from_json`."""
        return {
            "kind": self.kind,
            "tokens": list(self.tokens[len(BERT_SPECIAL_TOKENS) :]),
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_chinese": self.split_chinese,
        }


def index_tokens(tokens: Sequence[str]) -> dict[str, int]:
    """Return the id of each token; ValueError if one occurs twice."""
    ids = {token: id for id, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        repeated = [token for token, times in Counter(tokens).items() if times > 1]
        raise ValueError(
            f"got the token {short_repr(repeated[0])} twice; expected distinct tokens without "
            f"{', '.join(BERT_SPECIAL_TOKENS)}."
        )
    return ids


def wordpiece_engine(
    ids: dict[str, int],
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_chinese: bool = True,
) -> Engine:
    """Return BERT's tokenizer as one of the tokenizers library, with any ids."""
    engine = Engine(
        models.WordPiece(
            vocab=ids,
            unk_token=BERT_SPECIAL_TOKENS[UNK],
            continuing_subword_prefix=CONTINUATION,
            max_input_chars_per_word=MAX_WORD_CHARS,
        )
    )
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return engine


def _alphabet(engine: Engine, texts: Sequence[str]) -> list[str]:
    """Return the most frequent characters of the normalised texts, sorted."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(engine.normalizer.normalize_str(text))
    letters = [letter for letter in counts if not letter.isspace()]
    letters.sort(key=lambda letter: (-counts[letter], letter))
    return sorted(letters[:MAX_ALPHABET])


def _without_surrogates(text: str) -> str:
    """Return the text with "�" for a lone surrogate, so that it can be encoded in UTF-8."""
    if text.isascii():
        return text
    return "".join(UNK_SYMBOL if "\ud800" <= letter <= "\udfff" else letter for letter in text)
