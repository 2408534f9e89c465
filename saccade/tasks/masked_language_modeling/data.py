"""A text as the token stream of each split, from which sequences are made."""

from functools import partial
from pathlib import Path

import numpy as np

from saccade.config import flatten, override_settings
from saccade.data.records.roles import RoleChoice
from saccade.data.special_tokens import UNK, unknown_token_note
from saccade.data.splits import SPLIT_NAMES
from saccade.data.tables.csv import pluralise
from saccade.data.text.chinese_words import chinese_splitter, join_chinese_words
from saccade.data.text.corpus import open_text_corpus
from saccade.data.text.packing import TokenStream, token_stream
from saccade.data.text.token_store import (
    TOKEN_INDEX_FILE,
    TokenCorpus,
    encode_corpus,
    read_corpora,
)
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.errors import ConfigError, DataError
from saccade.io.id_files import stored_or_none
from saccade.models.bert_config import BertConfig
from saccade.tasks.base import (
    Choice,
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.language_modeling.data import (
    choose_steps,
    encode_text_splits,
    read_split_lines,
    step_limit,
)
from saccade.tasks.length import evaluation_choice, warmup_choice
from saccade.tasks.masked_language_modeling.config import BertRecipe

MIN_TOKENS = 8  # of a split
MAX_UNKNOWN_SHARE = 0.5  # of the tokens of a text, with the vocabulary of another run

PreparedStreams = PreparedData[BertRecipe, WordPieceTokenizer, TokenStream]


def load_stream(recipe: BertRecipe, tokenizer: WordPieceTokenizer, data: object) -> TokenStream:
    """Read and encode a text."""
    corpus = open_text_corpus(data, recipe.data, "bert", True, separate_documents=True)
    return _stream(recipe, tokenizer, encode_corpus(tokenizer, corpus.read()), corpus.name)


def prepare_pretraining(
    recipe: BertRecipe, context: PrepareContext[WordPieceTokenizer]
) -> PreparedStreams:
    """Read the text, train the tokenizer, encode, and choose the settings left open.

    The ids are written to the scratch folder, or read from there; without one they are held in
    memory.
    """
    notes: list[str] = []
    inferred: list[RoleChoice] = []
    folder, tokenizer = context.scratch_dir, context.preprocessor
    corpora = _stored_corpora(folder, tokenizer)
    if corpora is None or tokenizer is None:
        context.on_progress("reading the text", 0, None)
        lines, columns, inferred, notes = read_split_lines(
            recipe.data, "bert", context.on_progress, separate_documents=True
        )
        data = recipe.data.model_dump(exclude_unset=True) | columns
        recipe = recipe.with_values(data=data)
        if tokenizer is None:
            context.on_progress("training the tokenizer", 0, None)
            settings = recipe.data.tokenizer
            tokenizer = WordPieceTokenizer.fit(lines["train"], settings.size, settings.lowercase)
        corpora = encode_text_splits(tokenizer, lines, context.on_progress, folder)
        if context.preprocessor is not None:
            notes += unknown_token_note(recipe.data_name, corpora["train"].ids)
        sizes = [f"{len(corpus.ids):,} {split}" for split, corpus in corpora.items()]
        notes.append(f"{recipe.data_name}: tokens of each split: {', '.join(sizes)}.")
    splits = {
        split: _stream(recipe, tokenizer, corpus, f"{recipe.data_name}, {split}")
        for split, corpus in corpora.items()
    }
    train = splits["train"]
    if inferred or notes:
        notes.append(_describe_documents(recipe, train))
    recipe, choices = _with_sizes(recipe, len(train))
    model = recipe.model.model_dump(exclude_unset=True) | {"vocab_size": tokenizer.vocab_size}
    recipe = recipe.with_values(model=model)
    return PreparedData(
        recipe,
        tokenizer,
        splits,
        lambda: fingerprint_arrays(train.ids),
        role_choices(inferred) + choices,
        notes,
    )


def _stored_corpora(
    folder: Path | None, tokenizer: WordPieceTokenizer | None
) -> dict[str, TokenCorpus] | None:
    """Return the ids in the scratch folder; None if there are not all."""
    if folder is None or tokenizer is None or not (folder / TOKEN_INDEX_FILE).exists():
        return None
    corpora = stored_or_none(partial(read_corpora, folder, tokenizer.vocab_size))
    return corpora if corpora is not None and len(corpora) == len(SPLIT_NAMES) else None


def _stream(
    recipe: BertRecipe, tokenizer: WordPieceTokenizer, corpus: TokenCorpus, name: str
) -> TokenStream:
    """Return the stream of an encoded text; DataError if it has nothing to learn from."""
    ids = np.asarray(corpus.ids)
    starts_word = ~tokenizer.is_continuation[ids]
    if recipe.data.whole_words and recipe.data.chinese_words is not None:
        split = chinese_splitter(recipe.data.chinese_words)
        starts_word = join_chinese_words(ids, starts_word, tokenizer.tokens, split)
    stream = token_stream(ids, starts_word)
    if len(stream) < MIN_TOKENS:
        raise DataError(
            f"{name}: got {pluralise(len(stream), 'token')}; expected {MIN_TOKENS} or more; try a "
            "longer text."
        )
    unknown = float((stream.ids == UNK).mean())
    if unknown > MAX_UNKNOWN_SHARE:
        raise DataError(
            f"{name}: got {unknown:.0%} unknown tokens; expected a text in the script of the "
            "vocabulary; try to train from scratch, without --init-from."
        )
    return stream


def _describe_documents(recipe: BertRecipe, train: TokenStream) -> str:
    """Return a note about the documents, from which false pairs are made."""
    count = len(train.document_starts)
    if count == 1 and recipe.data.pairs:
        return (
            f"{recipe.data_name}: one document, since there are no blank lines: the second "
            "segments that do not follow the first are from elsewhere in it."
        )
    return f"{recipe.data_name}: {pluralise(count, 'training document')}."


def _with_sizes(recipe: BertRecipe, tokens: int) -> tuple[BertRecipe, list[Choice]]:
    """Choose the number of positions and of steps, where they are not set."""
    given = flatten(recipe, exclude_unset=True)
    length = recipe.data.sequence_length
    epoch = max(1, tokens // recipe.train.batch_tokens)
    possible = [Choice("model.max_length", length, "as long as a sequence")]
    if not recipe.data.pairs:
        possible += [
            Choice("model.pooler", False, "only next-sentence prediction trains it"),
            Choice("model.segments", 1, "sequences have one segment"),
        ]
    if recipe.train.minutes is None:
        steps = choose_steps(tokens, epoch)
        number = given.get("train.steps", steps.value)
        possible += [steps, warmup_choice(number), evaluation_choice(number)]
    else:
        possible.append(step_limit(tokens, epoch, recipe.train.minutes))
    choices = [choice for choice in possible if choice.path not in given]
    recipe = override_settings(recipe, {choice.path: choice.value for choice in choices})
    model = recipe.model
    assert isinstance(model, BertConfig)
    if length > model.max_length:
        raise ConfigError(
            f"got data.sequence_length={length} with model.max_length={model.max_length}; expected "
            "sequences that fit; try a larger model.max_length, or shorter sequences."
        )
    if not model.pretraining_heads:
        raise ConfigError(
            "got model.pretraining_heads=False; expected True for pretraining; try without it."
        )
    if recipe.data.pairs and not (model.pooler and model.segments > 1):
        raise ConfigError(
            f"got data.pairs with model.pooler={model.pooler} and "
            f"model.segments={model.segments}; expected a pooler and 2 segments, which "
            "next-sentence prediction needs; try data.pairs=false."
        )
    return recipe, choices
