"""Tagged sentences as ids, and the vocabulary of words and tags. Does not import torch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from saccade.data.samplers import evenly_spaced_rows
from saccade.data.spelling import spell_words
from saccade.data.tagging.schemes import TaggedSentence
from saccade.data.tokenizers import tokenizer_from_json
from saccade.data.wordpiece import CLS, SEP
from saccade.errors import ConfigError
from saccade.io.documents import parse_structure
from saccade.models.tagging_config import BertTaggerConfig
from saccade.tasks.tagging.config import TagRecipe
from saccade.types.arrays import IntArray
from saccade.types.bags import Bags, make_bags
from saccade.types.word_ids import FIRST_WORD, UNKNOWN_WORD


class TagVocabulary(NamedTuple):
    """Known words, lower-cased, tags, and whether these mark spans (BIO)."""

    words: list[str]
    tags: list[str]
    is_bio: bool
    pieces: dict[str, Any] = {}  # WordPiece tokenizer, of `bert`

    @property
    def tag_ids(self) -> dict[str, int]:
        """Tag to id."""
        return {tag: number for number, tag in enumerate(self.tags)}

    def model_sizes(self) -> dict[str, int]:
        """Return the settings of a network that follow from the words and tags."""
        size = len(self.words) + FIRST_WORD
        if self.pieces:
            size = tokenizer_from_json(self.pieces).vocab_size
        return {"vocab_size": size, "outputs": len(self.tags)}

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> "TagVocabulary":
        """Return the vocabulary of an encoder that was trained for another task, without tags."""
        return cls([], [], True, tokenizer.to_json())

    @classmethod
    def empty(cls, tokenizer: Any) -> "TagVocabulary":
        """Return the vocabulary of an encoder that reads the bytes of words."""
        return cls([], [], True)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        values = self._asdict()
        if not self.pieces:
            del values["pieces"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TagVocabulary":
        """Rebuild a vocabulary from plain values."""
        found: TagVocabulary = parse_structure(cls, values)
        if not found.tags:
            raise ValueError("got no tags")
        if len({*found.words}) < len(found.words) or len({*found.tags}) < len(found.tags):
            raise ValueError("got a word or a tag twice")
        return found


class FormTable(NamedTuple):
    """The different word forms of some sentences: their word ids and the ids of their bytes."""

    rows: Bags  # of each sentence, indices of its forms
    words: IntArray  # (forms,)
    spelling: IntArray  # (forms, bytes + 2), padded with 0


class PieceTable(NamedTuple):
    """Sentences as pieces: ids with [CLS] and [SEP], and the first piece of each word."""

    rows: Bags  # of each sentence, the position of the first piece of each word
    ids: Bags  # of each sentence


class FormEncoder:
    """Encodes tokens as word ids and as the ids of their bytes."""

    def __init__(self, words: Sequence[str]):
        self.ids = {word: number for number, word in enumerate(words, FIRST_WORD)}

    def encode(self, sentences: Iterable[Sequence[str]]) -> FormTable:
        """Return the forms of some sentences."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(token, len(numbers)) for token in s] for s in sentences]
        words = [self.ids.get(form.lower(), UNKNOWN_WORD) for form in numbers]
        return FormTable(make_bags(rows), np.array(words, np.int64), spell_words(numbers))


@runtime_checkable
class PieceTokenizer(Protocol):
    """A tokenizer that cuts words into pieces, with [CLS] and [SEP] among its ids."""

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Return the ids of each word of a text that is split already."""
        ...


class WordPieceEncoder:
    """Encodes tokens as pieces of words, up to the positions of a BERT."""

    def __init__(self, pieces: dict[str, Any], max_length: int):
        tokenizer = tokenizer_from_json(pieces)
        if not isinstance(tokenizer, PieceTokenizer):
            raise ConfigError(
                f"got a tokenizer of the kind {tokenizer.kind}; expected one that cuts words into "
                "pieces, as that of a BERT; try another --init-from."
            )
        self.tokenizer, self.max_length = tokenizer, max_length

    def encode(self, sentences: Iterable[Sequence[str]]) -> PieceTable:
        """Return the pieces of some sentences; each different word is cut once."""
        sentences = list(sentences)
        forms = list(dict.fromkeys(chain.from_iterable(sentences)))
        pieces = dict(zip(forms, self.tokenizer.encode_words(forms), strict=True))
        limit = self.max_length - 1
        ids, firsts = [], []
        for sentence in sentences:
            of_words = [pieces[token] for token in sentence]
            row = [CLS, *chain.from_iterable(of_words)][:limit]
            starts = np.cumsum([1, *map(len, of_words[:-1])])
            firsts.append(np.minimum(starts, len(row)).tolist())
            ids.append([*row, SEP])
        return PieceTable(make_bags(firsts), make_bags(ids))


AnyEncoder = FormEncoder | WordPieceEncoder
AnyTable = FormTable | PieceTable


def make_encoder(recipe: TagRecipe, vocabulary: TagVocabulary) -> AnyEncoder:
    """Return the encoder of the tokens for the model of a recipe."""
    if isinstance(recipe.model, BertTaggerConfig):
        return WordPieceEncoder(vocabulary.pieces, recipe.model.max_length)
    return FormEncoder(vocabulary.words)


@dataclass(frozen=True, eq=False)
class TaggedSplit:
    """Tagged sentences; ids are computed when a model needs them."""

    sentences: Sequence[TaggedSentence]
    vocabulary: TagVocabulary
    encoder: AnyEncoder
    is_held_out: bool = True  # False: the training sentences themselves

    def __len__(self) -> int:
        return len(self.sentences)

    @cached_property
    def table(self) -> AnyTable:
        """The sentences as the model reads them."""
        return self.encoder.encode(sentence.tokens for sentence in self.sentences)

    @cached_property
    def tags(self) -> Bags:
        """The tag ids of each sentence; −1 is a tag that the run does not know."""
        ids = self.vocabulary.tag_ids
        return make_bags([[ids.get(tag, -1) for tag in s.tags] for s in self.sentences])

    @cached_property
    def lengths(self) -> IntArray:
        """The number of tokens of each sentence."""
        return np.array([len(sentence.tokens) for sentence in self.sentences], np.int64)

    @property
    def unknown(self) -> Counter[str]:
        """Tags that the run does not know, and their counts."""
        known = {*self.vocabulary.tags}
        tags = chain.from_iterable(sentence.tags for sentence in self.sentences)
        return Counter(tag for tag in tags if tag not in known)

    def take(self, limit: int | None) -> "TaggedSplit":
        """Return at most `limit` sentences, evenly spread."""
        if limit is None or limit >= len(self):
            return self
        rows = evenly_spaced_rows(len(self), limit)
        return replace(self, sentences=[self.sentences[row] for row in rows])

    def fingerprint(self) -> str:
        """Return a short hash of the tokens and tags."""
        digest = blake2b(digest_size=16)
        for sentence in self.sentences:
            row = "\x1f".join((*sentence.tokens, "", *sentence.tags))
            digest.update(row.encode(errors="surrogatepass") + b"\n")
        return digest.hexdigest()
