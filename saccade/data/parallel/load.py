"""Parallel text as a recipe names it: where the pairs come from, how they are split and cut up."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.batching import EncodedPairs
from saccade.data.datasets import PAIR_DATASETS, DatasetInfo, fetch_dataset
from saccade.data.parallel.pairs import SentencePairs, excerpt, split_indices
from saccade.data.parallel.readers import read_lines, read_pairs
from saccade.data.string_array import IntArray
from saccade.data.synthetic.sequences import SYNTHETIC_PAIRS
from saccade.data.tokenizers import Tokenizer, normalise, tokenizer_from_json, train_tokenizer
from saccade.errors import ConfigError, DataError
from saccade.registry import lookup

MAX_HELD_OUT_PAIRS = 2500  # as many pairs as dev and test need at most
MAX_LISTED_ERRORS = 5
TOKENIZER_SAMPLE_SIZE = 1_000_000  # texts that a tokenizer learns from


class TokenizerConfig(Config):
    """How text is cut into tokens."""

    kind: Literal["character", "word", "whitespace", "bpe"] = "character"
    size: int | None = Field(None, ge=8)  # the most entries of the vocabulary
    shared: bool = False  # one vocabulary for both sides


class PairsConfig(Config):
    """Where pairs of sentences come from."""

    synthetic: str | None = None  # the name of a set that is made on the spot
    size: int | None = Field(None, ge=1)  # how many training pairs to make
    dataset: str | None = None  # the name of a set that others have published
    direction: str | None = None  # of a published set: en-de or de-en, say
    path: str | None = None  # a file, or two with a comma between
    dev: str | None = None  # files of their own; otherwise a share is held out
    test: str | None = None
    dev_share: float = Field(0.05, ge=0, lt=0.5)
    test_share: float = Field(0.05, ge=0, lt=0.5)
    whitespace: Literal["collapse", "keep"] = (
        "collapse"  # one: runs of white space are read as one space
    )
    tokenizer: TokenizerConfig = TokenizerConfig()
    max_length: int = Field(1000, ge=1)  # tokens of one side
    on_too_long: Literal["error", "skip"] = "error"
    max_new_tokens: int = Field(200, ge=1)  # tokens after which an answer is cut off


@dataclass(frozen=True)
class PairSplits:
    """The pairs of each split, and what a reader should know about them."""

    pairs: dict[str, SentencePairs]
    notes: list[str]


def load_pair_splits(config: PairsConfig, on_progress: Callable[[int, int], None]) -> PairSplits:
    """Read, fetch or make the pairs; `tell` hears how much of it is done, of how much."""
    sources = {name: getattr(config, name) for name in ("synthetic", "dataset", "path")}
    if sum(value is not None for value in sources.values()) != 1:
        raise ConfigError(
            "a recipe for pairs needs one of data.synthetic (a set that is always there), "
            "data.dataset (one that others have published) and data.path (a file); it has "
            f"{', '.join(f'{name}={value!r}' for name, value in sources.items())}."
        )
    if config.direction is not None and config.dataset is None:
        raise ConfigError(
            f"data.direction is {config.direction!r}, but only a published set knows its "
            "languages. For files, put the one to translate from first (a.en,a.de)."
        )
    if config.dataset is not None:
        dataset = lookup(PAIR_DATASETS, config.dataset, "published set")
        return _load_published(dataset, config, on_progress)
    if config.synthetic is not None:
        maker = lookup(SYNTHETIC_PAIRS, config.synthetic, "made data")
        synthetic = maker(on_progress=on_progress, **({"size": config.size} if config.size else {}))
        return PairSplits(
            {
                split: SentencePairs.from_strings(pairs, f"{synthetic.name} ({split})")
                for split, pairs in synthetic.pairs.items()
            },
            list(synthetic.notes),
        )
    assert config.path is not None
    pairs = read_pairs(config.path)
    return _split(pairs, config)


def _split(pairs: SentencePairs, config: PairsConfig) -> PairSplits:
    """Held-out files where they are given, else shares chosen by a hash of the source."""
    notes = list(pairs.notes)
    given = {name: read_pairs(path) for name in ("dev", "test") if (path := getattr(config, name))}
    shares = {
        name: 0.0
        if name in given
        else min(getattr(config, f"{name}_share"), MAX_HELD_OUT_PAIRS / len(pairs))
        for name in ("dev", "test")
    }
    rows = split_indices(pairs, shares["dev"], shares["test"])
    splits = {name: pairs.take(rows[name]) for name in ("train", "dev", "test")} | given
    for name in ("dev", "test"):
        if name not in given and shares[name]:
            notes.append(
                f"{len(splits[name])} pairs are held out for {name}, by a hash of the source."
            )
    if not len(splits["train"]):  # a handful may all fall on the held-out sides
        splits["train"] = pairs
        notes.append(
            f"{pairs.name} has only {len(pairs)} pairs, all of which would be held out; they are "
            "trained on all the same: its figures say little."
        )
    for name in ("dev", "test"):
        if not len(splits[name]):
            splits[name] = splits["train"] if name == "dev" else splits["dev"]
            notes.append(
                f"There is nothing to hold out for {name}, so it is the "
                f"{'training' if name == 'dev' else 'dev'} pairs: its figures say little."
            )
    return PairSplits(splits, notes)


# --- published sets -------------------------------------------------------------------------------


def _load_published(
    dataset: DatasetInfo, config: PairsConfig, on_progress: Callable[[int, int], None]
) -> PairSplits:
    """The splits of the publisher or, where there is one table only, our own."""
    wanted = config.direction or "-".join(dataset.languages)
    directions = {"-".join(order): order for order in (dataset.languages, dataset.languages[::-1])}
    source, target = lookup(directions, wanted, f"direction of {dataset.name}")
    paths, fetched = fetch_dataset(dataset, on_progress)
    if dataset.splits:
        pairs = {
            split: read_pairs([paths[f"{theirs}.{source}"], paths[f"{theirs}.{target}"]])
            for split, theirs in dataset.splits.items()
        }
        notes = [note for part in pairs.values() for note in part.notes]
        how = "as its publisher has split them"
    else:
        [path] = paths.values()
        pairs, left_out = _split_table(_read_table(str(path), dataset), config)
        how = (
            f"by a hash of the {dataset.languages[0]} side, case and punctuation aside; no "
            f"sentence of either side is in two of them, for which {left_out:,} held-out pairs "
            "were left out"
        )
        if source != dataset.languages[0]:
            pairs = {split: _turned(part) for split, part in pairs.items()}
        notes = []
    counts = ", ".join(f"{len(part):,} for {split}" for split, part in pairs.items())
    return PairSplits(pairs, [*fetched, *notes, f"{dataset.name}, {wanted}: {counts}, {how}."])


def _turned(pairs: SentencePairs) -> SentencePairs:
    """Each target as the source, and the other way round."""
    return replace(pairs, source=pairs.target, target=pairs.source)


def _read_table(path: str, dataset: DatasetInfo) -> SentencePairs:
    """The first two columns; where there is a third, it says who wrote them."""

    def rows() -> Iterator[tuple[str, str]]:
        for number, line in enumerate(read_lines(path), start=1):
            first, *others = line.split("\t")
            if len(others) not in (1, 2) or not first.strip() or not others[0].strip():
                wanted = " TAB ".join(dataset.languages)
                raise DataError(
                    f"{path}, line {number}: {excerpt(line)} is not {wanted}, with or without a "
                    f"third column. Get it again from {dataset.homepage}."
                )
            yield first, others[0]

    return SentencePairs.from_strings(rows(), path)


def _split_table(pairs: SentencePairs, config: PairsConfig) -> tuple[dict[str, SentencePairs], int]:
    """Splits that share no sentence of either side, the same for both directions.

    A hash of the first side alone says where a pair belongs (`split_of`), case, punctuation and
    spaces aside. Held-out pairs whose second side is also in a split before theirs (train, test,
    dev) are left out; how many, is returned.
    """
    first, second = (list(map(_gist, side)) for side in (pairs.sources(), pairs.targets()))
    shares = [
        min(share, MAX_HELD_OUT_PAIRS / len(pairs))
        for share in (config.dev_share, config.test_share)
    ]
    rows = split_indices(
        SentencePairs.from_strings(((gist, "") for gist in first), pairs.name), *shares
    )
    known = {second[row] for row in rows["train"].tolist()}
    left_out = 0
    for name in ("test", "dev"):
        kept = [row for row in rows[name].tolist() if second[row] not in known]
        left_out += len(rows[name]) - len(kept)
        known.update(second[row] for row in kept)
        rows[name] = np.array(kept, dtype=np.int64)
    _check_enough(pairs, rows)
    return {name: pairs.take(rows[name]) for name in ("train", "dev", "test")}, left_out


def _gist(text: str) -> str:
    """A sentence without case, punctuation and spaces that count; all of it if nothing is left."""
    return " ".join(re.findall(r"\w+", normalise(text).casefold())) or text


def _check_enough(pairs: SentencePairs, rows: dict[str, IntArray]) -> None:
    if empty := [name for name, chosen in rows.items() if not len(chosen)]:
        raise ConfigError(
            f"{pairs.name}: no pair falls on {' and '.join(empty)}; "
            "data.dev_share and data.test_share must leave some for each."
        )


# --- vocabularies ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenizerPair:
    """One for each side; the same one twice if the vocabulary is shared."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source is self.target

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        if self.shared:
            return {"shared": self.source.to_json()}
        return {"source": self.source.to_json(), "target": self.target.to_json()}

    @staticmethod
    def from_json(value: dict[str, Any]) -> "TokenizerPair":
        """What `to_json` gave."""
        if "shared" in value:
            both = tokenizer_from_json(value["shared"])
            return TokenizerPair(both, both)
        return TokenizerPair(
            tokenizer_from_json(value["source"]), tokenizer_from_json(value["target"])
        )


def train_tokenizers(
    config: TokenizerConfig, pairs: SentencePairs, whitespace: str = "keep"
) -> TokenizerPair:
    """Learn the vocabularies from the training pairs, from a million of them at most.

    A shared one is the same whichever side is the source. `spaces` is that of `PairsConfig`.
    """
    rows = np.unique(
        np.linspace(0, len(pairs) - 1, min(len(pairs), TOKENIZER_SAMPLE_SIZE)).astype(np.int64)
    )
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
    """The pairs with no side over the limit; longer ones are refused, or left out with a note."""
    max_length = np.maximum(encoded.source.lengths, encoded.target.lengths)
    over = np.flatnonzero(max_length > config.max_length)
    if not len(over):
        return encoded, []
    lines = ", ".join(str(encoded.lines[row]) for row in over[:MAX_LISTED_ERRORS].tolist())
    more = f" and {len(over) - MAX_LISTED_ERRORS} more" if len(over) > MAX_LISTED_ERRORS else ""
    found = (
        f"{encoded.name}: {len(over)} pair{'s have' if len(over) > 1 else ' has'} a side of more "
        f"than {config.max_length} tokens (line {lines}{more}; the longest has {max_length.max():,})"
    )
    if config.on_too_long == "error":
        raise DataError(
            f"{found}. Shorten them, raise the limit (--set data.max_length={max_length.max()}), "
            "or leave them out (--set data.on_too_long=skip)."
        )
    return encoded.take(np.flatnonzero(max_length <= config.max_length)), [f"{found}: left out."]
