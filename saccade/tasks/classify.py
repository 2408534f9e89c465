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
from saccade.data.labelled import Labelled, days_and_languages, read_labelled
from saccade.data.pairs import SPLITS, sides_of
from saccade.data.sentences import END, Numbering, read_sentences
from saccade.errors import ConfigError, DataError
from saccade.fitted import classifier
from saccade.fitted.classifier import Bags, Classifier, ClassifierConfig, grams, joined
from saccade.look.draw import save_maps
from saccade.look.finding import Finding
from saccade.look.terminal import Map
from saccade.lookup import pick
from saccade.tasks.task import Choice, FitConfig, Fitted, Fitting, Kind, Progress, Scored, print_of

MADE: dict[str, Callable[[], Iterator[Labelled]]] = {"languages": days_and_languages}
AT_ONCE = 1 << 13  # texts that are numbered at once
DRAWN = 40  # labels that a confusion table is drawn for


class LabelsConfig(Config):
    """Where the texts come from, and how they are cut up."""

    made: str | None = None  # languages: days as 46 languages write them
    path: str | None = None
    several: bool = False  # labels with commas between them
    split: Literal["words", "spaces"] = "words"  # plain text, or text that has been prepared
    least: int = Field(1, ge=1)  # a word that is rarer does not count
    dev_share: float = Field(0.05, ge=0, lt=1)
    test_share: float = Field(0.05, ge=0, lt=1)


class ClassifyRecipe(Config):
    """Texts in, labels out."""

    task: Literal["classify"] = "classify"
    data: LabelsConfig = LabelsConfig()
    model: ClassifierConfig = ClassifierConfig()
    train: FitConfig = FitConfig()


class Names(NamedTuple):
    """The words that have a row, the labels, and how often each was met."""

    words: list[str]
    labels: list[str]
    met: list[int]  # of the labels

    def to_json(self) -> dict[str, Any]:
        """For tokenizer.json."""
        return self._asdict()

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Names":
        """As it was kept."""
        return cls(values["words"], values["labels"], values["met"])


class Answer(NamedTuple):
    """A label, how likely it is, and the others."""

    text: str
    score: float
    others: tuple["Answer", ...] = ()


class Texts(NamedTuple):
    """Texts as words and labels as numbers; a label that is not known is −1."""

    words: Bags
    labels: Bags


@dataclass
class PreparedTexts:
    """What is learned from, and what is held out."""

    recipe: ClassifyRecipe
    vocabulary: Names
    texts: dict[str, Texts]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the training data."""
        train = self.texts["train"]
        return print_of(*train.words, *train.labels)


def prepare(
    recipe: ClassifyRecipe,
    tell: Progress,
    vocabulary: Names | None = None,
    name_model: bool = False,
    place: Path | None = None,
) -> PreparedTexts:
    """Read, hold out, and number the words and labels of what is left."""
    tell("reading the texts", 0, 0)
    data = recipe.data
    reading = _Reading(_read(data), data.dev_share, data.test_share)
    if vocabulary is None:
        found = read_sentences(reading.blocks(), least=data.least, split=data.split)
        ids, names = found.ids, Names(found.words, *reading.labels_met())
    else:
        ids, names = Numbering(vocabulary.words).ids(reading.blocks(), data.split), vocabulary
    if len(names.labels) < 2:
        raise DataError(
            f"all {reading.count:,} texts have the same label ({', '.join(names.labels)}); "
            "two or more were wanted."
        )
    kinds = f"{len(names.words):,} different words, {len(names.labels):,} labels"
    notes = [f"{reading.count:,} texts to learn from, {kinds}."]
    numbers = {label: number for number, label in enumerate(names.labels)}
    train = Texts(_bags(ids), reading.labels(numbers))
    texts, known = {"train": train}, Numbering(names.words)
    for name, held in reading.held_out.items():
        if held:
            texts[name] = texts_of(held, known, numbers, data.split)
        else:  # a few lines only, or nothing is to be held out
            texts[name] = train
            notes.append(f"Nothing is held out for {name}: it is the same as what is learned from.")
    return PreparedTexts(recipe, names, texts, notes=notes)


def _read(data: LabelsConfig) -> Iterable[Labelled]:
    if (data.made is None) == (data.path is None):
        raise ConfigError("texts are wanted: name a file with --data, or set data.made.")
    if data.made is not None:
        return pick(MADE, data.made, "made set of texts")()
    return read_labelled(data.path or "", data.several)


class _Reading:
    """Texts on their way: those to learn from go on as bytes, what is held out is kept.

    Of the former only the labels stay here, numbered as they were met: there may be millions.
    """

    def __init__(self, texts: Iterable[Labelled], dev: float, test: float):
        self.texts, self.shares = iter(texts), (dev, test)
        self.held_out: dict[str, list[Labelled]] = {name: [] for name in SPLITS[1:]}
        self.count = 0
        self._met: dict[str, int] = {}
        self._labels, self._starts = array("i"), array("q", [0])

    def blocks(self) -> Iterator[bytes]:
        """Some thousand texts at a time, a line each."""
        while some := list(islice(self.texts, AT_ONCE)):
            if any(self.shares):
                sides = sides_of((one.text.encode() for one in some), *self.shares).tolist()
                for side, name in enumerate(SPLITS[1:], 1):
                    self.held_out[name] += [
                        one for one, at in zip(some, sides, strict=True) if at == side
                    ]
                some = [one for one, at in zip(some, sides, strict=True) if at == 0]
            for one in some:
                for label in one.labels:
                    self._labels.append(self._met.setdefault(label, len(self._met)))
                self._starts.append(len(self._labels))
            self.count += len(some)
            yield lines_of(some)

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


def lines_of(texts: Iterable[Labelled]) -> bytes:
    """A line for each text."""
    return "".join([f"{one.text}\n" for one in texts]).encode()


def _bags(ids: NDArray[np.int32]) -> Bags:
    ends = np.flatnonzero(ids == END)
    starts = np.concatenate([np.zeros(1, np.int64), ends - np.arange(len(ends))])
    return Bags(starts, ids[ids != END])


def texts_of(
    texts: Sequence[Labelled], known: Numbering, numbers: dict[str, int], split: str
) -> Texts:
    """Texts as numbers; words that are not known are left out."""
    blocks = (lines_of(texts[at : at + AT_ONCE]) for at in range(0, len(texts), AT_ONCE))
    rows = [[numbers.get(label, -1) for label in one.labels] for one in texts]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    labels = np.array([number for row in rows for number in row], np.int32)
    return Texts(_bags(known.ids(blocks, split)), Bags(starts, labels))


class Classify(Fitted):
    """Texts and their labels."""

    goes_on = True

    def __init__(self, recipe: ClassifyRecipe, names: Names):
        super().__init__(recipe)
        self.names = names
        self.numbers = {label: number for number, label in enumerate(names.labels)}
        self.texts: dict[str, Texts] = {}
        self.used = np.empty(0, np.int64)  # buckets of n-grams that have a row
        self.model: Classifier | None = None

    @cached_property
    def known(self) -> Numbering:
        """The words that have a row."""
        return Numbering(self.names.words)

    def vocabulary_json(self) -> dict[str, Any]:
        """Words and labels."""
        return self.names.to_json()

    def give(self, prepared: PreparedTexts) -> None:
        """Take the texts."""
        self.texts = prepared.texts

    def fit(self, around: Fitting) -> None:
        """Text by text, epoch after epoch."""
        model, train = self.recipe.model, self.texts["train"]
        around.tell("finding n-grams", 0, 0)
        if around.stood is not None:
            learner = self._loaded(around.stood)
        else:
            if model.ngrams > 1:
                _, found = grams(train.words.rows, train.words.starts, model.ngrams, model.buckets)
                self.used = np.unique(found)
            learner = self.model = self._begun()
        size = len(train.words.starts) - 1
        blocks = learner.blocks(size)
        tell = self._telling(around, size, around.first / blocks)
        labelled = classifier.Labelled(*self._rows(train.words), *train.labels)

        def learn(first: int, stop: Callable[[], bool]) -> int:
            return learner.learn(
                labelled, threads=around.threads, tell=tell, stop=stop, start=first
            )

        around.in_blocks(blocks, learn, self.weights)

    def _telling(self, around: Fitting, size: int, share: float) -> Callable[[int, float], None]:
        """What is said as texts are learned: the loss in passing since the last line."""
        epochs = self.recipe.model.epochs
        total, lost, since = size * epochs, 0.0, 0
        done = round(share * total)

        def tell(more: int, loss: float) -> None:
            nonlocal done, lost, since
            done, lost, since = min(done + more, total), lost + loss, since + more
            epoch = min(done // size + 1, epochs)
            around.tell(f"epoch {epoch} of {epochs}  loss {lost / since:.4f}", done, total)
            if since >= total / 20:
                around.report({"loss": lost / since})
                lost, since = 0.0, 0

        return tell

    def _begun(self) -> Classifier:
        rows = len(self.names.words) + 1 + len(self.used)
        met = np.array(self.names.met, np.int64)
        return Classifier(self.recipe.model, rows, met, self.recipe.train.seed)

    def _rows(self, words: Bags) -> Bags:
        """The rows of texts: their words', one that every text has, and their known n-grams'.

        fastText, too, has a row for the end of a line, which says what is likely of any text.
        """
        model, size = self.recipe.model, len(words.starts) - 1
        end = np.full(size, len(self.names.words), np.int32)
        ended = joined(words, Bags(np.arange(size + 1), end))
        if model.ngrams == 1:
            return ended
        ends, found = grams(words.rows, words.starts, model.ngrams, model.buckets)
        places = np.searchsorted(self.used, found)
        there = places < len(self.used)
        there[there] = self.used[places[there]] == found[there]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(there)])
        more = (len(self.names.words) + 1 + places[there]).astype(np.int32)
        return joined(ended, Bags(before[ends], more))

    def weights(self) -> dict[str, Any]:
        """The rows of both sides, and which buckets have one."""
        assert self.model is not None
        return {"inputs": self.model.inputs, "outputs": self.model.outputs, "used": self.used}

    def load(self, weights: dict[str, Any]) -> None:
        """Take up rows."""
        self._loaded(weights)

    def _loaded(self, weights: dict[str, Any]) -> Classifier:
        self.used = weights["used"]
        self.model = self._begun()
        for name in ("inputs", "outputs"):
            have, wanted = weights[name].shape, getattr(self.model, name).shape
            if have != wanted:
                raise RuntimeError(f"{name} are {have}, where {wanted} were wanted")
            setattr(self.model, name, weights[name])
        return self.model

    # --- asking ---------------------------------------------------------------------------

    def first_input(self) -> str:
        """A text that was not learned from."""
        words = self.texts["test"].words
        row = words.rows[words.starts[0] : words.starts[1]][:12]
        return " ".join(self.names.words[number] for number in row)

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        tell: Callable[[int], None] = lambda more: None,
        n_best: int = 1,
    ) -> list[Answer]:
        """The likeliest label of each text, and how likely it is; with `n_best`, so many."""
        some = [Labelled((), text.replace("\n", " ")) for text in texts]  # a line each
        words = texts_of(some, self.known, self.numbers, self.recipe.data.split).words
        chances = self._chances(words)
        tell(len(texts))
        answers = []
        for row in chances:
            best = np.argsort(-row, kind="stable")[:n_best]
            found = [Answer(self.names.labels[label], float(row[label])) for label in best]
            answers.append(found[0]._replace(others=tuple(found[1:])))
        return answers

    def _chances(self, words: Bags) -> NDArray[np.float32]:
        assert self.model is not None
        return self.model.probabilities(self._rows(words))

    # --- scores ---------------------------------------------------------------------------

    def add_file(self, path: str | Path) -> str:
        """A file of texts with labels, as a split."""
        data = self.recipe.data
        read = list(read_labelled(path, data.several))
        self.texts["given"] = texts_of(read, self.known, self.numbers, data.split)
        return "given"

    def scored(
        self,
        split: str,
        most: int | None = None,
        tell: Callable[[int], None] = lambda more: None,
        *,
        beam: int = 1,
    ) -> Scored:
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
        tell(len(chances))
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

    def pictures(self, folder: Path) -> list[str]:
        """Which labels are taken for which."""
        table = self.confusion("test")[:DRAWN, :DRAWN]
        shares = table / np.maximum(table.sum(1, keepdims=True), 1)
        names = self.names.labels[:DRAWN]
        sides = ("said", "is")
        shown = Map(shares.astype(np.float32), names, names, "what is taken for what", *sides)
        return save_maps([shown], folder / "confusion.png")

    def again(self, other: "Classify", split: str, count: int) -> Finding:
        """Saved and reopened."""
        words = self.texts[split].words
        starts = words.starts[: count + 1]
        some = Bags(starts, words.rows[: starts[-1]])
        apart = np.abs(self._chances(some) - other._chances(some)).max()
        return Finding("saved and reopened agree", len(starts) - 1, float(apart), 0.0)


CLASSIFY = Kind(
    ClassifyRecipe,
    {"fasttext": Classifier},
    MADE,
    {},
    prepare,
    Classify,
    Names.from_json,
    light=True,
)
