"""Classifying texts: what is read, learned, asked and judged. Nothing here loads torch."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.config import Config
from saccade.data.parallel.pairs import SPLIT_NAMES, assign_splits
from saccade.data.text.labelled import LabelledText, generate_dates_by_language, read_labelled_texts
from saccade.data.text.word_corpus import LINE_END, WordIndex, read_word_corpus
from saccade.errors import ConfigError, DataError
from saccade.estimators import fasttext_classifier
from saccade.estimators.fasttext_classifier import (
    Bags,
    FastTextClassifier,
    FastTextClassifierConfig,
    concat_bags,
    word_ngram_buckets,
)
from saccade.inspection.checks import CheckResult
from saccade.plots.attention import save_attention_maps
from saccade.plots.terminal import AttentionMap
from saccade.registry import lookup
from saccade.tasks.task import (
    Choice,
    Evaluation,
    FitConfig,
    FitContext,
    FittedTask,
    Progress,
    TaskSpec,
    fingerprint_arrays,
)

SYNTHETIC_LABELLED_TEXTS: dict[str, Callable[[], Iterator[LabelledText]]] = {
    "languages": generate_dates_by_language
}
ENCODE_TEXTS_CHUNK = 1 << 13  # texts that are numbered at once
MAX_CONFUSION_LABELS = 40  # labels that a confusion table is drawn for


class LabelsConfig(Config):
    """Where the texts come from, and how they are cut up."""

    synthetic: str | None = None  # languages: days as 46 languages write them
    path: str | None = None
    multi_label: bool = False  # labels with commas between them
    split: Literal["words", "whitespace"] = "words"  # plain text, or text that has been prepared
    min_count: int = Field(1, ge=1)  # a word that is rarer does not count
    dev_share: float = Field(0.05, ge=0, lt=1)
    test_share: float = Field(0.05, ge=0, lt=1)


class ClassifyRecipe(Config):
    """Texts in, labels out."""

    task: Literal["classify"] = "classify"
    data: LabelsConfig = LabelsConfig()
    model: FastTextClassifierConfig = FastTextClassifierConfig()
    train: FitConfig = FitConfig()


class LabelVocabulary(NamedTuple):
    """The words that have a row, the labels, and how often each was met."""

    words: list[str]
    labels: list[str]
    met: list[int]  # of the labels

    def to_json(self) -> dict[str, Any]:
        """For tokenizer.json."""
        return self._asdict()

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "LabelVocabulary":
        """As it was kept."""
        return cls(values["words"], values["labels"], values["met"])


class LabelPrediction(NamedTuple):
    """A label, how likely it is, and the others."""

    text: str
    score: float
    alternatives: tuple["LabelPrediction", ...] = ()


class EncodedTexts(NamedTuple):
    """Texts as words and labels as numbers; a label that is not known is −1."""

    words: Bags
    labels: Bags


@dataclass
class PreparedTexts:
    """What is learned from, and what is held out."""

    recipe: ClassifyRecipe
    vocabulary: LabelVocabulary
    texts: dict[str, EncodedTexts]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fingerprint(self) -> str:
        """A short hash of the training data."""
        train = self.texts["train"]
        return fingerprint_arrays(*train.words, *train.labels)


def prepare_labelled_texts(
    recipe: ClassifyRecipe,
    on_progress: Progress,
    vocabulary: LabelVocabulary | None = None,
    auto_model: bool = False,
    scratch_dir: Path | None = None,
) -> PreparedTexts:
    """Read, hold out, and number the words and labels of what is left."""
    on_progress("reading the texts", 0, 0)
    data = recipe.data
    reading = _Reading(_read(data), data.dev_share, data.test_share)
    if vocabulary is None:
        found = read_word_corpus(reading.blocks(), min_count=data.min_count, split=data.split)
        ids, names = found.ids, LabelVocabulary(found.words, *reading.labels_met())
    else:
        ids, names = WordIndex(vocabulary.words).ids(reading.blocks(), data.split), vocabulary
    if len(names.labels) < 2:
        raise DataError(
            f"all {reading.count:,} texts have the same label ({', '.join(names.labels)}); "
            "two or more were wanted."
        )
    kinds = f"{len(names.words):,} different words, {len(names.labels):,} labels"
    notes = [f"{reading.count:,} texts to learn from, {kinds}."]
    numbers = {label: number for number, label in enumerate(names.labels)}
    train = EncodedTexts(_bags(ids), reading.labels(numbers))
    texts, known = {"train": train}, WordIndex(names.words)
    for name, held in reading.held_out.items():
        if held:
            texts[name] = encode_texts(held, known, numbers, data.split)
        else:  # a few lines only, or nothing is to be held out
            texts[name] = train
            notes.append(f"Nothing is held out for {name}: it is the same as what is learned from.")
    return PreparedTexts(recipe, names, texts, notes=notes)


def _read(data: LabelsConfig) -> Iterable[LabelledText]:
    if (data.synthetic is None) == (data.path is None):
        raise ConfigError("texts are wanted: name a file with --data, or set data.synthetic.")
    if data.synthetic is not None:
        return lookup(SYNTHETIC_LABELLED_TEXTS, data.synthetic, "made set of texts")()
    return read_labelled_texts(data.path or "", data.multi_label)


class _Reading:
    """Texts on their way: those to learn from go on as bytes, what is held out is kept.

    Of the former only the labels stay here, numbered as they were met: there may be millions.
    """

    def __init__(self, texts: Iterable[LabelledText], dev: float, test: float):
        self.texts, self.shares = iter(texts), (dev, test)
        self.held_out: dict[str, list[LabelledText]] = {name: [] for name in SPLIT_NAMES[1:]}
        self.count = 0
        self._met: dict[str, int] = {}
        self._labels, self._starts = array("i"), array("q", [0])

    def blocks(self) -> Iterator[bytes]:
        """Some thousand texts at a time, a line each."""
        while some := list(islice(self.texts, ENCODE_TEXTS_CHUNK)):
            if any(self.shares):
                sides = assign_splits((one.text.encode() for one in some), *self.shares).tolist()
                for side, name in enumerate(SPLIT_NAMES[1:], 1):
                    self.held_out[name] += [
                        one for one, at in zip(some, sides, strict=True) if at == side
                    ]
                some = [one for one, at in zip(some, sides, strict=True) if at == 0]
            for one in some:
                for label in one.labels:
                    self._labels.append(self._met.setdefault(label, len(self._met)))
                self._starts.append(len(self._labels))
            self.count += len(some)
            yield join_lines(some)

    def labels_met(self) -> tuple[list[str], list[int]]:
        """Every label and how often it was met, the most frequent first."""
        counts = np.bincount(np.array(self._labels, np.int32), minlength=len(self._met)).tolist()
        met = dict(zip(self._met, counts, strict=True))
        order = sorted(met, key=lambda label: (-met[label], label))
        return order, [met[label] for label in order]

    def labels(self, numbers: dict[str, int]) -> Bags:
        """The labels of the texts to learn from, by these numbers."""
        change = np.array([numbers.get(label, -1) for label in self._met], np.int32)
        rows = np.array(self._labels, np.int32)
        return Bags(np.array(self._starts, np.int64), change[rows] if len(rows) else rows)


def join_lines(texts: Iterable[LabelledText]) -> bytes:
    """A line for each text."""
    return "".join([f"{one.text}\n" for one in texts]).encode()


def _bags(ids: NDArray[np.int32]) -> Bags:
    ends = np.flatnonzero(ids == LINE_END)
    starts = np.concatenate([np.zeros(1, np.int64), ends - np.arange(len(ends))])
    return Bags(starts, ids[ids != LINE_END])


def encode_texts(
    texts: Sequence[LabelledText], known: WordIndex, numbers: dict[str, int], split: str
) -> EncodedTexts:
    """Texts as numbers; words that are not known are left out."""
    blocks = (
        join_lines(texts[at : at + ENCODE_TEXTS_CHUNK])
        for at in range(0, len(texts), ENCODE_TEXTS_CHUNK)
    )
    rows = [[numbers.get(label, -1) for label in one.labels] for one in texts]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    labels = np.array([number for row in rows for number in row], np.int32)
    return EncodedTexts(_bags(known.ids(blocks, split)), Bags(starts, labels))


class TextClassificationTask(FittedTask):
    """Texts and their labels."""

    is_resumable = True

    def __init__(self, recipe: ClassifyRecipe, names: LabelVocabulary):
        super().__init__(recipe)
        self.names = names
        self.numbers = {label: number for number, label in enumerate(names.labels)}
        self.texts: dict[str, EncodedTexts] = {}
        self.used = np.empty(0, np.int64)  # buckets of n-grams that have a row
        self.model: FastTextClassifier | None = None

    @cached_property
    def known(self) -> WordIndex:
        """The words that have a row."""
        return WordIndex(self.names.words)

    def vocabulary_json(self) -> dict[str, Any]:
        """Words and labels."""
        return self.names.to_json()

    def attach_data(self, prepared: PreparedTexts) -> None:
        """Take the texts."""
        self.texts = prepared.texts

    def fit(self, context: FitContext) -> None:
        """Text by text, epoch after epoch."""
        model, train = self.recipe.model, self.texts["train"]
        context.on_progress("finding n-grams", 0, 0)
        if context.resume_state is not None:
            learner = self._loaded(context.resume_state)
        else:
            if model.word_ngrams > 1:
                _, found = word_ngram_buckets(
                    train.words.rows, train.words.starts, model.word_ngrams, model.buckets
                )
                self.used = np.unique(found)
            learner = self.model = self._begun()
        size = len(train.words.starts) - 1
        blocks = learner.blocks(size)
        on_progress = self._telling(context, size, context.start_block / blocks)
        labelled = fasttext_classifier.LabelledBags(*self._rows(train.words), *train.labels)

        def fit_blocks(first: int, stop: Callable[[], bool]) -> int:
            return learner.fit_blocks(
                labelled, threads=context.threads, on_progress=on_progress, stop=stop, start=first
            )

        context.run_blocks(blocks, fit_blocks, self.weights)

    def _telling(
        self, context: FitContext, size: int, share: float
    ) -> Callable[[int, float], None]:
        """What is said as texts are learned: the loss in passing since the last line."""
        epochs = self.recipe.model.epochs
        total, lost, since = size * epochs, 0.0, 0
        done = round(share * total)

        def on_progress(more: int, loss: float) -> None:
            nonlocal done, lost, since
            done, lost, since = min(done + more, total), lost + loss, since + more
            epoch = min(done // size + 1, epochs)
            context.on_progress(f"epoch {epoch} of {epochs}  loss {lost / since:.4f}", done, total)
            if since >= total / 20:
                context.report({"loss": lost / since})
                lost, since = 0.0, 0

        return on_progress

    def _begun(self) -> FastTextClassifier:
        rows = len(self.names.words) + 1 + len(self.used)
        met = np.array(self.names.met, np.int64)
        return FastTextClassifier(self.recipe.model, rows, met, self.recipe.train.seed)

    def _rows(self, words: Bags) -> Bags:
        """The rows of texts: their words', one that every text has, and their known n-grams'.

        fastText, too, has a row for the end of a line, which says what is likely of any text.
        """
        model, size = self.recipe.model, len(words.starts) - 1
        end = np.full(size, len(self.names.words), np.int32)
        ended = concat_bags(words, Bags(np.arange(size + 1), end))
        if model.word_ngrams == 1:
            return ended
        ends, found = word_ngram_buckets(words.rows, words.starts, model.word_ngrams, model.buckets)
        places = np.searchsorted(self.used, found)
        there = places < len(self.used)
        there[there] = self.used[places[there]] == found[there]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(there)])
        more = (len(self.names.words) + 1 + places[there]).astype(np.int32)
        return concat_bags(ended, Bags(before[ends], more))

    def weights(self) -> dict[str, Any]:
        """The rows of both sides, and which buckets have one."""
        assert self.model is not None
        return {"inputs": self.model.inputs, "outputs": self.model.outputs, "used": self.used}

    def load(self, weights: dict[str, Any]) -> None:
        """Take up rows."""
        self._loaded(weights)

    def _loaded(self, weights: dict[str, Any]) -> FastTextClassifier:
        self.used = weights["used"]
        self.model = self._begun()
        for name in ("inputs", "outputs"):
            have, wanted = weights[name].shape, getattr(self.model, name).shape
            if have != wanted:
                raise RuntimeError(f"{name} are {have}, where {wanted} were wanted")
            setattr(self.model, name, weights[name])
        return self.model

    # --- asking ---------------------------------------------------------------------------

    def example_input(self) -> str:
        """A text that was not learned from."""
        words = self.texts["test"].words
        row = words.rows[words.starts[0] : words.starts[1]][:12]
        return " ".join(self.names.words[number] for number in row)

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Callable[[int], None] = lambda more: None,
        n_best: int = 1,
    ) -> list[LabelPrediction]:
        """The likeliest label of each text, and how likely it is; with `n_best`, so many."""
        some = [LabelledText((), text.replace("\n", " ")) for text in texts]  # a line each
        words = encode_texts(some, self.known, self.numbers, self.recipe.data.split).words
        chances = self._chances(words)
        on_progress(len(texts))
        answers = []
        for row in chances:
            best = np.argsort(-row, kind="stable")[:n_best]
            found = [LabelPrediction(self.names.labels[label], float(row[label])) for label in best]
            answers.append(found[0]._replace(alternatives=tuple(found[1:])))
        return answers

    def _chances(self, words: Bags) -> NDArray[np.float32]:
        assert self.model is not None
        return self.model.predict_proba(self._rows(words))

    # --- scores ---------------------------------------------------------------------------

    def load_split(self, path: str | Path) -> str:
        """A file of texts with labels, as a split."""
        data = self.recipe.data
        read = list(read_labelled_texts(path, data.multi_label))
        self.texts["given"] = encode_texts(read, self.known, self.numbers, data.split)
        return "given"

    def evaluate_with_conventions(
        self,
        split: str,
        limit: int | None = None,
        on_progress: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Evaluation:
        """Precision and recall at 1 and more, and the mean of −log p of the right labels."""
        words, labels = self.texts[split]
        chances = self._chances(words)
        order = np.argsort(-chances, axis=1, kind="stable")
        owner = np.repeat(np.arange(len(chances)), np.diff(labels.starts))
        known = labels.rows >= 0
        is_own = np.zeros(chances.shape, bool)
        is_own[owner[known], labels.rows[known]] = True
        own = chances[owner[known], labels.rows[known]]
        figures: dict[str, float] = {
            "examples": float(len(chances)),
            "loss": float(-np.log(np.maximum(own, 1e-30)).mean()) if len(own) else float("nan"),
        }
        for k in (1, 5):
            if k < len(self.names.labels):
                right = np.take_along_axis(is_own, order[:, :k], 1).sum()
                figures[f"precision_at_{k}"] = float(right / (k * len(chances)))
                figures[f"recall_at_{k}"] = float(right / max(len(owner), 1))
        on_progress(len(chances))
        return figures, {
            "precision_at_1": "share of the k likeliest labels that are a text's own",
            "recall_at_1": "share of the texts' own labels that are among the k likeliest",
            "loss": "mean of -log p of the texts' own labels",
        }

    def confusion(self, split: str) -> NDArray[np.int64]:
        """How often a text of each label (rows) was said to be of each (columns)."""
        words, labels = self.texts[split]
        said = self._chances(words).argmax(1)
        owner = np.repeat(np.arange(len(said)), np.diff(labels.starts))
        known = labels.rows >= 0
        table = np.zeros((len(self.names.labels),) * 2, np.int64)
        np.add.at(table, (labels.rows[known], said[owner[known]]), 1)
        return table

    def save_plots(self, folder: Path) -> list[str]:
        """Which labels are taken for which."""
        table = self.confusion("test")[:MAX_CONFUSION_LABELS, :MAX_CONFUSION_LABELS]
        shares = table / np.maximum(table.sum(1, keepdims=True), 1)
        names = self.names.labels[:MAX_CONFUSION_LABELS]
        sides = ("said", "is")
        shown = AttentionMap(
            shares.astype(np.float32), names, names, "what is taken for what", *sides
        )
        return save_attention_maps([shown], folder / "confusion.png")

    def compare_reloaded(
        self, other: "TextClassificationTask", split: str, count: int
    ) -> CheckResult:
        """Saved and reopened."""
        words = self.texts[split].words
        starts = words.starts[: count + 1]
        some = Bags(starts, words.rows[: starts[-1]])
        apart = np.abs(self._chances(some) - other._chances(some)).max()
        return CheckResult("saved and reopened agree", len(starts) - 1, float(apart), 0.0)


CLASSIFY = TaskSpec(
    ClassifyRecipe,
    {"fasttext": FastTextClassifier},
    SYNTHETIC_LABELLED_TEXTS,
    {},
    prepare_labelled_texts,
    TextClassificationTask,
    LabelVocabulary.from_json,
    torch_free=True,
)
