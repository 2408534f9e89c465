"""Sentences as ids: read, divided by hash, tokenized."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from saccade.data.batching import Ragged, encode_ragged
from saccade.data.datasets import SENTENCE_DATASETS, DatasetInfo, fetch_dataset
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.source import DatasetSource, SyntheticSource, resolve_source
from saccade.data.split_keys import (
    describe_division,
    dev_without_test,
    divide_rows,
    read_split_cells,
    refuse_division,
)
from saccade.data.splits import SPLIT_NAMES, check_shares, hash_texts, split_by_hash
from saccade.data.tables.csv import pluralise
from saccade.data.text.sentences import (
    SENTENCE_READERS,
    SYNTHETIC_SENTENCES,
    SentenceRow,
    SentenceRows,
    open_sentences,
)
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.errors import DataError
from saccade.tasks.base import (
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.embedding.config import EmbeddingRecipe, SentencesConfig
from saccade.types.arrays import FloatArray, IntArray

MIN_COMPARED = 2  # sentences that the loss compares
MAX_UNKNOWN = 0.2  # share of unknown tokens above which sentences do not suit a vocabulary
UNKNOWN_SAMPLE = 1000  # sentences by which it is measured

PreparedSentences = PreparedData[EmbeddingRecipe, WordPieceTokenizer, "SentenceSplit"]


@dataclass(frozen=True, eq=False)
class SentenceSplit:
    """Sentences, and by role their ids; ratings where there are some.

    `ids` has "text", and "positive" and "negative" where the data has them.
    """

    name: str
    rows: Sequence[SentenceRow]
    ids: Mapping[str, Ragged]
    scores: FloatArray | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_supervised(self) -> bool:
        """True if a sentence has a positive of its own; else it is its own, with dropout."""
        return "positive" in self.ids and self.scores is None

    def texts(self, role: str = "text") -> list[str]:
        """Return the sentences of a role."""
        return [str(getattr(row, role)) for row in self.rows]

    def take(self, limit: int | None) -> "SentenceSplit":
        """Return at most `limit` rows, evenly spread: a file may be sorted."""
        if limit is None or limit >= len(self):
            return self
        return self.at(evenly_spaced_rows(len(self), limit))

    def at(self, rows: IntArray) -> "SentenceSplit":
        """Return the rows at the indices."""
        return replace(
            self,
            rows=[self.rows[row] for row in rows.tolist()],
            ids={role: ids.take(rows) for role, ids in self.ids.items()},
            scores=None if self.scores is None else self.scores[rows],
        )

    def fingerprint(self) -> str:
        """Return a short hash of the sentences."""
        parts = (array for ids in self.ids.values() for array in (ids.ids, ids.offsets))
        return fingerprint_arrays(*parts)


def prepare_sentences(
    recipe: EmbeddingRecipe, context: PrepareContext[WordPieceTokenizer]
) -> PreparedSentences:
    """Read the sentences, hold some out, fit the tokenizer unless one is given, encode."""
    context.on_progress("reading the sentences", 0, None)
    opened, parts, notes = _read_splits(recipe.data, context)
    recipe = recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | opened.columns)
    train = _training_rows(parts["train"])
    if len(train) < MIN_COMPARED:
        raise DataError(
            f"{recipe.data_name}: got {pluralise(len(train), 'training sentence')}; expected "
            f"{MIN_COMPARED} or more, which the loss compares; try more sentences."
        )
    tokenizer = context.preprocessor
    if tokenizer is None:
        context.on_progress("fitting the tokenizer", 0, None)
        settings = recipe.data.tokenizer
        texts = (text for row in train for text in row[:3] if text is not None)
        tokenizer = WordPieceTokenizer.fit(texts, settings.size, settings.lowercase)
    splits = {"train": encode_sentences(recipe.data_name, train, tokenizer)}
    check_covered(splits["train"], tokenizer)
    notes += _describe_rows(splits["train"], parts)
    for name in SPLIT_NAMES[1:]:
        if len(parts[name]) < MIN_COMPARED:
            notes.append(f"No sentences are held out for {name}: the training ones are used.")
            splits[name] = splits["train"]
        else:
            splits[name] = encode_sentences(recipe.data_name, parts[name], tokenizer)
    model = recipe.model.model_dump(exclude_unset=True) | {"vocab_size": tokenizer.vocab_size}
    recipe = recipe.with_values(model=model)
    choices = role_choices(opened.choices)
    return PreparedData(
        recipe, tokenizer, splits, splits["train"].fingerprint, choices=choices, notes=notes
    )


def encode_sentences(
    name: str, rows: Sequence[SentenceRow], tokenizer: WordPieceTokenizer
) -> SentenceSplit:
    """Return rows as ids."""
    roles = [role for role in ("text", "positive", "negative") if getattr(rows[0], role)]
    ids = {
        role: encode_ragged(tokenizer, (getattr(row, role) for row in rows), lambda count: None)
        for role in roles
    }
    scores = None
    if rows[0].score is not None:
        scores = np.array([row.score for row in rows], np.float64)
    return SentenceSplit(name, rows, ids, scores)


def check_covered(split: SentenceSplit, tokenizer: WordPieceTokenizer) -> None:
    """Raise a DataError if most of the sentences are in a script that the vocabulary lacks."""
    ids = split.take(UNKNOWN_SAMPLE).ids["text"].ids
    share = float((ids == tokenizer.id_of("[UNK]")).mean()) if len(ids) else 0.0
    if share > MAX_UNKNOWN:
        raise DataError(
            f"{split.name}: got sentences {share:.0%} of whose tokens are not in the vocabulary, "
            f"such as {split.rows[0].text[:40]!r}; expected sentences like those that it was made "
            "of; try a run of the same language and script, or train from scratch."
        )


def _training_rows(rows: Sequence[SentenceRow]) -> Sequence[SentenceRow]:
    """Return the rows to train on: of rated pairs, their different sentences alone."""
    if not rows or rows[0].score is None:
        return rows
    texts = (text for row in rows for text in row[:2] if text)
    return [SentenceRow(text) for text in dict.fromkeys(texts)]


def _describe_rows(train: SentenceSplit, parts: Mapping[str, Sequence[SentenceRow]]) -> list[str]:
    if parts["train"][0].score is not None:
        return [f"{len(train):,} different training sentences; the ratings serve evaluation alone."]
    kind = "pairs" if train.is_supervised else "sentences"
    negatives = ", each with a hard negative" if "negative" in train.ids else ""
    return [f"{len(train):,} training {kind}{negatives}."]


# --- sources --------------------------------------------------------------------------------------


def _read_splits(
    data: SentencesConfig, context: PrepareContext[WordPieceTokenizer]
) -> tuple[SentenceRows, dict[str, list[SentenceRow]], list[str]]:
    """Return the opened source, the rows of each split, and notes."""
    source = resolve_source(data, SYNTHETIC_SENTENCES, SENTENCE_DATASETS, what="set of sentences")
    check_shares(data.dev_share, data.test_share)
    if isinstance(source, DatasetSource):
        refuse_division(data, source.name)
        return _read_published(source.dataset, data, context)
    if isinstance(source, SyntheticSource):
        generate = source.generate
        opened = SentenceRows(source.name, lambda: iter(enumerate(generate(), 1)))
    else:
        opened = open_sentences(source.path, data)
    rows = list(opened)
    if not rows:
        raise DataError(f"{opened.name}: got no sentence; expected one in each line or row.")
    given = {
        name: list(open_sentences(path, data, is_other=True))
        for name in SPLIT_NAMES[1:]
        if (path := getattr(data, name)) is not None
    }
    parts, notes = _divide(opened, rows, given, data)
    return opened, parts, [*opened.notes, *notes]


def _divide(
    opened: SentenceRows,
    rows: Sequence[SentenceRow],
    given: dict[str, list[SentenceRow]],
    data: SentencesConfig,
) -> tuple[dict[str, list[SentenceRow]], list[str]]:
    """Return the rows of each split, divided by the settings or else by hash, and notes."""
    hashes = hash_texts(row.text.encode(errors="surrogatepass") for row in rows)
    held_out = {
        name: hash_texts(row.text.encode(errors="surrogatepass") for row in part)
        for name, part in given.items()
    }
    kept, notes = dev_without_test(held_out), []
    if kept.rows is not None:
        given["dev"] = [given["dev"][row] for row in kept.rows.tolist()]
        notes = kept.notes
    if given or describe_division(data):
        cells = read_split_cells(
            opened.records, data, opened.row_numbers() if opened.records else np.arange(len(rows))
        )
        division = divide_rows(data, hashes, cells, None, held_out)
        numbers, notes = division.splits, [*notes, *division.notes]
    else:
        numbers = split_by_hash(hashes, data.dev_share, data.test_share)
    found = {name: list(given.get(name, ())) for name in SPLIT_NAMES}
    for row, number in zip(rows, numbers.tolist(), strict=True):
        if number >= 0:  # not left out
            found[SPLIT_NAMES[number]].append(row)
    return found, notes


def _read_published(
    dataset: DatasetInfo, data: SentencesConfig, context: PrepareContext[WordPieceTokenizer]
) -> tuple[SentenceRows, dict[str, list[SentenceRow]], list[str]]:
    """Return a published set; without a dev part of its own, one is held out."""
    fetched = fetch_dataset(
        dataset, lambda done, total: context.on_progress("downloading", done, total)
    )
    read = SENTENCE_READERS[dataset.name]
    parts = {split: list(read(fetched.paths[file])) for split, file in dataset.splits.items()}
    if "dev" not in parts:
        hashes = hash_texts(row.text.encode() for row in parts["train"])
        numbers = split_by_hash(hashes, data.dev_share, 0.0).tolist()
        train = list(zip(parts["train"], numbers, strict=True))
        for name in ("dev", "train"):
            parts[name] = [row for row, number in train if SPLIT_NAMES[number] == name]
    return SentenceRows(dataset.name, lambda: iter(())), parts, list(fetched.notes)


def load_sentences(
    recipe: EmbeddingRecipe, tokenizer: WordPieceTokenizer, source: str | Path | object
) -> SentenceSplit:
    """Read sentences of a file, or the test part of a published set, by its name."""
    if isinstance(source, str) and source in SENTENCE_DATASETS and not Path(source).exists():
        dataset = SENTENCE_DATASETS[source]
        path = fetch_dataset(dataset).paths[dataset.splits["test"]]
        name, rows = source, list(SENTENCE_READERS[source](path))
    else:
        opened = open_sentences(source, recipe.data, is_other=True)
        name, rows = opened.name, list(opened)
    if not rows:
        raise DataError(f"{name}: got no sentence; expected one in each line or row.")
    split = encode_sentences(name, rows, tokenizer)
    check_covered(split, tokenizer)
    return split
