"""Parallel text as a recipe names it: where the pairs come from, how they are split and cut up."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.batching import Encoded
from saccade.data.pairs import Pairs, split_indices
from saccade.data.synthetic import SYNTHETIC
from saccade.data.text import read_pairs
from saccade.data.tokenizers import Tokenizer, from_json, train
from saccade.errors import ConfigError, DataError
from saccade.lookup import pick

HELD_OUT = 2500  # as many pairs as dev and test need at most
SHOWN = 5
SAMPLE = 1_000_000  # texts that a tokenizer learns from


class TokenizerConfig(Config):
    """How text is cut into tokens."""

    kind: Literal["character", "word", "bytepair"] = "character"
    size: int | None = Field(None, ge=8)  # the most entries of the vocabulary
    shared: bool = False  # one vocabulary for both sides


class PairsConfig(Config):
    """Where pairs of sentences come from."""

    made: str | None = None  # the name of a set that is made on the spot
    size: int | None = Field(None, ge=1)  # how many training pairs to make
    path: str | None = None  # a file, or two with a comma between
    dev: str | None = None  # files of their own; otherwise a share is held out
    test: str | None = None
    dev_share: float = Field(0.05, ge=0, lt=0.5)
    test_share: float = Field(0.05, ge=0, lt=0.5)
    tokenizer: TokenizerConfig = TokenizerConfig()
    longest: int = Field(1000, ge=1)  # tokens of one side
    too_long: Literal["refuse", "skip"] = "refuse"
    longest_answer: int = Field(200, ge=1)  # tokens after which an answer is cut off


@dataclass(frozen=True)
class Splits:
    """The pairs of each split, and what a reader should know about them."""

    pairs: dict[str, Pairs]
    notes: list[str]


def load_splits(config: PairsConfig, tell: Callable[[int, int], None]) -> Splits:
    """Read or make the pairs; `tell` hears how many are made, of how many."""
    if (config.made is None) == (config.path is None):
        raise ConfigError(
            "a recipe for pairs needs data.made (a set that is always there) or data.path "
            f"(a file), and not both; it has made={config.made!r} and path={config.path!r}."
        )
    if config.made is not None:
        maker = pick(SYNTHETIC, config.made, "made data")
        made = maker(progress=tell, **({"size": config.size} if config.size else {}))
        return Splits(
            {
                split: Pairs.of(pairs, f"{made.name} ({split})")
                for split, pairs in made.pairs.items()
            },
            list(made.notes),
        )
    assert config.path is not None
    pairs = read_pairs(config.path)
    return _split(pairs, config)


def _split(pairs: Pairs, config: PairsConfig) -> Splits:
    """Held-out files where they are given, else shares chosen by a hash of the source."""
    notes = list(pairs.notes)
    given = {name: read_pairs(path) for name in ("dev", "test") if (path := getattr(config, name))}
    shares = {
        name: 0.0 if name in given else min(getattr(config, f"{name}_share"), HELD_OUT / len(pairs))
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
    return Splits(splits, notes)


@dataclass(frozen=True)
class Tokenizers:
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
    def from_json(value: dict[str, Any]) -> "Tokenizers":
        """What `to_json` gave."""
        if "shared" in value:
            both = from_json(value["shared"])
            return Tokenizers(both, both)
        return Tokenizers(from_json(value["source"]), from_json(value["target"]))


def learn_tokenizers(config: TokenizerConfig, pairs: Pairs) -> Tokenizers:
    """Learn the vocabularies from the training pairs, from a million of them at most."""
    rows = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), SAMPLE)).astype(np.int64))
    if config.shared:

        def both() -> Iterator[str]:
            yield from pairs.sources(rows)
            yield from pairs.targets(rows)

        tokenizer = train(config.kind, both(), config.size)
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(
        train(config.kind, pairs.sources(rows), config.size),
        train(config.kind, pairs.targets(rows), config.size),
    )


def within(encoded: Encoded, config: PairsConfig) -> tuple[Encoded, list[str]]:
    """The pairs with no side over the limit; longer ones are refused, or left out with a note."""
    longest = np.maximum(encoded.source.lengths, encoded.target.lengths)
    over = np.flatnonzero(longest > config.longest)
    if not len(over):
        return encoded, []
    lines = ", ".join(str(encoded.lines[row]) for row in over[:SHOWN].tolist())
    more = f" and {len(over) - SHOWN} more" if len(over) > SHOWN else ""
    found = (
        f"{encoded.name}: {len(over)} pair{'s have' if len(over) > 1 else ' has'} a side of more "
        f"than {config.longest} tokens (line {lines}{more}; the longest has {longest.max():,})"
    )
    if config.too_long == "refuse":
        raise DataError(
            f"{found}. Shorten them, raise the limit (--set data.longest={longest.max()}), "
            "or leave them out (--set data.too_long=skip)."
        )
    return encoded.take(np.flatnonzero(longest <= config.longest)), [f"{found}: left out."]
