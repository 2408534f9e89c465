"""A long text as token ids, divided by position, or its documents by the settings."""

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from saccade.config import flatten, override_settings
from saccade.data.datasets import TEXT_DATASETS, fetch_dataset
from saccade.data.records.roles import RoleChoice
from saccade.data.source import DatasetSource, SyntheticSource, resolve_source
from saccade.data.special_tokens import EOS, unknown_token_note
from saccade.data.split_keys import refuse_division
from saccade.data.splits import SPLIT_NAMES
from saccade.data.text.config import TextConfig
from saccade.data.text.corpus import SYNTHETIC_TEXTS, open_text_corpus, synthetic_corpus
from saccade.data.text.lm_batching import SegmentBatch
from saccade.data.text.text_splits import divide_text
from saccade.data.text.token_store import (
    TOKEN_INDEX_FILE,
    LineRange,
    TokenCorpus,
    encode_corpus,
    read_corpora,
    token_file,
    write_corpus,
    write_corpus_index,
)
from saccade.data.tokenizers import Tokenizer, train_tokenizer
from saccade.data.word_splitting import is_unspaced
from saccade.errors import ConfigError
from saccade.io.id_files import stored_or_none
from saccade.models.config import GPTConfig
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.language_modeling.config import LanguageRecipe
from saccade.tasks.length import evaluation_choice
from saccade.types.progress import Progress, ProgressCounter

TARGET_TRAIN_TOKENS = 2.5e6  # tokens seen in training, unless the text is longer
SAMPLE_LINES, SAMPLE_CHARACTERS = 200, 20_000  # from which the script of a text is inferred
SAMPLE_TOKENS = 4096  # from which the script of a text and an example are taken
PROMPT_CHARACTERS, UNSPACED_PROMPT_CHARACTERS = 40, 12  # of the example prompt
MIN_EPOCHS, MAX_EPOCHS = 2, 40
MIN_STEPS, MAX_STEPS = 200, 20_000
DEFAULT_SEGMENT_LENGTH = 128  # tokens, for models that attend to a whole segment

PreparedText = PreparedData[LanguageRecipe, Tokenizer, TokenCorpus]
CarriedState = tuple[Tensor, ...]  # state that a segment leaves for the next, batch first


class LMBatch(NamedTuple):
    """Segments of one batch, or some rows of them (`part`), with the state they continue from."""

    segments: SegmentBatch
    part: int = 0
    carry: CarriedState | None = None

    @property
    def tokens(self) -> int:
        """Number of target tokens."""
        lengths = self.segments.lengths
        return self.segments.targets.numel() if lengths is None else int(lengths.sum())

    @property
    def target_positions(self) -> Tensor | None:
        """Positions that are not padding, in the flattened segments; None: all."""
        return self.segments.real


def drop_padding(flat: Tensor, segments: SegmentBatch) -> Tensor:
    """Select the entries at non-padded positions."""
    positions = segments.real
    return flat if positions is None else flat.index_select(0, positions.to(flat.device))


def leading_ids(corpus: TokenCorpus, segments: int | None, segment_length: int) -> NDArray[Any]:
    """Return the ids of the first segments, or all ids."""
    ids = corpus.ids
    return ids if segments is None else ids[: segments * segment_length + 1]


def text_sample(tokenizer: Tokenizer, ids: NDArray[Any]) -> str:
    """Return the text of the first tokens, without line ends."""
    some = ids[:SAMPLE_TOKENS]
    return tokenizer.decode(some[some != EOS].tolist())


def example_prompt(tokenizer: Tokenizer, corpus: TokenCorpus) -> str:
    """Return the first words of a line: at most half of it, and a limited length."""
    ids = corpus.ids[:SAMPLE_TOKENS]
    lines = [line[line != EOS].tolist() for line in np.split(ids, np.flatnonzero(ids == EOS) + 1)]
    longest = max(lines, key=len)
    text = tokenizer.decode(longest[: max(1, len(longest) // 2)]).strip()
    if is_unspaced(text):
        return text[:UNSPACED_PROMPT_CHARACTERS]
    cut = text.rfind(" ", 0, PROMPT_CHARACTERS + 1)  # between words
    return text if len(text) <= PROMPT_CHARACTERS or cut <= 0 else text[:cut]


def load_text(
    recipe: LanguageRecipe, tokenizer: Tokenizer, data: str | Path | object
) -> TokenCorpus:
    """Read and encode a text."""
    corpus = open_text_corpus(data, recipe.data, "language", is_other=True)
    return encode_corpus(tokenizer, corpus.read())


def prepare_text(recipe: LanguageRecipe, context: PrepareContext[Tokenizer]) -> PreparedText:
    """Read the text, train the tokenizer, encode, and choose the settings left open.

    The ids are written to the scratch folder, or read from there; without one they are held in
    memory.
    """
    notes: list[str] = []
    inferred: list[RoleChoice] = []
    folder, tokenizer = context.scratch_dir, context.preprocessor
    corpora = None
    if folder is not None and tokenizer is not None and (folder / TOKEN_INDEX_FILE).exists():
        corpora = stored_or_none(partial(read_corpora, folder, tokenizer.vocab_size))
    if corpora is None or tokenizer is None or len(corpora) < len(SPLIT_NAMES):
        context.on_progress("reading the text", 0, None)
        lines, columns, inferred, notes = read_split_lines(
            recipe.data, "language", context.on_progress
        )
        data = recipe.data.model_dump(exclude_unset=True) | columns
        recipe = recipe.with_values(data=data)
        sample = "".join(islice(lines["train"], SAMPLE_LINES))[:SAMPLE_CHARACTERS]
        notes += _unspaced_notes(recipe.data.tokenizer.kind, sample)
        if tokenizer is None:
            context.on_progress("training the tokenizer", 0, None)
            settings = recipe.data.tokenizer
            tokenizer = train_tokenizer(settings.kind, lines["train"], settings.size)
        corpora = encode_text_splits(tokenizer, lines, context.on_progress, folder)
        if context.preprocessor is not None:
            notes += unknown_token_note(recipe.data_name, corpora["train"].ids)
        sizes = [f"{len(corpus.ids):,} {split}" for split, corpus in corpora.items()]
        notes.append(f"{recipe.data_name}: tokens of each split: {', '.join(sizes)}.")
    recipe, choices = _with_sizes(recipe, len(corpora["train"].ids))
    model = recipe.model.model_dump(exclude_unset=True) | {"vocab_size": tokenizer.vocab_size}
    recipe = recipe.with_values(model=model)
    train = corpora["train"]
    return PreparedData(
        recipe,
        tokenizer,
        corpora,
        lambda: fingerprint_arrays(train.ids),
        role_choices(inferred) + choices,
        notes,
    )


def _unspaced_notes(kind: str, sample: str) -> list[str]:
    """Return what the tokens of a text without spaces between words are."""
    if not is_unspaced(sample):
        return []
    tokens = {
        "bpe": "tokens are byte pairs of characters",
        "whitespace": "each line is about one token (try data.tokenizer.kind=character)",
    }.get(kind, "each character is a token")
    return [f"There are no spaces between words: {tokens}; word perplexity is left out."]


def encode_text_splits(
    tokenizer: Tokenizer,
    lines: dict[str, LineRange],
    on_progress: Progress,
    folder: Path | None,
) -> dict[str, TokenCorpus]:
    """Return the ids of each split, in files of the folder or, without one, in memory."""
    counter = ProgressCounter(on_progress, "encoding", sum(map(len, lines.values())))
    if folder is None:
        return {
            split: encode_corpus(tokenizer, some, counter.advance) for split, some in lines.items()
        }
    folder.mkdir(parents=True, exist_ok=True)
    corpora = {
        split: write_corpus(token_file(folder, split), tokenizer, some, counter.advance)
        for split, some in lines.items()
    }
    write_corpus_index(folder, corpora)
    return corpora


class SplitLines(NamedTuple):
    """The lines of a text by split, and what was inferred from it."""

    lines: dict[str, LineRange]  # by split
    columns: dict[str, str]  # by role
    choices: list[RoleChoice]
    notes: list[str]  # for the user


def read_split_lines(
    config: TextConfig, task: str, on_progress: Progress, separate_documents: bool = False
) -> SplitLines:
    """Return the lines of each split; by default the last parts are held out.

    With `separate_documents` there is an empty line after each file, or each text of a column.
    """
    source = resolve_source(config, SYNTHETIC_TEXTS, TEXT_DATASETS, what="text")
    notes: list[str] = []
    files: dict[str, str | None] = {"train": config.path}
    if isinstance(source, DatasetSource):
        if source.dataset.splits:
            refuse_division(config, source.name)
        files, notes = _dataset_files(source, on_progress)
    own = {"dev": config.dev, "test": config.test}
    files |= {split: path for split, path in own.items() if path is not None}
    corpora = {
        split: open_text_corpus(
            path, config, task, split != "train", separate_documents=separate_documents
        )
        for split, path in files.items()
        if path is not None
    }
    if isinstance(source, SyntheticSource):
        corpora["train"] = synthetic_corpus(source, config, task)
    whole = corpora["train"]
    divided = divide_text(corpora, config)
    notes += [*whole.notes, *divided.notes]
    return SplitLines(divided.lines, whole.columns, whole.choices, notes)


def _dataset_files(
    source: DatasetSource, on_progress: Progress
) -> tuple[dict[str, str | None], list[str]]:
    """Return the files of a published text by split; a single one is for training."""
    dataset = source.dataset
    paths, notes = fetch_dataset(
        dataset, lambda done, total: on_progress(f"downloading {source.name}", done, total)
    )
    splits = dataset.splits or {"train": dataset.files[0].name}
    return {split: str(paths[file]) for split, file in splits.items()}, notes


def _with_sizes(recipe: LanguageRecipe, tokens: int) -> tuple[LanguageRecipe, list[Choice]]:
    """Choose segment lengths and the number of steps, where they are not set."""
    if recipe.model_name == "ngram":
        return recipe, []
    given = flatten(recipe, exclude_unset=True)
    epoch = max(1, tokens // recipe.train.batch_tokens)
    possible = _segment_choices(recipe.model_name, given)
    if recipe.train.minutes is None:
        steps = choose_steps(tokens, epoch)
        possible += [steps, evaluation_choice(given.get("train.steps", steps.value))]
    else:
        possible.append(step_limit(tokens, epoch, recipe.train.minutes))
    choices = [choice for choice in possible if choice.path not in given]
    recipe = override_settings(recipe, {choice.path: choice.value for choice in choices})
    model, length = recipe.model, recipe.data.segment_length
    if isinstance(model, GPTConfig) and length > model.context_length:
        raise ConfigError(
            f"got data.segment_length={length} with model.context_length={model.context_length}; "
            "expected segments that fit into the context; try a longer context, or shorter "
            "segments."
        )
    return recipe, choices


def choose_steps(tokens: int, epoch: int) -> Choice:
    """Return the number of steps for a text, and the bound that decided."""
    epochs = float(np.clip(TARGET_TRAIN_TOKENS / tokens, MIN_EPOCHS, MAX_EPOCHS))
    steps = int(np.clip(epochs * epoch, MIN_STEPS, MAX_STEPS))
    bound = {MIN_STEPS: "; the lower limit", MAX_STEPS: "; the upper limit"}.get(steps, "")
    reason = f"{steps / epoch:.1f} epochs of {tokens:,} tokens{bound}"
    return Choice("train.steps", steps, reason)


def step_limit(tokens: int, epoch: int, minutes: float) -> Choice:
    """Return the number of steps after which a text is no longer trained on in a time budget."""
    steps = max(MIN_STEPS, MAX_EPOCHS * epoch)
    reason = f"{steps / epoch:.1f} epochs of {tokens:,} tokens, if {minutes:g} min are enough"
    return Choice("train.steps", steps, reason)


def _segment_choices(model: str, given: dict[str, Any]) -> list[Choice]:
    """Return segment and context lengths for models that need them."""
    lengths = ("data.segment_length", "model.context_length", "model.segment_length")
    size = next((given[path] for path in lengths if given.get(path)), DEFAULT_SEGMENT_LENGTH)
    if model == "transformer_xl":
        return [
            Choice("data.segment_length", size, "tokens of a segment"),
            Choice("model.segment_length", size, "as in training"),
            Choice("model.memory_length", size, "as long as a segment"),
        ]
    if model in ("bidirectional", "elmo"):
        return [Choice("data.segment_order", "random", "each segment is read in both directions")]
    if model.startswith("gpt"):
        return [
            Choice("data.segment_length", size, "tokens of a segment"),
            Choice("data.segment_order", "random", "each segment starts without context"),
            Choice("model.context_length", size, "as long as a segment"),
        ]
    return []
