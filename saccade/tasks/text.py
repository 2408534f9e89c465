"""Text as a recipe has it: where it comes from, how it is prepared, what a batch of it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field
from torch import Tensor

from saccade.config import Config, flatten, set_paths
from saccade.data.corpus import Segments
from saccade.data.files import STANDARD_INPUT
from saccade.data.lines import read_corpus, reference_text
from saccade.data.parallel import TokenizerConfig
from saccade.data.sources import TEXTS, obtain
from saccade.data.tokenizers import Tokenizer, train
from saccade.data.tokens import (
    INDEX,
    Corpus,
    Lines,
    corpus_of,
    file_of,
    read_corpora,
    without_the_end,
    write_corpus,
    write_index,
)
from saccade.data.vocabulary import unknown_note
from saccade.errors import ConfigError, DataError
from saccade.lookup import pick
from saccade.models.gpt import GPTConfig
from saccade.models.language import (
    ConvolutionLanguageConfig,
    NGramConfig,
    RecurrentLanguageConfig,
)
from saccade.models.nnlm import NNLMConfig
from saccade.models.transformer_xl import TransformerXLConfig
from saccade.models.two_way import TwoWayConfig
from saccade.tasks.task import Choice, Progress, print_of
from saccade.training.settings import TrainConfig

ENOUGH = 2.5e6  # tokens that are read in training, if the text is not longer
LONG_SEGMENT = 128  # tokens, for models that see a segment whole
MADE: dict[str, Callable[[], str]] = {"python": reference_text}


class CorpusConfig(Config):
    """Where the text comes from, how it is cut into tokens, and how it is read."""

    made: str | None = None  # python: the language reference that every interpreter carries
    published: str | None = None  # the name of a set that others have published
    path: str | None = None  # a file or a folder of them
    dev: str | None = None  # files of their own; otherwise the last part is held out
    test: str | None = None
    dev_share: float = Field(0.05, gt=0, lt=0.5)
    test_share: float = Field(0.05, gt=0, lt=0.5)
    tokenizer: TokenizerConfig = TokenizerConfig()
    reading: Literal["sequential", "random"] = "sequential"
    steps: int = Field(64, ge=1)  # tokens of a segment
    longest_answer: int = Field(100, ge=1)  # tokens after which an answer is cut off


class LanguageRecipe(Config):
    """A long text in, a model that continues and scores text out."""

    task: Literal["language"] = "language"
    data: CorpusConfig = CorpusConfig()
    model: Annotated[
        RecurrentLanguageConfig
        | ConvolutionLanguageConfig
        | GPTConfig
        | NGramConfig
        | NNLMConfig
        | TransformerXLConfig
        | TwoWayConfig,
        Field(discriminator="name"),
    ] = RecurrentLanguageConfig()
    train: TrainConfig = TrainConfig()


@dataclass
class PreparedText:
    """The text of a recipe, ready for training."""

    recipe: LanguageRecipe
    vocabulary: Tokenizer
    corpora: dict[str, Corpus]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self) -> str:
        """A short hash of the training ids."""
        return print_of(self.corpora["train"].ids)


def prepare(
    recipe: LanguageRecipe,
    tell: Progress,
    tokenizer: Tokenizer | None = None,
    name_model: bool = False,
    place: Path | None = None,
) -> PreparedText:
    """Read the text, choose what the recipe leaves open, learn the vocabulary, encode.

    The ids go into files in `place`, or are those that are there already; without one they are
    held in memory.
    """
    notes: list[str] = []
    if place is not None and (place / INDEX).exists() and tokenizer is not None:
        corpora = read_corpora(place)
    else:
        tell("reading the text", 0, 0)
        lines, notes = _lines(recipe.data, tell)
        others = tokenizer is not None
        if tokenizer is None:
            tell("learning the vocabulary", 0, 0)
            settings = recipe.data.tokenizer
            tokenizer = train(settings.kind, lines["train"], settings.size)
        corpora = _encoded(tokenizer, lines, tell, place)
        if others:
            name = recipe.data.path or recipe.data.published or recipe.data.made
            notes += unknown_note(str(name), corpora["train"].ids)
    recipe, choices = _size_up(recipe, len(corpora["train"].ids))
    model = recipe.model.model_dump(exclude_unset=True) | {"vocab_size": tokenizer.vocab_size}
    recipe = recipe.with_values(model=model)
    return PreparedText(recipe, tokenizer, corpora, choices, notes)


def _encoded(
    tokenizer: Tokenizer, lines: dict[str, Lines], tell: Progress, place: Path | None
) -> dict[str, Corpus]:
    total, done = sum(map(len, lines.values())), 0

    def more(count: int) -> None:
        nonlocal done
        done += count
        tell("encoding", done, total)

    if place is None:
        return {split: corpus_of(tokenizer, some, more) for split, some in lines.items()}
    place.mkdir(parents=True, exist_ok=True)
    corpora = {
        split: write_corpus(file_of(place, split), tokenizer, some, more)
        for split, some in lines.items()
    }
    write_index(place, corpora)
    return corpora


def _lines(config: CorpusConfig, tell: Progress) -> tuple[dict[str, Lines], list[str]]:
    """The lines of each split, and what a reader should know: held out is what comes last."""
    sources = [config.made, config.published, config.path]
    if sum(source is not None for source in sources) != 1:
        raise ConfigError(
            "a text is wanted, and one only: name it with --data, or set one of data.made, "
            "data.published and data.path."
        )
    notes: list[str] = []
    files = {"train": config.path}
    if config.published is not None:
        files, notes = _published(config.published, tell)
    own = {"dev": config.dev, "test": config.test}
    files |= {split: path for split, path in own.items() if path is not None}
    found = {split: _whole(_again(path)) for split, path in files.items() if path is not None}
    if config.made is not None:
        text = pick(MADE, config.made, "made text")().split("\n")
        found["train"] = Lines(lambda: iter(text), 0, len(text))
    every = found.pop("train")
    for split, share in (("test", config.test_share), ("dev", config.dev_share)):
        if split not in found:
            every, found[split] = without_the_end(every, share)
    if not any(line.strip() for line in every):
        raise DataError(
            f"{config.path or config.published or config.made}: nothing is left to train on once "
            "dev and test are held out; a longer text was wanted."
        )
    return {"train": every, **found}, notes


def _published(name: str, tell: Progress) -> tuple[dict[str, str | None], list[str]]:
    """The files of a published text by their splits; if it is one, all of it is for training."""
    published = pick(TEXTS, name, "published text")
    paths, notes = obtain(published, lambda done, of: tell(f"fetching {name}", done, of))
    splits = published.splits or {"train": published.files[0].name}
    return {ours: str(paths[theirs]) for ours, theirs in splits.items()}, notes


def _whole(read: Callable[[], Iterator[str]]) -> Lines:
    return Lines(read, 0, sum(1 for _ in read()))


def _again(path: str) -> Callable[[], Iterator[str]]:
    """Reads a text as often as one likes; what comes through a pipe is kept for that."""
    if path != STANDARD_INPUT:
        return partial(read_corpus, path)
    lines = list(read_corpus(path))
    return lambda: iter(lines)


def _size_up(recipe: LanguageRecipe, tokens: int) -> tuple[LanguageRecipe, list[Choice]]:
    """Choose how long to train, where nobody has said it."""
    if recipe.model.name == "ngram":
        return recipe, []
    given = flatten(recipe, only_set=True)
    epoch = max(1, tokens // recipe.train.batch_tokens)
    epochs = float(np.clip(ENOUGH / tokens, 2, 40))
    steps = int(np.clip(epochs * epoch, 200, 20_000))
    wanted = [
        *_lengths(recipe.model.name, given),
        Choice("train.steps", steps, f"{steps / epoch:.1f} times through {tokens:,} tokens"),
        Choice("train.evaluate_every", max(50, steps // 20), "twenty times"),
    ]
    choices = [choice for choice in wanted if choice.path not in given]
    recipe = set_paths(recipe, {choice.path: choice.value for choice in choices})
    if isinstance(recipe.model, GPTConfig) and recipe.data.steps > recipe.model.context:
        raise ConfigError(
            f"segments of {recipe.data.steps} tokens do not fit into a context of "
            f"{recipe.model.context}: set model.context to as many or more, or data.steps to fewer."
        )
    return recipe, choices


def _lengths(model: str, given: dict[str, Any]) -> list[Choice]:
    """How much is read at a time, for models to whom that matters, and as far as nobody said it."""
    said = ("data.steps", "model.context", "model.segment")
    size = next((given[path] for path in said if given.get(path)), LONG_SEGMENT)
    if model == "transformer_xl":
        return [
            Choice("data.steps", size, "tokens of a segment"),
            Choice("model.segment", size, "as it is trained"),
            Choice("model.memory", size, "as long as a segment"),
        ]
    if model == "two_way":
        return [Choice("data.reading", "random", "each segment is read from both its ends")]
    if model.startswith("gpt"):
        return [
            Choice("data.steps", size, "tokens of a segment"),
            Choice("data.reading", "random", "each segment is read from nothing"),
            Choice("model.context", size, "as long as a segment"),
        ]
    return []


Carried = tuple[Tensor, ...]  # what a segment leaves for the next, batch first


class Text(NamedTuple):
    """The segments of one batch, as the loop counts them; or some rows of them.

    Of a part of a batch, `part` says which it is, and `carried` is what its rows go on from.
    """

    segments: Segments
    part: int = 0
    carried: Carried | None = None

    @property
    def tokens(self) -> int:
        """How many tokens the batch teaches."""
        lengths = self.segments.lengths
        return self.segments.targets.numel() if lengths is None else int(lengths.sum())


def real(flat: Tensor, segments: Segments) -> Tensor:
    """Of what there is for each place, that of those which count."""
    places = segments.real
    return flat if places is None else flat.index_select(0, places.to(flat.device))
