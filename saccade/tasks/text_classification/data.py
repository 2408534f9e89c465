"""Labelled texts, split by hash and encoded as word and label ids."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.source import SyntheticSource, resolve_source
from saccade.data.split_keys import Division, describe_division, divide_rows, read_split_cells
from saccade.data.splits import SPLIT_NAMES, TRAIN, check_shares, hash_texts, split_by_hash
from saccade.data.text.labelled import (
    LabelledText,
    LabelledTexts,
    check_known_labels,
    generate_dates_by_language,
    open_labelled_texts,
)
from saccade.data.text.word_corpus import LINE_END, WordIndex, read_word_corpus
from saccade.errors import DataError
from saccade.tasks.base import (
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.text_classification.config import ClassifyRecipe, LabelsConfig
from saccade.types.bags import Bags

SYNTHETIC_LABELLED_TEXTS: dict[str, Callable[[], Iterator[LabelledText]]] = {
    "languages": generate_dates_by_language
}
ENCODE_TEXTS_CHUNK = 1 << 13  # texts encoded at a time


class LabelVocabulary(NamedTuple):
    """Known words, labels, and the number of training texts of each label."""

    words: list[str]
    labels: list[str]
    met: list[int]  # counts of the labels

    @property
    def label_ids(self) -> dict[str, int]:
        """Label to id."""
        return {label: number for number, label in enumerate(self.labels)}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self._asdict()

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "LabelVocabulary":
        """Rebuild a vocabulary from plain values."""
        return cls(values["words"], values["labels"], values["met"])


class EncodedTexts(NamedTuple):
    """Texts as word ids and labels as label ids; an unknown label is −1."""

    words: Bags
    labels: Bags


PreparedTexts = PreparedData[ClassifyRecipe, LabelVocabulary, EncodedTexts]


def prepare_labelled_texts(
    recipe: ClassifyRecipe, context: PrepareContext[LabelVocabulary]
) -> PreparedTexts:
    """Read the texts, hold some out, and build the vocabulary from the others."""
    context.on_progress("reading the texts", 0, None)
    texts = _read(recipe.data)
    recipe = recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | texts.columns)
    data = recipe.data
    check_shares(data.dev_share, data.test_share)
    given = _given_texts(data)
    division = _divide(texts, data, given)
    reader = _SplittingReader(texts, (data.dev_share, data.test_share), division, given)
    if context.preprocessor is None:
        corpus = read_word_corpus(reader.blocks(), min_count=data.min_count, split=data.split)
        ids, vocabulary = corpus.ids, LabelVocabulary(corpus.words, *reader.label_counts())
    else:
        vocabulary = context.preprocessor
        ids = WordIndex(vocabulary.words).ids(reader.blocks(), data.split)
    if len(vocabulary.labels) < 2:
        raise DataError(
            f"got the same label ({', '.join(vocabulary.labels)}) for all {reader.count:,} texts; "
            "expected two labels or more."
        )
    sizes = f"{len(vocabulary.words):,} different words, {len(vocabulary.labels):,} labels"
    notes = [*texts.notes, *(division.notes if division else ())]
    notes.append(f"{reader.count:,} training texts, {sizes}.")
    label_ids = vocabulary.label_ids
    train = EncodedTexts(_bags(ids), reader.labels(label_ids))
    splits, index = {"train": train}, WordIndex(vocabulary.words)
    for name, held_out in reader.held_out.items():
        if held_out:
            splits[name] = encode_texts(held_out, index, label_ids, data.split)
        else:  # few texts, or a share of 0
            splits[name] = train
            notes.append(f"No texts are held out for {name}: the training texts are used.")
    arrays = (*train.words, *train.labels)
    return PreparedData(
        recipe,
        vocabulary,
        splits,
        lambda: fingerprint_arrays(*arrays),
        role_choices(texts.choices),
        notes,
    )


def _read(data: LabelsConfig) -> LabelledTexts:
    source = resolve_source(data, SYNTHETIC_LABELLED_TEXTS, what="set of labelled texts")
    if isinstance(source, SyntheticSource):
        return LabelledTexts(source.generate)
    return open_labelled_texts(source.name, data, data.multi_label)


def _given_texts(data: LabelsConfig) -> dict[str, list[LabelledText]]:
    """Read the held-out files that are given."""
    return {
        name: list(open_labelled_texts(path, data, data.multi_label, is_other=True))
        for name in SPLIT_NAMES[1:]
        if (path := getattr(data, name)) is not None
    }


def _divide(
    texts: LabelledTexts, data: LabelsConfig, given: Mapping[str, Sequence[LabelledText]]
) -> Division | None:
    """Divide the texts by the settings; None: each by its hash, while it is read."""
    if not given and not describe_division(data):
        return None
    classes = [",".join(text.labels) for text in texts]
    return divide_rows(
        data,
        hash_texts(text.text.encode() for text in texts),
        read_split_cells(texts.records, data, texts.row_numbers()),
        classes,
        {name: hash_texts(t.text.encode() for t in part) for name, part in given.items()},
    )


class _SplittingReader:
    """Streams the training texts as bytes and keeps the held-out ones.

    Of the training texts only the labels are kept, numbered in order of occurrence: there may be
    millions.
    """

    def __init__(
        self,
        texts: Iterable[LabelledText],
        shares: tuple[float, float],
        division: Division | None,
        given: Mapping[str, Sequence[LabelledText]],
    ):
        self.texts, self.shares, self.division = iter(texts), shares, division
        self.held_out = {name: list(given.get(name, ())) for name in SPLIT_NAMES[1:]}
        self.count = 0
        self._read = 0  # texts, of all splits
        self._ids: dict[str, int] = {}
        self._labels, self._starts = array("i"), array("q", [0])

    def blocks(self) -> Iterator[bytes]:
        """Yield some thousand training texts at a time, one per line."""
        while texts := list(islice(self.texts, ENCODE_TEXTS_CHUNK)):
            splits = self._splits(texts)
            for split, name in enumerate(SPLIT_NAMES[1:], 1):
                self.held_out[name] += [t for t, s in zip(texts, splits, strict=True) if s == split]
            texts = [t for t, s in zip(texts, splits, strict=True) if s == TRAIN]
            for text in texts:
                for label in text.labels:
                    self._labels.append(self._ids.setdefault(label, len(self._ids)))
                self._starts.append(len(self._labels))
            self.count += len(texts)
            yield join_lines(texts)

    def _splits(self, texts: Sequence[LabelledText]) -> list[int]:
        """Return the splits of the next texts."""
        if self.division is None:
            hashes = hash_texts(text.text.encode() for text in texts)
            return split_by_hash(hashes, *self.shares).tolist()
        self._read += len(texts)
        return self.division.splits[self._read - len(texts) : self._read].tolist()

    def label_counts(self) -> tuple[list[str], list[int]]:
        """Return the labels, most frequent first, and their counts."""
        counts = np.bincount(np.array(self._labels, np.int32), minlength=len(self._ids)).tolist()
        by_label = dict(zip(self._ids, counts, strict=True))
        order = sorted(by_label, key=lambda label: (-by_label[label], label))
        return order, [by_label[label] for label in order]

    def labels(self, label_ids: dict[str, int]) -> Bags:
        """Return the labels of the training texts by these ids."""
        change = np.array([label_ids.get(label, -1) for label in self._ids], np.int32)
        rows = np.array(self._labels, np.int32)
        return Bags(np.array(self._starts, np.int64), change[rows] if len(rows) else rows)


def join_lines(texts: Iterable[LabelledText]) -> bytes:
    """Return the texts as UTF-8, one per line."""
    return "".join([f"{text.text}\n" for text in texts]).encode()


def _bags(ids: NDArray[np.int32]) -> Bags:
    ends = np.flatnonzero(ids == LINE_END)
    starts = np.concatenate([np.zeros(1, np.int64), ends - np.arange(len(ends))])
    return Bags(starts, ids[ids != LINE_END])


def encode_texts(
    texts: Sequence[LabelledText], index: WordIndex, label_ids: dict[str, int], split: str
) -> EncodedTexts:
    """Encode texts; unknown words are dropped."""
    blocks = (
        join_lines(texts[start : start + ENCODE_TEXTS_CHUNK])
        for start in range(0, len(texts), ENCODE_TEXTS_CHUNK)
    )
    rows = [[label_ids.get(label, -1) for label in text.labels] for text in texts]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    labels = np.array([number for row in rows for number in row], np.int32)
    return EncodedTexts(_bags(index.ids(blocks, split)), Bags(starts, labels))


def load_texts(
    recipe: ClassifyRecipe, vocabulary: LabelVocabulary, source: str | Path | object
) -> EncodedTexts:
    """Read and encode labelled texts; `DataError` if the classifier knows none of their labels."""
    data = recipe.data
    texts = list(open_labelled_texts(source, data, data.multi_label, is_other=True))
    check_known_labels(texts, vocabulary.labels, str(source))
    return encode_texts(texts, WordIndex(vocabulary.words), vocabulary.label_ids, data.split)
