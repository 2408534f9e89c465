"""Sentence pairs, read, split, tokenized and encoded for training."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from saccade.data.batching import EncodedPairs, encode_pairs
from saccade.data.datasets import PAIR_DATASETS
from saccade.data.parallel.config import PairsConfig, TokenizerConfig
from saccade.data.parallel.pairs import SentencePairs
from saccade.data.parallel.published import MAX_HELD_OUT_PAIRS, PairSplits, load_published_pairs
from saccade.data.parallel.readers import ParallelTexts, open_pairs
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.source import DatasetSource, PathSource, SyntheticSource, resolve_source
from saccade.data.special_tokens import unknown_token_note
from saccade.data.split_keys import (
    describe_division,
    dev_without_test,
    divide_rows,
    read_split_cells,
    refuse_division,
)
from saccade.data.splits import SPLIT_NAMES, hash_texts
from saccade.data.synthetic.registry import SYNTHETIC_PAIRS
from saccade.data.tokenizers import Tokenizer, tokenizer_from_json, train_tokenizer
from saccade.errors import ConfigError, DataError
from saccade.io.text_files import MAX_LISTED_ERRORS
from saccade.tasks.base import (
    PrepareContext,
    PreparedData,
    fingerprint_arrays,
    role_choices,
)
from saccade.tasks.translation.auto_config import auto_configure, choose_model, pair_stats
from saccade.tasks.translation.config import TranslationRecipe
from saccade.types.progress import ProgressCallback, ProgressCounter

TOKENIZER_SAMPLE_SIZE = 1_000_000  # pairs that a tokenizer is fitted to


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of source and target; the same object twice if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """True if both sides have one vocabulary."""
        return self.source is self.target

    def to_json(self) -> dict[str, Any]:
        """Return plain values for tokenizer.json."""
        if self.shared:
            return {"shared": self.source.to_json()}
        return {"source": self.source.to_json(), "target": self.target.to_json()}

    @staticmethod
    def from_json(value: dict[str, Any]) -> "TokenizerPair":
        """Return the tokenizers that `to_json` described."""
        if "shared" in value:
            both = tokenizer_from_json(value["shared"])
            return TokenizerPair(both, both)
        return TokenizerPair(
            tokenizer_from_json(value["source"]), tokenizer_from_json(value["target"])
        )


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
    recipe = recipe.with_values(data=recipe.data.model_dump(exclude_unset=True) | loaded.columns)
    stats = pair_stats(loaded.pairs["train"])
    if context.auto_model:
        given = recipe.model.model_dump(exclude_unset=True)
        recipe = recipe.with_values(model={**given, "name": choose_model(stats)})
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
        recipe,
        tokenizers,
        splits,
        lambda: fingerprint_arrays(*arrays),
        role_choices(loaded.choices) + choices,
        notes,
    )


def vocabulary_sizes(tokenizers: TokenizerPair) -> dict[str, int]:
    """Return the settings of a translator that follow from its tokenizers."""
    return {
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
    }


def _with_sizes(
    recipe: TranslationRecipe, tokenizers: TokenizerPair, longest_target: int
) -> TranslationRecipe:
    """Set vocabulary sizes and, unless it is set, the length limit of a translation."""
    data = recipe.data.model_dump(exclude_unset=True)
    data.setdefault("max_new_tokens", 10 + int(1.2 * longest_target))
    model = recipe.model.model_dump(exclude_unset=True) | vocabulary_sizes(tokenizers)
    if "shared_vocab" in type(recipe.model).model_fields:
        model["shared_vocab"] = tokenizers.shared
    return recipe.with_values(data=data, model=model)


def load_pair_split(
    recipe: TranslationRecipe, tokenizers: TokenizerPair, data: str | Path | object
) -> PairSplit:
    """Read and encode pairs."""
    pairs = open_pairs(data, recipe.data, is_other=True).read(None)
    return make_pair_split(recipe, tokenizers, pairs)


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


# --- splits ---------------------------------------------------------------------------------------


def load_pair_splits(config: PairsConfig, on_progress: ProgressCallback) -> PairSplits:
    """Read, download or generate the pairs of each split."""
    source = resolve_source(config, SYNTHETIC_PAIRS, PAIR_DATASETS, "set of sentence pairs")
    if config.direction is not None and config.dataset is None:
        raise ConfigError(
            f"got data.direction={config.direction!r} without data.dataset; only a published "
            "dataset has named languages. For files, put the source file first (a.en,a.de)."
        )
    if not isinstance(source, PathSource):
        refuse_division(config, source.name)
    if isinstance(source, DatasetSource):
        return load_published_pairs(source.dataset, config, on_progress)
    if isinstance(source, SyntheticSource):
        size = {"size": config.size} if config.size else {}
        synthetic = source.generate(on_progress=on_progress, **size)
        return PairSplits(
            {
                split: SentencePairs.from_strings(pairs, f"{synthetic.name} ({split})")
                for split, pairs in synthetic.pairs.items()
            },
            list(synthetic.notes),
        )
    opened = open_pairs(source.path, config)
    config = config.with_values(**opened.columns)
    splits = _split(opened, config)
    return replace(
        splits,
        notes=[*opened.notes, *splits.notes],
        columns=opened.columns,
        choices=opened.choices,
    )


def _split(opened: ParallelTexts, config: PairsConfig) -> PairSplits:
    """Divide the pairs by the settings, by default by a hash of the source."""
    pairs = opened.read(None)
    given = {
        name: open_pairs(path, config, is_other=True).read(None)
        for name in SPLIT_NAMES[1:]
        if (path := getattr(config, name))
    }
    hashes = {name: hash_texts(part.source.iter_bytes()) for name, part in given.items()}
    kept = dev_without_test(hashes)
    if kept.rows is not None:
        given["dev"] = given["dev"].take(kept.rows)
    division = divide_rows(
        config,
        hash_texts(pairs.source.iter_bytes()),
        read_split_cells(opened.records, config, pairs.lines.astype(np.int64)),
        given=hashes,
        max_held_out=MAX_HELD_OUT_PAIRS / len(pairs),
    )
    splits = {name: pairs.take(rows) for name, rows in division.rows().items()} | given
    count = f"{pairs.name}: {len(pairs):,} pairs, {len(splits['train']):,} of them for training."
    notes = [*pairs.notes, *division.notes, *kept.notes, count]
    by_hash = "" if describe_division(config) else ", by a hash of the source"
    for name in SPLIT_NAMES[1:]:
        if name not in given and (len(splits[name]) or getattr(config, f"{name}_share")):
            notes.append(f"{len(splits[name])} pairs are held out for {name}{by_hash}.")
    if not len(splits["train"]):  # a handful of pairs may all belong to the held-out splits
        splits["train"] = pairs
        notes.append(
            f"{pairs.name} has only {len(pairs)} pairs, all of which would be held out; they are "
            "used for training, too: its scores are not meaningful."
        )
    for name in ("dev", "test"):
        if not len(splits[name]):
            substitute = "train" if name == "dev" else "dev"
            splits[name] = splits[substitute]
            notes.append(
                f"No pairs are held out for {name}; those of {substitute} are used: its scores are "
                "not meaningful."
            )
    return PairSplits(splits, notes)


# --- tokenizers and lengths -----------------------------------------------------------------------


def train_tokenizers(
    config: TokenizerConfig, pairs: SentencePairs, whitespace: str = "keep"
) -> TokenizerPair:
    """Fit the tokenizers to the training pairs, to a million of them at most.

    A shared one is the same in both directions. `whitespace` is the setting of `PairsConfig`.
    """
    rows = evenly_spaced_rows(len(pairs), TOKENIZER_SAMPLE_SIZE)
    collapse_spaces = whitespace == "collapse"
    if config.shared:

        def both() -> Iterator[str]:
            yield from pairs.sources(rows)
            yield from pairs.targets(rows)

        tokenizer = train_tokenizer(config.kind, both(), config.size, collapse_spaces)
        return TokenizerPair(tokenizer, tokenizer)
    return TokenizerPair(
        train_tokenizer(config.kind, pairs.sources(rows), config.size, collapse_spaces),
        train_tokenizer(config.kind, pairs.targets(rows), config.size, collapse_spaces),
    )


def drop_too_long(encoded: EncodedPairs, config: PairsConfig) -> tuple[EncodedPairs, list[str]]:
    """Drop the pairs with a side above the limit, with a note, or raise a `DataError`."""
    lengths = np.maximum(encoded.source.lengths, encoded.target.lengths)
    too_long = np.flatnonzero(lengths > config.max_length)
    if not len(too_long):
        return encoded, []
    lines = ", ".join(str(encoded.lines[row]) for row in too_long[:MAX_LISTED_ERRORS].tolist())
    more = (
        f" and {len(too_long) - MAX_LISTED_ERRORS} more"
        if len(too_long) > MAX_LISTED_ERRORS
        else ""
    )
    found = (
        f"{encoded.name}: got {len(too_long)} pair{'s' if len(too_long) > 1 else ''} with a side "
        f"of more than {config.max_length} tokens (line {lines}{more}; the longest has "
        f"{lengths.max():,})"
    )
    if config.on_too_long == "error":
        raise DataError(
            f"{found}; shorten them, raise the limit (--set data.max_length={lengths.max()}), "
            "or leave them out (--set data.on_too_long=skip)."
        )
    return encoded.take(np.flatnonzero(lengths <= config.max_length)), [f"{found}: left out."]
