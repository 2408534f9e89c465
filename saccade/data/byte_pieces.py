r"""RoBERTa's tokenizer: byte-level BPE with the special tokens of BERT, for imported models.

Words keep the space before them, written "Ġ", and are merged from bytes as by GPT-2 (Radford et al.
2019; Liu et al. 2019), so no text has an unknown token. It cannot be fitted; use
`saccade.data.wordpiece` for a new vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers

from saccade.data.token_display import make_visible
from saccade.data.wordpiece import (
    BERT_SPECIAL_TOKENS,
    TextPieces,
    WordPieceTokenizer,
    index_tokens,
)

SPACE_LETTER = "Ġ"  # a space, in the alphabet of bytes


class BytePieceTokenizer(WordPieceTokenizer):
    """Tokenizer with pieces of bytes and the interface of `WordPieceTokenizer`.

    Args:
        tokens: those after the five special tokens, in the order of their ids.
        merges: pairs of tokens, the first ones first.
    """

    kind = "byte_pieces"
    round_trip_loss = "a word at the start of a text is another token than one after a space"

    def __init__(self, tokens: Sequence[str], merges: Sequence[tuple[str, str]]):
        self.tokens = (*BERT_SPECIAL_TOKENS, *tokens)
        self.merges = tuple(merges)
        self.lowercase, self.strip_accents, self.split_chinese = False, False, False
        self._ids = index_tokens(self.tokens)
        missing = [token for token in pre_tokenizers.ByteLevel.alphabet() if token not in self._ids]
        if missing:
            raise ValueError(f"got no token for the byte {min(missing)!r}; expected all 256.")
        for left, right in self.merges:
            if not {left, right, left + right} <= self._ids.keys():
                raise ValueError(
                    f"got the merge of {left!r} and {right!r}; expected tokens of the vocabulary."
                )
        special = len(BERT_SPECIAL_TOKENS)
        self.is_continuation = np.array(
            [id >= special and token[0] != SPACE_LETTER for id, token in enumerate(self.tokens)]
        )
        self._engine = Engine(models.BPE(vocab=self._ids, merges=list(self.merges)))
        self._engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._engine.decoder = decoders.ByteLevel()

    def encode_pieces(self, text: str) -> TextPieces:
        """Return the ids of a text with their characters in it, without the spaces around them."""
        pieces = super().encode_pieces(text)
        spans = []
        for start, end in pieces.spans:
            while start < end - 1 and text[start].isspace():
                start += 1
            spans.append((start, end))
        return pieces._replace(spans=spans)

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Return the ids of each word of a text that is split already, a space before all but one.

        An empty word is a space.
        """
        return self.encode_many(
            [word if at == 0 and word else f" {word}" for at, word in enumerate(words)]
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text, without special tokens and with "�" for invalid UTF-8."""
        special = len(BERT_SPECIAL_TOKENS)
        text: str = self._engine.decode([id for id in ids if id >= special])
        return text

    def display_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable string for each id, for plots."""
        special = len(BERT_SPECIAL_TOKENS)
        return [self.tokens[id] if id < special else make_visible(self.decode([id])) for id in ids]

    def to_json(self) -> dict[str, Any]:
        """Return the tokenizer as plain values for `tokenizer_from_json`."""
        return {
            "kind": self.kind,
            "tokens": list(self.tokens[len(BERT_SPECIAL_TOKENS) :]),
            "merges": [f"{left} {right}" for left, right in self.merges],
        }
