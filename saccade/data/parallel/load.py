"""Loading, splitting and tokenizing of sentence pairs by the settings of a recipe."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.batching import EncodedPairs
from saccade.data.datasets import PAIR_DATASETS, DatasetInfo, fetch_dataset
from saccade.data.parallel.pairs import SentencePairs, excerpt, split_indices
from saccade.data.parallel.readers import read_pairs
from saccade.data.samplers import evenly_spaced_rows
from saccade.data.source import (
    DatasetSource,
    DatasetSourceConfig,
    SyntheticSource,
    resolve_source,
)
from saccade.data.splits import SPLIT_NAMES
from saccade.data.synthetic.sequences import SYNTHETIC_PAIRS
from saccade.data.tokenizers import Tokenizer, normalise, tokenizer_from_json, train_tokenizer
from saccade.errors import ConfigError, DataError
from saccade.io.text_files import MAX_LISTED_ERRORS, read_lines
from saccade.registry import lookup
from saccade.types.arrays import IntArray
from saccade.types.progress import ProgressCallback

MAX_HELD_OUT_PAIRS = 2500  # in each of dev and test
TOKENIZER_SAMPLE_SIZE = 1_000_000  # pairs that a tokenizer is fitted to


class TokenizerConfig(Config):
    """Settings of a tokenizer."""

    kind: Literal["character", "word", "whitespace", "bpe"] = "character"
    size: int | None = Field(None, ge=8)  # maximum size of the vocabulary
    shared: bool = False  # one vocabulary for both sides


class PairsConfig(DatasetSourceConfig):
    """Source, splits and tokenization of sentence pairs; `path` may be two files: a.en,a.de."""

    size: int | None = Field(None, ge=1)  # number of synthetic training pairs
    direction: str | None = None  # of a published dataset, for example en-de or de-en
    dev: str | None = None  # a separate file; None: a share is held out
    test: str | None = None
    dev_share: float = Field(0.05, ge=0, lt=0.5)
    test_share: float = Field(0.05, ge=0, lt=0.5)
    whitespace: Literal["collapse", "keep"] = "collapse"  # runs of white space to one space
    tokenizer: TokenizerConfig = TokenizerConfig()
    max_length: int = Field(1000, ge=1)  # tokens of one side
    on_too_long: Literal["error", "skip"] = "error"
    max_new_tokens: int = Field(200, ge=1)  # tokens after which generation stops


@dataclass(frozen=True)
class PairSplits:
    """The pairs of each split, and notes for the user."""

    pairs: dict[str, SentencePairs]
    notes: list[str]


def load_pair_splits(config: PairsConfig, on_progress: ProgressCallback) -> PairSplits:
    """Read, download or generate the pairs of each split."""
    source = resolve_source(config, SYNTHETIC_PAIRS, PAIR_DATASETS, "set of sentence pairs")
    if config.direction is not None and config.dataset is None:
        raise ConfigError(
            f"got data.direction={config.direction!r} without data.dataset; only a published "
            "dataset has named languages. For files, put the source file first (a.en,a.de)."
        )
    if isinstance(source, DatasetSource):
        return _load_published(source.dataset, config, on_progress)
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
    return _split(read_pairs(source.path), config)


def _split(pairs: SentencePairs, config: PairsConfig) -> PairSplits:
    """Use the held-out files that are given; otherwise hold out shares by a hash of the source."""
    notes = list(pairs.notes)
    given = {name: read_pairs(path) for name in ("dev", "test") if (path := getattr(config, name))}
    shares = {
        name: 0.0
        if name in given
        else min(getattr(config, f"{name}_share"), MAX_HELD_OUT_PAIRS / len(pairs))
        for name in ("dev", "test")
    }
    rows = split_indices(pairs, shares["dev"], shares["test"])
    splits = {name: pairs.take(rows[name]) for name in SPLIT_NAMES} | given
    for name in ("dev", "test"):
        if name not in given and shares[name]:
            notes.append(
                f"{len(splits[name])} pairs are held out for {name}, by a hash of the source."
            )
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


# --- published datasets ---------------------------------------------------------------------------


def _load_published(
    dataset: DatasetInfo, config: PairsConfig, on_progress: ProgressCallback
) -> PairSplits:
    """Return the publisher's splits or, for a dataset of one table, splits by hash."""
    direction = config.direction or "-".join(dataset.languages)
    directions = {"-".join(order): order for order in (dataset.languages, dataset.languages[::-1])}
    source, target = lookup(directions, direction, f"direction of {dataset.name}")
    paths, fetched = fetch_dataset(dataset, on_progress)
    if dataset.splits:
        pairs = {
            split: read_pairs([paths[f"{published}.{source}"], paths[f"{published}.{target}"]])
            for split, published in dataset.splits.items()
        }
        notes = [note for part in pairs.values() for note in part.notes]
        how = "split by the publisher"
    else:
        [path] = paths.values()
        pairs, left_out = _split_table(_read_table(str(path), dataset), config)
        how = (
            f"split by a hash of the {dataset.languages[0]} side without case and punctuation; "
            f"{left_out:,} held-out pairs with a sentence of another split were left out"
        )
        if source != dataset.languages[0]:
            pairs = {split: _reverse_direction(part) for split, part in pairs.items()}
        notes = []
    counts = ", ".join(f"{len(part):,} for {split}" for split, part in pairs.items())
    return PairSplits(pairs, [*fetched, *notes, f"{dataset.name}, {direction}: {counts}, {how}."])


def _reverse_direction(pairs: SentencePairs) -> SentencePairs:
    """Swap source and target."""
    return replace(pairs, source=pairs.target, target=pairs.source)


def _read_table(path: str, dataset: DatasetInfo) -> SentencePairs:
    """Read the first two columns; a third one (attribution) is ignored."""

    def rows() -> Iterator[tuple[str, str]]:
        for number, line in enumerate(read_lines(path), start=1):
            first, *others = line.split("\t")
            if len(others) not in (1, 2) or not first.strip() or not others[0].strip():
                raise DataError(
                    f"{path}, line {number}: got {excerpt(line)}; expected "
                    f"{' TAB '.join(dataset.languages)}, with or without a third column; try to "
                    f"download it again from {dataset.homepage}."
                )
            yield first, others[0]

    return SentencePairs.from_strings(rows(), path)


def _split_table(pairs: SentencePairs, config: PairsConfig) -> tuple[dict[str, SentencePairs], int]:
    """Return splits that share no sentence of either side, and the number of pairs left out.

    The split of a pair is a hash of its first side without case, punctuation and spaces
    (`assign_split`), the same for both directions. Held-out pairs whose second side is also in an
    earlier split (train, test, dev) are left out.
    """
    first, second = (
        list(map(_comparison_key, side)) for side in (pairs.sources(), pairs.targets())
    )
    shares = [
        min(share, MAX_HELD_OUT_PAIRS / len(pairs))
        for share in (config.dev_share, config.test_share)
    ]
    rows = split_indices(
        SentencePairs.from_strings(((key, "") for key in first), pairs.name), *shares
    )
    known = {second[row] for row in rows["train"].tolist()}
    left_out = 0
    for name in ("test", "dev"):
        kept = [row for row in rows[name].tolist() if second[row] not in known]
        left_out += len(rows[name]) - len(kept)
        known.update(second[row] for row in kept)
        rows[name] = np.array(kept, dtype=np.int64)
    _check_not_empty(pairs, rows)
    return {name: pairs.take(rows[name]) for name in SPLIT_NAMES}, left_out


def _comparison_key(text: str) -> str:
    """Return a sentence without case and punctuation; the sentence itself if nothing is left."""
    return " ".join(re.findall(r"\w+", normalise(text).casefold())) or text


def _check_not_empty(pairs: SentencePairs, rows: dict[str, IntArray]) -> None:
    if empty := [name for name, chosen in rows.items() if not len(chosen)]:
        raise ConfigError(
            f"{pairs.name}: got no pair for {' and '.join(empty)}; expected at least one in each "
            "split; try other values of data.dev_share and data.test_share."
        )


# --- tokenizers -----------------------------------------------------------------------------------


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
    """Drop the pairs with a side too_long the limit with a note, or raise a `DataError`."""
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
