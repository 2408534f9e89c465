"""Parallel text as a recipe names it: where the pairs come from, how they are split and cut up."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.batching import Encoded
from saccade.data.columns import Numbers
from saccade.data.pairs import Pairs, excerpt, split_indices
from saccade.data.sources import PAIRS, Published, obtain
from saccade.data.synthetic import SYNTHETIC
from saccade.data.text import read_lines, read_pairs
from saccade.data.tokenizers import Tokenizer, from_json, normalise, train
from saccade.errors import ConfigError, DataError
from saccade.lookup import pick

HELD_OUT = 2500  # as many pairs as dev and test need at most
SHOWN = 5
SAMPLE = 1_000_000  # texts that a tokenizer learns from


class TokenizerConfig(Config):
    """How text is cut into tokens."""

    kind: Literal["character", "word", "spaced", "bytepair"] = "character"
    size: int | None = Field(None, ge=8)  # the most entries of the vocabulary
    shared: bool = False  # one vocabulary for both sides


class PairsConfig(Config):
    """Where pairs of sentences come from."""

    made: str | None = None  # the name of a set that is made on the spot
    size: int | None = Field(None, ge=1)  # how many training pairs to make
    published: str | None = None  # the name of a set that others have published
    direction: str | None = None  # of a published set: en-de or de-en, say
    path: str | None = None  # a file, or two with a comma between
    dev: str | None = None  # files of their own; otherwise a share is held out
    test: str | None = None
    dev_share: float = Field(0.05, ge=0, lt=0.5)
    test_share: float = Field(0.05, ge=0, lt=0.5)
    spaces: Literal["one", "kept"] = "one"  # one: runs of white space are read as one space
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
    """Read, fetch or make the pairs; `tell` hears how much of it is done, of how much."""
    sources = {name: getattr(config, name) for name in ("made", "published", "path")}
    if sum(value is not None for value in sources.values()) != 1:
        raise ConfigError(
            "a recipe for pairs needs one of data.made (a set that is always there), "
            "data.published (one that others have published) and data.path (a file); it has "
            f"{', '.join(f'{name}={value!r}' for name, value in sources.items())}."
        )
    if config.direction is not None and config.published is None:
        raise ConfigError(
            f"data.direction is {config.direction!r}, but only a published set knows its "
            "languages. For files, put the one to translate from first (a.en,a.de)."
        )
    if config.published is not None:
        published = pick(PAIRS, config.published, "published set")
        return _load_published(published, config, tell)
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


# --- published sets -------------------------------------------------------------------------------


def _load_published(
    published: Published, config: PairsConfig, tell: Callable[[int, int], None]
) -> Splits:
    """The splits of the publisher or, where there is one table only, our own."""
    wanted = config.direction or "-".join(published.languages)
    directions = {
        "-".join(order): order for order in (published.languages, published.languages[::-1])
    }
    source, target = pick(directions, wanted, f"direction of {published.name}")
    paths, fetched = obtain(published, tell)
    if published.splits:
        pairs = {
            split: read_pairs([paths[f"{theirs}.{source}"], paths[f"{theirs}.{target}"]])
            for split, theirs in published.splits.items()
        }
        notes = [note for part in pairs.values() for note in part.notes]
        how = "as its publisher has split them"
    else:
        [path] = paths.values()
        pairs, left_out = _split_table(_read_table(str(path), published), config)
        how = (
            f"by a hash of the {published.languages[0]} side, case and punctuation aside; no "
            f"sentence of either side is in two of them, for which {left_out:,} held-out pairs "
            "were left out"
        )
        if source != published.languages[0]:
            pairs = {split: _turned(part) for split, part in pairs.items()}
        notes = []
    counts = ", ".join(f"{len(part):,} for {split}" for split, part in pairs.items())
    return Splits(pairs, [*fetched, *notes, f"{published.name}, {wanted}: {counts}, {how}."])


def _turned(pairs: Pairs) -> Pairs:
    """Each target as the source, and the other way round."""
    return replace(pairs, source=pairs.target, target=pairs.source)


def _read_table(path: str, published: Published) -> Pairs:
    """The first two columns; where there is a third, it says who wrote them."""

    def rows() -> Iterator[tuple[str, str]]:
        for number, line in enumerate(read_lines(path), start=1):
            first, *others = line.split("\t")
            if len(others) not in (1, 2) or not first.strip() or not others[0].strip():
                wanted = " TAB ".join(published.languages)
                raise DataError(
                    f"{path}, line {number}: {excerpt(line)} is not {wanted}, with or without a "
                    f"third column. Get it again from {published.page}."
                )
            yield first, others[0]

    return Pairs.of(rows(), path)


def _split_table(pairs: Pairs, config: PairsConfig) -> tuple[dict[str, Pairs], int]:
    """Splits that share no sentence of either side, the same for both directions.

    A hash of the first side alone says where a pair belongs (`split_of`), case, punctuation and
    spaces aside. Held-out pairs whose second side is also in a split before theirs (train, test,
    dev) are left out; how many, is returned.
    """
    first, second = (list(map(_gist, side)) for side in (pairs.sources(), pairs.targets()))
    shares = [min(share, HELD_OUT / len(pairs)) for share in (config.dev_share, config.test_share)]
    rows = split_indices(Pairs.of(((gist, "") for gist in first), pairs.name), *shares)
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


def _check_enough(pairs: Pairs, rows: dict[str, Numbers]) -> None:
    if empty := [name for name, chosen in rows.items() if not len(chosen)]:
        raise ConfigError(
            f"{pairs.name}: no pair falls on {' and '.join(empty)}; "
            "data.dev_share and data.test_share must leave some for each."
        )


# --- vocabularies ---------------------------------------------------------------------------------


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


def learn_tokenizers(config: TokenizerConfig, pairs: Pairs, spaces: str = "kept") -> Tokenizers:
    """Learn the vocabularies from the training pairs, from a million of them at most.

    A shared one is the same whichever side is the source. `spaces` is that of `PairsConfig`.
    """
    rows = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), SAMPLE)).astype(np.int64))
    one_space = spaces == "one"
    if config.shared:

        def both() -> Iterator[str]:
            yield from pairs.sources(rows)
            yield from pairs.targets(rows)

        tokenizer = train(config.kind, both(), config.size, one_space)
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(
        train(config.kind, pairs.sources(rows), config.size, one_space),
        train(config.kind, pairs.targets(rows), config.size, one_space),
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
