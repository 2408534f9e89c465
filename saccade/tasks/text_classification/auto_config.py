"""Choice of the settings that were left open, from the texts and by their score on the dev split.

A setting that was given is kept. For `ngrams` the lengths of the n-grams and the penalty, and for
`fasttext` n-grams and epochs, are those with the smallest loss on the dev split, after temperature
scaling: the loss varies less than the accuracy, and scaling removes the effect of the penalty on
the confidence. With few dev texts the training texts are divided into folds instead. Networks are
trained with early stopping on the dev split.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saccade.config import flatten, override_settings
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.word_splitting import SPLITTERS, is_unspaced
from saccade.estimators.temperature import (
    fit_binary_temperature,
    fit_temperature,
    negative_log_likelihood,
    stable_sigmoid,
)
from saccade.estimators.text_classifiers.config import NGramClassifierConfig
from saccade.estimators.text_classifiers.logistic import LinearWeights, TrainingRows
from saccade.estimators.text_classifiers.ngrams import (
    choose_loss,
    fit_features,
    fit_weights,
    training_rows,
)
from saccade.estimators.text_classifiers.sparse import SparseRows
from saccade.registry import import_when_called
from saccade.tasks.base import Choice, PrepareContext
from saccade.tasks.length import evaluation_choice, warmup_choice
from saccade.tasks.text_classification.config import PIECE_MODELS, ClassifyRecipe
from saccade.tasks.text_classification.texts import (
    LabelVocabulary,
    TextSplit,
    WordEncoder,
    count_words,
    known_rows,
    label_weights,
)
from saccade.training.cpu import available_cpus
from saccade.types.arrays import BoolArray, FloatArray, IntArray
from saccade.types.bags import Bags

FINE_TUNING_CHOICES = import_when_called(
    "saccade.tasks.text_classification.fine_tuning:fine_tuning_choices"
)
TRUNCATION_NOTES = import_when_called(
    "saccade.tasks.text_classification.fine_tuning:truncation_notes"
)
STATS_SAMPLE_TEXTS = 2000
MIN_DEV_TEXTS = 1000  # with fewer, the training texts are divided into folds
FOLDS = 3
MIN_COSTLY_DEV = 100  # dev texts that suffice where fits take long
MIN_FOLD_TEXTS = 20  # of all texts, below which nothing is chosen by score
MAX_SEARCH_TEXTS, MAX_SEARCH_CHARS = 30_000, 8_000_000
MAX_SEARCH_COST, MAX_FOLDS_COST = 150_000_000, 60_000_000  # characters times labels
SEARCH_TOLERANCE = 1e-3  # of fits that are compared
MAX_CHAR_SEARCH_CHARS = 6_000_000  # of texts whose n-grams of characters are tried
MAX_CHAR_SEARCH_COST = 100_000_000  # characters times labels
MAX_CHAR_TEXTS_CHARS = 12_000_000  # of all training texts, above which words have to do
CHAR_NGRAMS = 4
PENALTIES = tuple(4.0**-power for power in range(6))  # 1 … 1/1024
START_PENALTIES = {"softmax": 2, "one_vs_all": 4}  # index in PENALTIES
MIN_GAIN, MIN_LOSS_GAIN = 0.01, 1e-4  # share of the loss, and loss, that count as better
MAX_TRUNCATED = 0.02  # share of truncated texts above which there is a note


@dataclass(frozen=True)
class TextStats:
    """Statistics of a sample of the training texts."""

    texts: int
    words: float  # of a text, on average
    long_words: float  # 98 % of the texts are not longer
    chars: float
    is_unspaced: bool  # most letters are of scripts without spaces between words


def text_stats(split: TextSplit, rule: str) -> TextStats:
    """Return the statistics of up to 2,000 texts, evenly spread over the file."""
    rows = evenly_spaced_rows(len(split), STATS_SAMPLE_TEXTS)
    texts = split.texts_at(rows)
    words = [SPLITTERS[rule](text) for text in texts]
    lengths = [len(row) for row in words]
    return TextStats(
        len(split),
        float(np.mean(lengths)),
        float(np.quantile(lengths, 0.98)),
        float(np.mean([len(text) for text in texts])),
        rule == "words" and is_unspaced("".join(texts)),
    )


class Chooser:
    """Collects the choices of settings that were not given."""

    def __init__(self, recipe: ClassifyRecipe):
        self.given, self.known = flatten(recipe, exclude_unset=True), flatten(recipe)
        self.choices: list[Choice] = []

    def is_open(self, path: str) -> bool:
        """Return True if the user has not set a setting."""
        return path not in self.given

    def choose(self, path: str, value: Any, reason: str) -> Any:
        """Record a choice; return the value, or that of the user."""
        if not self.is_open(path):
            return self.given[path]
        self.choices.append(Choice(path, value, reason))
        return value

    def apply(self, recipe: ClassifyRecipe) -> ClassifyRecipe:
        """Return the recipe with the choices."""
        return override_settings(recipe, {choice.path: choice.value for choice in self.choices})


def choose_classifier_settings(
    recipe: ClassifyRecipe,
    vocabulary: LabelVocabulary,
    splits: dict[str, TextSplit],
    context: PrepareContext[Any],
) -> tuple[ClassifyRecipe, list[Choice], list[str]]:
    """Choose the open settings; return the recipe, the choices, and notes for the user."""
    stats = text_stats(splits["train"], recipe.data.split)
    chooser, notes = Chooser(recipe), []
    if context.auto_model:
        reason = "strong on texts of any kind, fitted in seconds; others with --model"
        chooser.choices.append(Choice("model.name", recipe.model_name, reason))
    if stats.is_unspaced:
        reason = "the text has no spaces between words: each character counts as a word"
        chooser.choose("data.split", "words", reason)
    if recipe.data.multi_label and not recipe.is_network:
        chooser.choose("model.loss", "one_vs_all", "several labels of a text")
    recipe = chooser.apply(recipe)
    if recipe.model_name in PIECE_MODELS:
        train = splits["train"]
        for choice in FINE_TUNING_CHOICES(recipe, train, context.preprocessor is not None):
            chooser.choose(*_fields(choice))
        notes = TRUNCATION_NOTES(train)
    elif recipe.is_network:
        notes = _choose_training(recipe, stats, chooser)
    else:
        search = _Search(recipe, vocabulary, splits, context)
        choose = _choose_ngrams if recipe.model_name == "ngrams" else _choose_fasttext
        choose(search, stats, chooser)
    return chooser.apply(recipe), chooser.choices, notes


# --- scores on held-out texts ---------------------------------------------------------------------


class HeldOutScore(NamedTuple):
    """Loss after temperature scaling, and accuracy, on held-out texts."""

    loss: float
    accuracy: float

    def __str__(self) -> str:
        return f"{self.loss:.3f}"

    def is_better(self, other: "HeldOutScore") -> bool:
        """Return True if the loss is smaller by a margin."""
        return self.loss < (1 - MIN_GAIN) * other.loss - MIN_LOSS_GAIN


def held_out_score(logits: FloatArray, truths: BoolArray, multi_label: bool) -> HeldOutScore:
    """Return the score of the logits of texts; a text counts as correct if its best label is true.

    Texts without a known label are left out.
    """
    rows = np.flatnonzero(truths.any(1))
    if not len(rows):
        return HeldOutScore(float("inf"), 0.0)
    logits, truths = logits[rows], truths[rows]
    correct = truths[np.arange(len(rows)), logits.argmax(1)]
    if multi_label:
        scaled = logits / fit_binary_temperature(logits, truths)
        probabilities = np.clip(stable_sigmoid(scaled), 1e-12, 1 - 1e-12)
        likelihoods = np.where(truths, np.log(probabilities), np.log1p(-probabilities))
        return HeldOutScore(float(-likelihoods.sum(1).mean()), float(correct.mean()))
    targets = truths.argmax(1)
    scaled = logits / fit_temperature(logits, targets)
    return HeldOutScore(negative_log_likelihood(scaled, targets), float(correct.mean()))


def mean_score(scores: Sequence[HeldOutScore]) -> HeldOutScore:
    """Return the mean over folds."""
    return HeldOutScore(*(float(np.mean(values)) for values in zip(*scores, strict=True)))


class Fold(NamedTuple):
    """Texts to fit and texts to score."""

    texts: list[str]
    labels: Bags
    held_out: list[str]
    truths: BoolArray


class _Search:
    """Held-out scores of candidates on the dev split, or on folds of the training texts."""

    def __init__(
        self,
        recipe: ClassifyRecipe,
        vocabulary: LabelVocabulary,
        splits: dict[str, TextSplit],
        context: PrepareContext[Any],
    ):
        self.recipe, self.vocabulary, self.context = recipe, vocabulary, context
        self.train, self.dev = splits["train"], splits["dev"]
        self.num_labels = len(vocabulary.labels)
        self.threads = recipe.train.threads or available_cpus()
        chars = sum(map(len, self.train.texts_at(evenly_spaced_rows(len(self.train), 1000))))
        self.mean_chars = max(1.0, chars / min(len(self.train), 1000))
        cost = self.mean_chars * len(self.train) * self.num_labels
        is_small = len(self.dev) < (MIN_DEV_TEXTS if cost <= MAX_FOLDS_COST else MIN_COSTLY_DEV)
        self.uses_folds = not self.dev.is_held_out or is_small
        self.is_possible = len(self.train) >= MIN_FOLD_TEXTS
        self.where = f"{FOLDS} folds of the training texts" if self.uses_folds else "dev"

    def folds(self, max_texts: int, max_chars: int) -> list[Fold]:
        """Return the folds, of at most so many texts and characters."""
        rows = known_rows(self.train)
        max_chars = min(max_chars, MAX_SEARCH_COST // self.num_labels)
        limit = min(max_texts, int(max_chars / self.mean_chars) + 1, len(rows))
        rows = rows[evenly_spaced_rows(len(rows), limit)]
        if not self.uses_folds:
            return [self._fold(rows, self.dev, np.arange(len(self.dev)))]
        numbers = np.random.default_rng(0).permutation(len(rows)) % FOLDS
        return [
            self._fold(rows[numbers != fold], self.train, rows[numbers == fold])
            for fold in range(FOLDS)
        ]

    def _fold(self, rows: IntArray, held_out: TextSplit, held_rows: IntArray) -> Fold:
        truths = held_out.truths(self.num_labels)[held_rows]
        return Fold(
            self.train.texts_at(rows),
            self.train.labels.take(rows),
            held_out.texts_at(held_rows),
            truths,
        )

    def report(self, what: str) -> None:
        """Show progress."""
        self.context.on_progress(f"choosing settings on {self.where}: {what}", 0, None)

    def score(self, logits: FloatArray, fold: Fold) -> HeldOutScore:
        """Return the score of the held-out texts of a fold."""
        return held_out_score(logits, fold.truths, self.recipe.data.multi_label)


# --- n-grams --------------------------------------------------------------------------------------


class _FittedFold(NamedTuple):
    """Features of a fold, ready to be fitted with several penalties."""

    fold: Fold
    data: TrainingRows
    held_out: SparseRows


class _NGramPath:
    """Held-out scores of one choice of n-grams by penalty; each fit starts from the last one."""

    def __init__(self, search: _Search, config: NGramClassifierConfig, folds: list[Fold]):
        self.search, self.config = search, config
        self.scores: dict[float, HeldOutScore] = {}
        self.fitted = []
        weights = label_weights(search.vocabulary) if search.recipe.is_balanced else None
        for fold in folds:
            features, rows = fit_features(
                config, search.recipe.data.split, fold.texts, fold.labels, search.num_labels
            )
            data = training_rows(rows, fold.labels, search.num_labels, weights)
            self.fitted.append(_FittedFold(fold, data, features.rows(fold.held_out)))
        self.starts: list[LinearWeights | None] = [None] * len(folds)

    def score(self, penalty: float) -> HeldOutScore:
        """Return the score with a penalty."""
        if penalty not in self.scores:
            found = []
            for number, (fold, data, held_out) in enumerate(self.fitted):
                loss = choose_loss(self.config, data.rows.num_columns, self.search.num_labels)
                start, threads = self.starts[number], self.search.threads
                linear = fit_weights(
                    data, loss, penalty, start, tolerance=SEARCH_TOLERANCE, threads=threads
                )
                self.starts[number] = linear
                found.append(self.search.score(linear.logits(held_out).astype(np.float64), fold))
            self.scores[penalty] = mean_score(found)
        return self.scores[penalty]

    def best(self) -> tuple[float, HeldOutScore]:
        """Return a penalty that its neighbours do not improve, found by walking from the usual."""
        data = self.fitted[0].data
        loss = choose_loss(self.config, data.rows.num_columns, self.search.num_labels)
        at = first = START_PENALTIES[loss]
        for step in (1, -1):
            while 0 <= at + step < len(PENALTIES):
                if not self.score(PENALTIES[at + step]).is_better(self.score(PENALTIES[at])):
                    break
                at += step
            if at != first:
                break
        return PENALTIES[at], self.score(PENALTIES[at])


def _choose_ngrams(search: _Search, stats: TextStats, chooser: Chooser) -> None:
    """Choose the lengths of n-grams and the penalty."""
    config = search.recipe.model
    assert isinstance(config, NGramClassifierConfig)
    is_open = [chooser.is_open(f"model.{name}") for name in ("word_ngrams", "char_ngrams")]
    if not (any(is_open) or chooser.is_open("model.penalty")):
        return
    longest = 3 if stats.is_unspaced else 2
    if not search.is_possible:
        reason = f"{stats.texts} texts are too few to choose by score"
        chooser.choose("model.word_ngrams", longest, reason)
        return
    folds = search.folds(MAX_SEARCH_TEXTS, MAX_SEARCH_CHARS)
    sizes = range(longest - 1, longest + 1) if is_open[0] else [config.word_ngrams]
    paths = {}
    for size in sizes:
        search.report(f"n-grams of up to {size} words")
        candidate = config.with_values(word_ngrams=size)
        if is_open[1]:
            candidate = candidate.with_values(char_ngrams=0)
        paths[size] = _NGramPath(search, candidate, folds)
    found = {size: path.best() for size, path in paths.items()}
    words = _smallest({size: score for size, (_, score) in found.items()})
    penalty, score = found[words]
    listed = ", ".join(f"{size}: {score}" for size, (_, score) in found.items())
    chooser.choose("model.word_ngrams", words, f"smallest loss on {search.where} ({listed})")
    if is_open[1]:
        _choose_chars(search, stats, config.with_values(word_ngrams=words), penalty, chooser)
    tried = paths[words].scores
    listed = ", ".join(f"{p:g}: {tried[p]}" for p in sorted(tried, reverse=True))
    reason = f"smallest loss on {search.where} ({listed}; accuracy {score.accuracy:.1%})"
    chooser.choose("model.penalty", penalty, reason)


def _smallest(scores: dict[int, HeldOutScore]) -> int:
    """Return the shortest n-grams unless longer ones are better by more than `MIN_GAIN`."""
    best = min(scores)
    for size in sorted(scores):
        if scores[size].is_better(scores[best]):
            best = size
    return best


def _choose_chars(
    search: _Search,
    stats: TextStats,
    config: NGramClassifierConfig,
    penalty: float,
    chooser: Chooser,
) -> None:
    """Choose whether n-grams of characters are added, on a part of the texts."""
    if stats.is_unspaced:
        chooser.choose("model.char_ngrams", 0, "each character is a word already")
        return
    if stats.chars * stats.texts > MAX_CHAR_TEXTS_CHARS:
        reason = f"words are enough for {stats.chars * stats.texts / 1e6:,.0f} million characters"
        chooser.choose("model.char_ngrams", 0, reason)
        return
    search.report("n-grams of characters")
    limit = min(MAX_CHAR_SEARCH_CHARS, MAX_CHAR_SEARCH_COST // search.num_labels)
    folds = search.folds(MAX_SEARCH_TEXTS, limit)
    scores = {
        size: _NGramPath(search, config.with_values(char_ngrams=size), folds).score(penalty)
        for size in (0, CHAR_NGRAMS)
    }
    listed = f"without {scores[0]}, with up to {CHAR_NGRAMS} {scores[CHAR_NGRAMS]}"
    if len(folds[0].texts) < len(search.folds(MAX_SEARCH_TEXTS, MAX_SEARCH_CHARS)[0].texts):
        listed += f", fitted to {len(folds[0].texts):,} texts"
    reason = f"smallest loss on {search.where} ({listed})"
    chooser.choose("model.char_ngrams", _smallest(scores), reason)


# --- fastText -------------------------------------------------------------------------------------

FIT_FASTTEXT = import_when_called("saccade.tasks.text_classification.fasttext:fit_candidate")
FASTTEXT_EPOCHS = (5, 25)
FASTTEXT_RATE = 0.5
MAX_FASTTEXT_TEXTS = 20_000


def _choose_fasttext(search: _Search, stats: TextStats, chooser: Chooser) -> None:
    """Choose n-grams, epochs and learning rate of fastText."""
    paths = ("model.word_ngrams", "model.epochs", "model.learning_rate")
    if not any(map(chooser.is_open, paths)) or not search.is_possible:
        return
    rate = chooser.choose("model.learning_rate", FASTTEXT_RATE, "usual for a few epochs")
    sizes = [1, 3 if stats.is_unspaced else 2]
    if not chooser.is_open("model.word_ngrams"):
        sizes = [chooser.given["model.word_ngrams"]]
    epochs = [*FASTTEXT_EPOCHS]
    if not chooser.is_open("model.epochs"):
        epochs = [chooser.given["model.epochs"]]
    folds = search.folds(MAX_FASTTEXT_TEXTS, MAX_SEARCH_CHARS)
    scores = {}
    for size in sizes:
        for count in epochs:
            search.report(f"n-grams of up to {size} words, {count} epochs")
            values = {"word_ngrams": size, "epochs": count, "learning_rate": rate}
            candidate = override_settings(
                search.recipe, {f"model.{name}": value for name, value in values.items()}
            )
            scores[size, count] = mean_score(
                [_fasttext_score(search, candidate, fold) for fold in folds]
            )
    size, count = min(scores, key=lambda key: (scores[key].loss, key))
    by_size = ", ".join(f"{n}: {min(s for (m, _), s in scores.items() if m == n)}" for n in sizes)
    by_count = ", ".join(f"{e}: {scores[size, e]}" for e in epochs)
    chooser.choose("model.word_ngrams", size, f"smallest loss on {search.where} ({by_size})")
    chooser.choose("model.epochs", count, f"smallest loss on {search.where} ({by_count})")


def _fasttext_score(search: _Search, recipe: ClassifyRecipe, fold: Fold) -> HeldOutScore:
    counts = np.bincount(fold.labels.rows, minlength=search.num_labels)
    words = count_words(fold.texts, recipe.data)
    vocabulary = LabelVocabulary(words, search.vocabulary.labels, counts.tolist())
    encoder = WordEncoder(words, recipe.data.split)
    train = TextSplit(fold.texts, fold.labels, encoder, {}, is_held_out=False)
    scorer = FIT_FASTTEXT(recipe, vocabulary, train, search.threads)
    return search.score(scorer.logits(fold.held_out), fold)


# --- networks -------------------------------------------------------------------------------------

EPOCH_TEXTS = 150_000  # texts seen in training, unless that is very few or many epochs
MIN_EPOCHS, MAX_EPOCHS = 4, 30
LEARNING_RATES = {"bilstm": 0.004, "cnn": 0.004, "set": 0.004}  # others have the default


def _choose_training(recipe: ClassifyRecipe, stats: TextStats, chooser: Chooser) -> list[str]:
    """Choose the length of the training of a network; return notes."""
    model, train = recipe.model.model_dump(), recipe.train.model_dump()
    max_length = int(model["max_length"])
    words = max(1.0, min(stats.words, max_length))
    if (rate := LEARNING_RATES.get(recipe.model_name)) is not None:
        reason = f"a {recipe.model_name} learns more in few epochs than with 0.001"
        chooser.choose("train.learning_rate", rate, reason)
    if train["minutes"] is None:
        batch = max(1.0, train["batch_tokens"] / words)
        per_epoch = max(1.0, stats.texts / batch)
        epochs = float(np.clip(EPOCH_TEXTS / stats.texts, MIN_EPOCHS, MAX_EPOCHS))
        reason = f"{epochs:.0f} epochs of {stats.texts:,} texts, {batch:.0f} in a batch"
        steps = int(chooser.choose("train.steps", max(1, round(epochs * per_epoch)), reason))
        for choice in (warmup_choice(steps), evaluation_choice(steps)):
            chooser.choose(*_fields(choice))
    if stats.long_words <= max_length:
        return []
    return [
        f"More than {MAX_TRUNCATED:.0%} of the texts are longer than {max_length} words and are "
        f"truncated (98 % have up to {stats.long_words:,.0f}); --set model.max_length=N reads more."
    ]


def _fields(choice: Choice) -> Iterator[Any]:
    yield from (choice.path, choice.value, choice.reason)
