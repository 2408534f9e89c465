"""Text as a recipe has it: where it comes from, how it is prepared, what a batch of it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field
from torch import Tensor

from saccade.config import Config, flatten, override_settings
from saccade.data.datasets import TEXT_DATASETS, fetch_dataset
from saccade.data.parallel.load import TokenizerConfig
from saccade.data.text.corpus import python_reference_text, read_text_corpus
from saccade.data.text.lm_batching import SegmentBatch
from saccade.data.text.token_store import (
    TOKEN_INDEX_FILE,
    LineRange,
    TokenCorpus,
    encode_corpus,
    read_corpora,
    split_off_end,
    token_file,
    write_corpus,
    write_corpus_index,
)
from saccade.data.tokenizers import Tokenizer, train_tokenizer
from saccade.data.vocabulary import unknown_token_note
from saccade.errors import ConfigError, DataError
from saccade.io.text_files import STANDARD_INPUT
from saccade.models.bidirectional_lm import BidirectionalLMConfig
from saccade.models.gpt import GPTConfig
from saccade.models.nnlm import NNLMConfig
from saccade.models.rnn_lm import (
    ConvLMConfig,
    NGramConfig,
    RecurrentLMConfig,
)
from saccade.models.transformer_xl import TransformerXLConfig
from saccade.registry import lookup
from saccade.tasks.task import Choice, Progress, fingerprint_arrays
from saccade.training.config import TrainConfig

TARGET_TRAIN_TOKENS = 2.5e6  # tokens that are read in training, if the text is not longer
DEFAULT_SEGMENT_LENGTH = 128  # tokens, for models that see a segment whole
SYNTHETIC_TEXTS: dict[str, Callable[[], str]] = {"python": python_reference_text}


class CorpusConfig(Config):
    """Where the text comes from, how it is cut into tokens, and how it is read."""

    synthetic: str | None = None  # python: the language reference that every interpreter carries
    dataset: str | None = None  # the name of a set that others have published
    path: str | None = None  # a file or a folder of them
    dev: str | None = None  # files of their own; otherwise the last part is held out
    test: str | None = None
    dev_share: float = Field(0.05, gt=0, lt=0.5)
    test_share: float = Field(0.05, gt=0, lt=0.5)
    tokenizer: TokenizerConfig = TokenizerConfig()
    segment_order: Literal["sequential", "random"] = "sequential"
    segment_length: int = Field(64, ge=1)  # tokens of a segment
    max_new_tokens: int = Field(100, ge=1)  # tokens after which an answer is cut off


class LanguageRecipe(Config):
    """A long text in, a model that continues and scores text out."""

    task: Literal["language"] = "language"
    data: CorpusConfig = CorpusConfig()
    model: Annotated[
        RecurrentLMConfig
        | ConvLMConfig
        | GPTConfig
        | NGramConfig
        | NNLMConfig
        | TransformerXLConfig
        | BidirectionalLMConfig,
        Field(discriminator="name"),
    ] = RecurrentLMConfig()
    train: TrainConfig = TrainConfig()


@dataclass
class PreparedText:
    """The text of a recipe, ready for training."""

    recipe: LanguageRecipe
    vocabulary: Tokenizer
    corpora: dict[str, TokenCorpus]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fingerprint(self) -> str:
        """A short hash of the training ids."""
        return fingerprint_arrays(self.corpora["train"].ids)


def prepare_text(
    recipe: LanguageRecipe,
    on_progress: Progress,
    tokenizer: Tokenizer | None = None,
    auto_model: bool = False,
    scratch_dir: Path | None = None,
) -> PreparedText:
    """Read the text, choose what the recipe leaves open, learn the vocabulary, encode.

    The ids go into files in `place`, or are those that are there already; without one they are
    held in memory.
    """
    notes: list[str] = []
    if (
        scratch_dir is not None
        and (scratch_dir / TOKEN_INDEX_FILE).exists()
        and tokenizer is not None
    ):
        corpora = read_corpora(scratch_dir)
    else:
        on_progress("reading the text", 0, 0)
        lines, notes = _lines(recipe.data, on_progress)
        others = tokenizer is not None
        if tokenizer is None:
            on_progress("learning the vocabulary", 0, 0)
            settings = recipe.data.tokenizer
            tokenizer = train_tokenizer(settings.kind, lines["train"], settings.size)
        corpora = _encoded(tokenizer, lines, on_progress, scratch_dir)
        if others:
            name = recipe.data.path or recipe.data.dataset or recipe.data.synthetic
            notes += unknown_token_note(str(name), corpora["train"].ids)
    recipe, choices = _size_up(recipe, len(corpora["train"].ids))
    model = recipe.model.model_dump(exclude_unset=True) | {"vocab_size": tokenizer.vocab_size}
    recipe = recipe.with_values(model=model)
    return PreparedText(recipe, tokenizer, corpora, choices, notes)


def _encoded(
    tokenizer: Tokenizer,
    lines: dict[str, LineRange],
    on_progress: Progress,
    scratch_dir: Path | None,
) -> dict[str, TokenCorpus]:
    total, done = sum(map(len, lines.values())), 0

    def more(count: int) -> None:
        nonlocal done
        done += count
        on_progress("encoding", done, total)

    if scratch_dir is None:
        return {split: encode_corpus(tokenizer, some, more) for split, some in lines.items()}
    scratch_dir.mkdir(parents=True, exist_ok=True)
    corpora = {
        split: write_corpus(token_file(scratch_dir, split), tokenizer, some, more)
        for split, some in lines.items()
    }
    write_corpus_index(scratch_dir, corpora)
    return corpora


def _lines(config: CorpusConfig, on_progress: Progress) -> tuple[dict[str, LineRange], list[str]]:
    """The lines of each split, and what a reader should know: held out is what comes last."""
    sources = [config.synthetic, config.dataset, config.path]
    if sum(source is not None for source in sources) != 1:
        raise ConfigError(
            "a text is wanted, and one only: name it with --data, or set one of data.synthetic, "
            "data.dataset and data.path."
        )
    notes: list[str] = []
    files = {"train": config.path}
    if config.dataset is not None:
        files, notes = _published(config.dataset, on_progress)
    own = {"dev": config.dev, "test": config.test}
    files |= {split: path for split, path in own.items() if path is not None}
    found = {split: _whole(_again(path)) for split, path in files.items() if path is not None}
    if config.synthetic is not None:
        text = lookup(SYNTHETIC_TEXTS, config.synthetic, "made text")().split("\n")
        found["train"] = LineRange(lambda: iter(text), 0, len(text))
    every = found.pop("train")
    for split, share in (("test", config.test_share), ("dev", config.dev_share)):
        if split not in found:
            every, found[split] = split_off_end(every, share)
    if not any(line.strip() for line in every):
        raise DataError(
            f"{config.path or config.dataset or config.synthetic}: nothing is left to train on once "
            "dev and test are held out; a longer text was wanted."
        )
    return {"train": every, **found}, notes


def _published(name: str, on_progress: Progress) -> tuple[dict[str, str | None], list[str]]:
    """The files of a published text by their splits; if it is one, all of it is for training."""
    dataset = lookup(TEXT_DATASETS, name, "published text")
    paths, notes = fetch_dataset(
        dataset, lambda done, of: on_progress(f"fetching {name}", done, of)
    )
    splits = dataset.splits or {"train": dataset.files[0].name}
    return {ours: str(paths[theirs]) for ours, theirs in splits.items()}, notes


def _whole(read: Callable[[], Iterator[str]]) -> LineRange:
    return LineRange(read, 0, sum(1 for _ in read()))


def _again(path: str) -> Callable[[], Iterator[str]]:
    """Reads a text as often as one likes; what comes through a pipe is kept for that."""
    if path != STANDARD_INPUT:
        return partial(read_text_corpus, path)
    lines = list(read_text_corpus(path))
    return lambda: iter(lines)


def _size_up(recipe: LanguageRecipe, tokens: int) -> tuple[LanguageRecipe, list[Choice]]:
    """Choose how long to train, where nobody has said it."""
    if recipe.model.name == "ngram":
        return recipe, []
    given = flatten(recipe, exclude_unset=True)
    epoch = max(1, tokens // recipe.train.batch_tokens)
    epochs = float(np.clip(TARGET_TRAIN_TOKENS / tokens, 2, 40))
    segment_length = int(np.clip(epochs * epoch, 200, 20_000))
    wanted = [
        *_lengths(recipe.model.name, given),
        Choice(
            "train.steps",
            segment_length,
            f"{segment_length / epoch:.1f} times through {tokens:,} tokens",
        ),
        Choice("train.evaluate_every", max(50, segment_length // 20), "twenty times"),
    ]
    choices = [choice for choice in wanted if choice.path not in given]
    recipe = override_settings(recipe, {choice.path: choice.value for choice in choices})
    if (
        isinstance(recipe.model, GPTConfig)
        and recipe.data.segment_length > recipe.model.context_length
    ):
        raise ConfigError(
            f"segments of {recipe.data.segment_length} tokens do not fit into a context of "
            f"{recipe.model.context_length}: set model.context_length to as many or more, or data.segment_length to fewer."
        )
    return recipe, choices


def _lengths(model: str, given: dict[str, Any]) -> list[Choice]:
    """How much is read at a time, for models to whom that matters, and as far as nobody said it."""
    said = ("data.segment_length", "model.context_length", "model.segment_length")
    size = next((given[path] for path in said if given.get(path)), DEFAULT_SEGMENT_LENGTH)
    if model == "transformer_xl":
        return [
            Choice("data.segment_length", size, "tokens of a segment"),
            Choice("model.segment_length", size, "as it is trained"),
            Choice("model.memory_length", size, "as long as a segment"),
        ]
    if model == "bidirectional":
        return [Choice("data.segment_order", "random", "each segment is read from both its ends")]
    if model.startswith("gpt"):
        return [
            Choice("data.segment_length", size, "tokens of a segment"),
            Choice("data.segment_order", "random", "each segment is read from nothing"),
            Choice("model.context_length", size, "as long as a segment"),
        ]
    return []


SegmentState = tuple[Tensor, ...]  # what a segment leaves for the next, batch first


class LMBatch(NamedTuple):
    """The segments of one batch, as the loop counts them; or some rows of them.

    Of a part of a batch, `part` says which it is, and `carried` is what its rows go on from.
    """

    segments: SegmentBatch
    part: int = 0
    carry: SegmentState | None = None

    @property
    def tokens(self) -> int:
        """How many tokens the batch teaches."""
        lengths = self.segments.lengths
        return self.segments.targets.numel() if lengths is None else int(lengths.sum())


def drop_padding(flat: Tensor, segments: SegmentBatch) -> Tensor:
    """Of what there is for each place, that of those which count."""
    places = segments.real
    return flat if places is None else flat.index_select(0, places.to(flat.device))
