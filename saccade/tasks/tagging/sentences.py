"""Tagged sentences as ids, and the vocabulary of words and tags. Does not import torch."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from saccade.data.samplers import evenly_spaced_rows
from saccade.data.spelling import spell_words
from saccade.data.tagging.schemes import TaggedSentence
from saccade.io.documents import parse_structure
from saccade.types.arrays import IntArray
from saccade.types.bags import Bags, make_bags
from saccade.types.word_ids import FIRST_WORD, UNKNOWN_WORD


class TagVocabulary(NamedTuple):
    """Known words, lower-cased, tags, and whether these mark spans (BIO)."""

    words: list[str]
    tags: list[str]
    is_bio: bool

    @property
    def tag_ids(self) -> dict[str, int]:
        """Tag to id."""
        return {tag: number for number, tag in enumerate(self.tags)}

    def model_sizes(self) -> dict[str, int]:
        """Return the settings of a network that follow from the words and tags."""
        return {"vocab_size": len(self.words) + FIRST_WORD, "outputs": len(self.tags)}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self._asdict()

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


@dataclass(frozen=True, eq=False)
class TaggedSplit:
    """Tagged sentences; ids are computed when a model needs them."""

    sentences: Sequence[TaggedSentence]
    vocabulary: TagVocabulary
    encoder: FormEncoder
    is_held_out: bool = True  # False: the training sentences themselves

    def __len__(self) -> int:
        return len(self.sentences)

    @cached_property
    def forms(self) -> FormTable:
        """The word forms of the sentences."""
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
