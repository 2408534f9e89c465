"""Texts with labels, and the vocabulary of words and labels. Does not import torch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from saccade.data.samplers import evenly_spaced_rows
from saccade.data.text.labelled import LabelledText
from saccade.data.word_splitting import SPLITTERS
from saccade.errors import DataError
from saccade.io.documents import parse_structure
from saccade.registry import import_when_called
from saccade.tasks.text_classification.config import ClassifyRecipe, LabelsConfig
from saccade.types.arrays import BoolArray, FloatArray, IntArray
from saccade.types.bags import Bags, make_bags

PIECE_ENCODER = import_when_called("saccade.tasks.text_classification.pieces:PieceEncoder")
PROMPT_ENCODER = import_when_called("saccade.tasks.text_classification.templates:TemplateEncoder")
NUM_PIECE_SPECIALS = 5  # special tokens of a WordPiece tokenizer


class LabelVocabulary(NamedTuple):
    """Known words or a tokenizer, labels, and the number of training texts of each label."""

    words: list[str]  # empty for n-grams, which are hashed
    labels: list[str]
    met: list[int]  # counts of the labels
    pieces: dict[str, Any] = {}  # of bert: the tokenizer, as plain values

    @property
    def label_ids(self) -> dict[str, int]:
        """Label to id."""
        return {label: number for number, label in enumerate(self.labels)}

    def model_sizes(self) -> dict[str, int]:
        """Return the settings of a network that follow from the words and labels."""
        size = len(self.words) + 1
        if self.pieces:
            size = len(self.pieces["tokens"]) + NUM_PIECE_SPECIALS
        return {"vocab_size": size, "outputs": len(self.labels)}

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> "LabelVocabulary":
        """Return the vocabulary of an encoder that was trained for another task, without labels."""
        return cls([], [], [], tokenizer.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        values = self._asdict()
        if not self.pieces:  # as in files of versions before bert
            del values["pieces"]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "LabelVocabulary":
        """Rebuild a vocabulary from plain values."""
        found: LabelVocabulary = parse_structure(cls, values)
        if found.pieces and not isinstance(found.pieces.get("tokens"), list):
            raise ValueError("got a tokenizer without tokens")
        if len(found.labels) != len(found.met) or not found.labels:
            raise ValueError(f"got {len(found.labels):,} labels and {len(found.met):,} counts")
        if len({*found.words}) < len(found.words) or len({*found.labels}) < len(found.labels):
            raise ValueError("got a word or a label twice")
        return found


@runtime_checkable
class TextEncoder(Protocol):
    """Encodes texts as ids; a network gets them increased by 1, with 0 for padding."""

    def encode(self, texts: Iterable[str]) -> Bags:
        """Return the ids of each text."""


class WordEncoder:
    """Encodes texts as the ids of their known words, lower-cased; other words are dropped."""

    def __init__(self, words: Sequence[str], split: str):
        self.ids = {word: number for number, word in enumerate(words)}
        self.splitter = SPLITTERS[split]

    def encode(self, texts: Iterable[str]) -> Bags:
        """Return the word ids of each text."""
        ids, splitter = self.ids, self.splitter
        rows = [[ids[w] for w in splitter(text.lower()) if w in ids] for text in texts]
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=starts[1:])
        return Bags(starts, np.fromiter(chain.from_iterable(rows), np.int32, int(starts[-1])))


@dataclass(frozen=True, eq=False)
class TextSplit:
    """Texts with their labels; word ids are computed when a model needs them."""

    texts: Sequence[str]
    labels: Bags  # label ids; −1 is a label that the run does not know
    encoder: TextEncoder
    unknown: Mapping[str, int]  # labels that the run does not know, and their counts
    is_held_out: bool = True  # False: the training texts themselves

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def words(self) -> Bags:
        """The word ids of each text."""
        return self.encoder.encode(self.texts)

    def texts_at(self, rows: IntArray) -> list[str]:
        """Return some of the texts."""
        return [self.texts[row] for row in rows.tolist()]

    def take(self, limit: int | None) -> "TextSplit":
        """Return at most `limit` texts, evenly spread: a file may be sorted."""
        if limit is None or limit >= len(self):
            return self
        rows = evenly_spaced_rows(len(self), limit)
        return replace(self, texts=self.texts_at(rows), labels=self.labels.take(rows))

    def truths(self, num_labels: int) -> BoolArray:
        """Return (texts, labels): True for the labels of each text; unknown ones are left out."""
        found = np.zeros((len(self), num_labels), np.bool_)
        is_known = self.labels.rows >= 0
        found[self.labels.owners[is_known], self.labels.rows[is_known]] = True
        return found

    @property
    def has_one_label_each(self) -> bool:
        """True if every text has one label."""
        return bool((np.diff(self.labels.starts) == 1).all())

    def fingerprint(self) -> str:
        """Return a short hash of the texts and labels."""
        digest = blake2b(digest_size=16)
        for text in self.texts:
            digest.update(text.encode(errors="surrogatepass") + b"\n")
        digest.update(self.labels.starts.tobytes() + self.labels.rows.tobytes())
        return digest.hexdigest()


def make_text_encoder(recipe: ClassifyRecipe, vocabulary: LabelVocabulary) -> TextEncoder:
    """Return what encodes texts for a model: words, or for a BERT the pieces of its tokenizer."""
    if vocabulary.pieces:
        make_encoder = PROMPT_ENCODER if recipe.model_name == "prompt" else PIECE_ENCODER
        encoder: TextEncoder = make_encoder(recipe, vocabulary.pieces)
        return encoder
    return WordEncoder(vocabulary.words, recipe.data.split)


def encode_split(
    texts: Sequence[LabelledText],
    vocabulary: LabelVocabulary,
    encoder: TextEncoder,
    is_held_out: bool = True,
) -> TextSplit:
    """Return texts with the ids of their labels."""
    ids = vocabulary.label_ids
    labels = make_bags([[ids.get(label, -1) for label in text.labels] for text in texts])
    unknown = Counter(label for text in texts for label in text.labels if label not in ids)
    return TextSplit([text.text for text in texts], labels, encoder, unknown, is_held_out)


def label_weights(vocabulary: LabelVocabulary) -> FloatArray:
    """Return the weight of each label, so that all have the same total weight."""
    counts = np.maximum(np.array(vocabulary.met, np.float64), 1)
    return counts.sum() / (len(counts) * counts)


def known_rows(split: TextSplit) -> IntArray:
    """Return the texts all of whose labels the run knows."""
    unknown = np.bincount(split.labels.owners[split.labels.rows < 0], minlength=len(split))
    return np.flatnonzero((unknown == 0) & (np.diff(split.labels.starts) > 0))


def count_words(texts: Iterable[str], data: LabelsConfig) -> list[str]:
    """Return the words that are frequent enough, most frequent first."""
    splitter = SPLITTERS[data.split]
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(splitter(text.lower()))
    words = [word for word, count in counts.most_common() if count >= data.min_count]
    if len(words) < 2:
        raise DataError(
            f"got texts of {counts.total():,} words, {len(words)} of which occur {data.min_count} "
            "times or more; expected at least 2; try more texts, or --set data.min_count=1."
        )
    return words
