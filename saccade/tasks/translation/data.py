"""Sentence pairs, read, split, tokenized and encoded for training."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.data.batching import EncodedPairs, encode_pairs
from saccade.data.parallel.load import (
    TokenizerPair,
    drop_too_long,
    load_pair_splits,
    train_tokenizers,
)
from saccade.data.parallel.pairs import SentencePairs
from saccade.data.parallel.readers import read_pairs
from saccade.data.vocabulary import unknown_token_note
from saccade.errors import DataError
from saccade.tasks.base import PrepareContext, PreparedData, fingerprint_arrays
from saccade.tasks.translation.auto_config import auto_configure, choose_model, pair_stats
from saccade.tasks.translation.config import TranslationRecipe
from saccade.types.progress import ProgressCounter


class PairSplit(NamedTuple):
    """Sentence pairs as texts, and as token ids."""

    pairs: SentencePairs
    encoded: EncodedPairs


PreparedPairs = PreparedData[TranslationRecipe, TokenizerPair, PairSplit]


def prepare_pairs(
    recipe: TranslationRecipe, context: PrepareContext[TokenizerPair]
) -> PreparedPairs:
    """Read the data, choose the settings left open, train the tokenizers, encode.

    The tokenizers of another run are kept if the context has them.
    """
    loaded = load_pair_splits(
        recipe.data, lambda done, total: context.on_progress("reading the data", done, total)
    )
    stats = pair_stats(loaded.pairs["train"])
    if context.auto_model:
        recipe = recipe.with_values(model={"name": choose_model(stats)})
    recipe, choices = auto_configure(recipe, stats)
    tokenizers = context.preprocessor
    if tokenizers is None:
        context.on_progress("training the tokenizer", 0, None)
        tokenizers = train_tokenizers(
            recipe.data.tokenizer, loaded.pairs["train"], recipe.data.whitespace
        )
    notes = list(loaded.notes)
    total = 2 * sum(map(len, loaded.pairs.values()))
    counter = ProgressCounter(context.on_progress, "encoding", total)
    splits = {}
    for name, pairs in loaded.pairs.items():
        encoded = encode_pairs(pairs, tokenizers.source, tokenizers.target, counter.advance)
        splits[name], dropped = _without_too_long(pairs, encoded, recipe)
        notes += dropped
    train = splits["train"].encoded
    if context.preprocessor is not None:
        notes += unknown_token_note(train.name, train.source.ids, train.target.ids)
    recipe = _with_sizes(recipe, tokenizers, int(train.target.lengths.max()))
    arrays = [a for side in (train.source, train.target) for a in (side.ids, side.offsets)]
    return PreparedData(
        recipe, tokenizers, splits, lambda: fingerprint_arrays(*arrays), choices, notes
    )


def _with_sizes(
    recipe: TranslationRecipe, tokenizers: TokenizerPair, longest_target: int
) -> TranslationRecipe:
    """Set vocabulary sizes and, unless it is set, the length limit of a translation."""
    data = recipe.data.model_dump(exclude_unset=True)
    data.setdefault("max_new_tokens", 10 + int(1.2 * longest_target))
    model = recipe.model.model_dump(exclude_unset=True) | {
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
    }
    if "shared_vocab" in type(recipe.model).model_fields:
        model["shared_vocab"] = tokenizers.shared
    return recipe.with_values(data=data, model=model)


def load_pair_split(
    recipe: TranslationRecipe, tokenizers: TokenizerPair, path: str | Path
) -> PairSplit:
    """Read and encode a file of pairs."""
    return make_pair_split(recipe, tokenizers, read_pairs(path))


def make_pair_split(
    recipe: TranslationRecipe, tokenizers: TokenizerPair, pairs: SentencePairs
) -> PairSplit:
    """Encode pairs."""
    encoded = encode_pairs(pairs, tokenizers.source, tokenizers.target, lambda count: None)
    return _without_too_long(pairs, encoded, recipe)[0]


def _without_too_long(
    pairs: SentencePairs, encoded: EncodedPairs, recipe: TranslationRecipe
) -> tuple[PairSplit, list[str]]:
    """Drop the pairs above `data.max_length`; return the rest and notes for the user."""
    kept, notes = drop_too_long(encoded, recipe.data)
    if not len(kept):
        raise DataError(
            f"{pairs.name}: got {len(pairs)} pairs with more than {recipe.data.max_length} tokens "
            "on a side; expected shorter ones; try a larger data.max_length."
        )
    if len(kept) < len(pairs):
        pairs = pairs.take(np.flatnonzero(np.isin(pairs.lines, kept.lines)))
    return PairSplit(pairs, kept), notes
