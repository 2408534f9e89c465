"""Texts and pairs of texts as ids of BERT: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]. No torch."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from saccade.data.special_tokens import UNK
from saccade.data.text.text_pairs import PAIR_SEPARATOR
from saccade.data.tokenizers import tokenizer_from_json
from saccade.data.wordpiece import CLS, SEP, WordPieceTokenizer
from saccade.errors import DataError
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.texts import TextSplit
from saccade.types.bags import Bags

MAX_UNCOVERED_SHARE = 0.2  # of the tokens, above which a vocabulary does not cover the texts
CHECKED_TEXTS = 1000  # whose tokens are counted for that
NO_SPAN = (0, 0)  # of a special token


class EncodedText(NamedTuple):
    """The ids of a text with special tokens, and the characters text[start:end] of each."""

    ids: list[int]
    spans: list[tuple[int, int]]


class PieceEncoder:
    """Encodes texts as ids of a WordPiece tokenizer minus 1, truncated to the positions of a BERT.

    Of a pair, tokens are removed from the end of the longer text, one by one.
    """

    def __init__(self, recipe: ClassifyRecipe, pieces: dict[str, Any]):
        tokenizer = tokenizer_from_json(pieces)
        assert isinstance(tokenizer, WordPieceTokenizer)
        self.tokenizer = tokenizer
        self.is_pair = recipe.data.pair is not None
        limit = int(recipe.model.model_dump()["max_length"])
        self.max_tokens = min(recipe.data.max_tokens or limit, limit)

    def encode(self, texts: Iterable[str]) -> Bags:
        """Return the ids of each text minus 1."""
        texts = list(texts)
        rows: list[list[int]]
        if self.is_pair:
            sides = zip(*(text.partition(PAIR_SEPARATOR)[::2] for text in texts), strict=True)
            first, second = (
                (self.tokenizer.encode_many(side) for side in sides) if texts else ([], [])
            )
            rows = [self._join(*pair) for pair in zip(first, second, strict=True)]
        else:
            limit = self.max_tokens - 2
            rows = [[CLS, *ids[:limit], SEP] for ids in self.tokenizer.encode_many(texts)]
        return bags_of_pieces(rows)

    def encode_spans(self, text: str) -> EncodedText:
        """Return the ids of one text, and the characters of each."""
        first = text.partition(PAIR_SEPARATOR)[0] if self.is_pair else text
        pieces = self.tokenizer.encode_pieces(first)
        if not self.is_pair:
            limit = self.max_tokens - 2
            spans = [NO_SPAN, *pieces.spans[:limit], NO_SPAN]
            return EncodedText([CLS, *pieces.ids[:limit], SEP], spans)
        offset = len(first) + len(PAIR_SEPARATOR)
        second = self.tokenizer.encode_pieces(text[offset:])
        kept = truncated_lengths(len(pieces.ids), len(second.ids), self.max_tokens - 3)
        moved = [(start + offset, end + offset) for start, end in second.spans]
        spans = [NO_SPAN, *pieces.spans[: kept[0]], NO_SPAN, *moved[: kept[1]], NO_SPAN]
        return EncodedText(self._join(pieces.ids, second.ids), spans)

    def _join(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        one, two = truncated_lengths(len(first), len(second), self.max_tokens - 3)
        return [CLS, *first[:one], SEP, *second[:two], SEP]


def bags_of_pieces(rows: Sequence[Sequence[int]]) -> Bags:
    """Return rows of ids, minus 1."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
    return Bags(starts, np.fromiter(chain.from_iterable(rows), np.int32, int(starts[-1])) - 1)


def truncated_lengths(first: int, second: int, limit: int) -> tuple[int, int]:
    """Return the lengths of a pair after removing the last token of the longer text repeatedly."""
    if first + second <= limit:
        return first, second
    half = limit // 2
    if second <= half:
        return limit - second, second
    if first <= limit - half:
        return first, limit - first
    return limit - half, half


def check_coverage(split: TextSplit, source: str) -> list[str]:
    """Return notes on unknown tokens; DataError if the vocabulary does not cover the texts."""
    assert isinstance(split.encoder, PieceEncoder)
    rows = split.encoder.tokenizer.encode_many(list(split.take(CHECKED_TEXTS).texts))
    ids = np.fromiter(chain.from_iterable(rows), np.int32)
    share = float((ids == UNK).mean()) if len(ids) else 0.0
    if share > MAX_UNCOVERED_SHARE:
        raise DataError(
            f"got texts {share:.0%} of whose tokens are not in the vocabulary of {source}; "
            f"expected at most {MAX_UNCOVERED_SHARE:.0%}: it was made for another language or "
            "script; try a model of the language of the texts, or train without --init-from."
        )
    return [f"{share:.1%} of the tokens are not in the vocabulary."] if share >= 0.001 else []
