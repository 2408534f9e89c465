"""Questions: read, divided by article, and the settings that follow from them. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np

from saccade.config import flatten, override_settings
from saccade.data.answering.config import QuestionsConfig
from saccade.data.answering.readers import Question, read_questions
from saccade.data.answering.synthetic import generate_questions
from saccade.data.datasets import ANSWER_DATASETS, fetch_dataset
from saccade.data.hashing import HashArray
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.source import DatasetSource, PathSource, SyntheticSource, resolve_source
from saccade.data.special_tokens import UNK
from saccade.data.split_keys import Division, dev_without_test, refuse_division, without_given
from saccade.data.splits import SPLIT_NAMES, TRAIN, check_shares, hash_texts, split_by_order
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.errors import DataError
from saccade.tasks.answering.config import AnswerRecipe
from saccade.tasks.answering.windows import WindowEncoder, WindowTable
from saccade.tasks.base import Choice, PrepareContext, PreparedData
from saccade.tasks.length import evaluation_choice, warmup_choice
from saccade.tasks.tagging.data import BERT_RATE, BERT_RATE_WIDTH, MAX_UNKNOWN_PIECES
from saccade.types.arrays import IntArray
from saccade.types.progress import Progress

SYNTHETIC_QUESTIONS = {"facts": generate_questions}
EPOCHS_WITH_WEIGHTS, MIN_EPOCHS, MAX_EPOCHS = 3, 4, 20
TRAINING_WINDOWS = 20_000  # read from scratch, within the limits of epochs
NEW_ANSWERER_RATE = 1e-3  # of a model without pretrained weights
MAX_CHECKED_QUESTIONS = 1000  # whose pieces are counted for that

PreparedQuestions = PreparedData[AnswerRecipe, WordPieceTokenizer, "QuestionSplit"]


@dataclass(frozen=True, eq=False)
class QuestionSplit:
    """Questions with their contexts; windows are computed when a model needs them."""

    questions: Sequence[Question]
    encoder: WindowEncoder
    is_held_out: bool = True  # False: the training questions themselves

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def table(self) -> WindowTable:
        """The windows of the questions."""
        return self.encoder.encode(self.questions)

    @cached_property
    def lengths(self) -> IntArray:
        """The tokens of each window."""
        return np.diff(self.table.ids.starts)

    @property
    def has_unanswered(self) -> bool:
        """True if a question has no answer in its context."""
        return any(not question.answers for question in self.questions)

    def take(self, limit: int | None) -> "QuestionSplit":
        """Return at most `limit` questions, evenly spread."""
        if limit is None or limit >= len(self):
            return self
        rows = evenly_spaced_rows(len(self), limit)
        return replace(self, questions=[self.questions[row] for row in rows])

    def fingerprint(self) -> str:
        """Return a short hash of the questions, contexts and answers."""
        digest = blake2b(digest_size=16)
        for question in self.questions:
            answers = (f"{answer.start} {answer.text}" for answer in question.answers)
            row = "\x1f".join((question.question, question.context, *answers))
            digest.update(row.encode(errors="surrogatepass") + b"\n")
        return digest.hexdigest()


def prepare_questions(
    recipe: AnswerRecipe, context: PrepareContext[WordPieceTokenizer]
) -> PreparedQuestions:
    """Read and divide the questions, fit the tokenizer unless one is given, choose settings."""
    context.on_progress("reading the questions", 0, None)
    questions, notes = _read_splits(recipe.data, context.on_progress)
    train = questions["train"]
    if not any(question.answers for question in train):
        raise DataError(
            f"{recipe.data_name}: got {len(train):,} training questions, none with an answer; "
            "expected some to train on; try more articles, or smaller data.dev_share and "
            "data.test_share."
        )
    tokenizer = context.preprocessor
    if tokenizer is None:
        context.on_progress("fitting the tokenizer", 0, None)
        texts = dict.fromkeys(text for q in train for text in (q.question, q.context))
        tokenizer = WordPieceTokenizer.fit(texts)
    encoder = WindowEncoder(tokenizer, recipe.data, recipe.model.max_length)
    splits = {
        name: QuestionSplit(some or train, encoder, bool(some) and name != "train")
        for name, some in questions.items()
    }
    notes += _describe(splits)
    check_contexts(splits["train"], encoder)
    model = recipe.model.model_dump(exclude_unset=True) | {"vocab_size": tokenizer.vocab_size}
    recipe = recipe.with_values(model=model)
    recipe, choices = _choose_length(recipe, splits["train"], context.preprocessor is not None)
    return PreparedData(
        recipe, tokenizer, splits, splits["train"].fingerprint, choices=choices, notes=notes
    )


def load_questions(
    recipe: AnswerRecipe, tokenizer: WordPieceTokenizer, source: str | Path | object
) -> QuestionSplit:
    """Read questions with answers for a run."""
    encoder = WindowEncoder(tokenizer, recipe.data, recipe.model.max_length)
    return QuestionSplit(read_questions(source, recipe.data), encoder)


def check_contexts(split: QuestionSplit, encoder: WindowEncoder) -> None:
    """Raise a DataError if the vocabulary does not cover the contexts."""
    ids = encoder.encode(split.take(MAX_CHECKED_QUESTIONS).questions).ids.rows
    share = float((ids == UNK).mean())
    if share > MAX_UNKNOWN_PIECES:
        raise DataError(
            f"got contexts {share:.0%} of whose pieces are not in the vocabulary of the encoder; "
            f"expected at most {MAX_UNKNOWN_PIECES:.0%}: it was made for another language or "
            "script; try a model of the language of the questions, or train without --init-from."
        )


def _describe(splits: Mapping[str, QuestionSplit]) -> list[str]:
    """Return notes on the sizes of the splits and on the windows."""
    held_out = {name: split for name, split in splits.items() if split.is_held_out}
    train = splits["train"]
    sizes = [f"{len(some):,} {name}" for name, some in {"train": train, **held_out}.items()]
    notes = [f"Questions: {', '.join(sizes)}."]
    windows, long = len(train.lengths), len(train.lengths) - len(train)
    if long:
        notes.append(
            f"Contexts above {train.encoder.window:,} tokens are read in overlapping windows: "
            f"{windows:,} windows of {len(train):,} training questions."
        )
    unanswered = sum(not question.answers for question in train.questions)
    if unanswered:
        notes.append(
            f"{unanswered:,} training questions have no answer in their context; the threshold "
            "for no answer is chosen on dev."
        )
    for name in SPLIT_NAMES[1:]:
        if not splits[name].is_held_out:
            notes.append(f"No articles are held out for {name}: those of training are used.")
    return notes


# --- reading --------------------------------------------------------------------------------------


def _read_splits(
    data: QuestionsConfig, on_progress: Progress
) -> tuple[dict[str, list[Question]], list[str]]:
    """Return the questions of each split, and notes for the user."""
    check_shares(data.dev_share, data.test_share)
    source = resolve_source(data, SYNTHETIC_QUESTIONS, ANSWER_DATASETS, "set of questions")
    notes: list[str] = []
    if isinstance(source, DatasetSource):
        refuse_division(data, source.name)
        fetched = fetch_dataset(
            source.dataset,
            lambda done, total: on_progress(f"downloading {source.name}", done, total),
        )
        notes += fetched.notes
        questions = read_questions(fetched.paths[f"xquad.{data.language}.json"], data)
    elif isinstance(source, SyntheticSource):
        questions = source.generate()
    else:
        assert isinstance(source, PathSource)
        questions = read_questions(source.path, data)
    own = {name: getattr(data, name) for name in SPLIT_NAMES[1:] if getattr(data, name)}
    given = {name: read_questions(path, data) for name, path in own.items()}
    splits, more = divide_questions(questions, given, data)
    return splits, [*notes, *more]


def divide_questions(
    questions: Sequence[Question], given: Mapping[str, list[Question]], data: QuestionsConfig
) -> tuple[dict[str, list[Question]], list[str]]:
    """Return the splits: held-out files, and articles in the order of their hashes."""
    articles = {q.article: number for number, q in enumerate(questions)}
    hashes = hash_texts(article.encode(errors="replace") for article in articles)
    shares = [0.0 if n in given else getattr(data, f"{n}_share") for n in SPLIT_NAMES[1:]]
    if len(articles) < 2:  # nothing can be held out
        of_articles = np.full(len(articles), TRAIN, np.int8)
    else:
        of_articles = split_by_order(hashes, *shares)
    number_of = {article: number for number, article in enumerate(articles)}
    numbers = of_articles[[number_of[question.article] for question in questions]]
    held_out = {name: _hash_contexts(some) for name, some in given.items()}
    kept = dev_without_test(held_out)
    found = {name: list(given.get(name, ())) for name in SPLIT_NAMES}
    if kept.rows is not None:
        found["dev"] = [found["dev"][row] for row in kept.rows.tolist()]
    division = without_given(Division(numbers, kept.notes), _hash_contexts(questions), held_out)
    for question, number in zip(questions, division.splits.tolist(), strict=True):
        if number >= 0:  # not left out
            found[SPLIT_NAMES[number]].append(question)
    return found, list(division.notes)


def _hash_contexts(questions: Sequence[Question]) -> HashArray:
    return hash_texts(question.context.encode(errors="replace") for question in questions)


# --- length of the training -----------------------------------------------------------------------


def _choose_length(
    recipe: AnswerRecipe, train: QuestionSplit, has_weights: bool
) -> tuple[AnswerRecipe, list[Choice]]:
    """Choose the rate, the number of steps, warm-up and evaluations, where they are not set."""
    value = BERT_RATE * max(1.0, BERT_RATE_WIDTH / recipe.model.width)
    value = value if has_weights else NEW_ANSWERER_RATE
    reason = f"usual for {'fine-tuning' if has_weights else 'training'} at width "
    choices = [
        Choice("train.learning_rate", float(f"{value:.1g}"), f"{reason}{recipe.model.width}"),
        Choice("train.schedule", "linear", "usual for BERT"),
    ]
    if recipe.train.minutes is None:
        windows, rows = len(train.lengths), batch_windows(train, recipe.train.batch_tokens)
        epochs = float(np.clip(TRAINING_WINDOWS / windows, MIN_EPOCHS, MAX_EPOCHS))
        epochs = EPOCHS_WITH_WEIGHTS if has_weights else epochs
        counted = f"{epochs:.0f} epochs of {windows:,} windows"
        chosen = Choice("train.steps", max(1, round(epochs * -(-windows // rows))), counted)
        steps = recipe.train.steps or chosen.value
        choices = [chosen, warmup_choice(steps), evaluation_choice(steps), *choices]
    given = flatten(recipe, exclude_unset=True)
    choices = [choice for choice in choices if given.get(choice.path) is None]
    return override_settings(recipe, {c.path: c.value for c in choices}), choices


def batch_windows(split: QuestionSplit, batch_tokens: int) -> int:
    """Return the windows of a batch with about this many tokens."""
    return max(1, int(batch_tokens // float(split.lengths.mean())))
