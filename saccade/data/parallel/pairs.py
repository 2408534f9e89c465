"""Pairs of a source and a target, held in columns, and the side of a split each falls on.

A pair costs its UTF-8 bytes and 20 more: two offsets of 8 and a line number of 4. As Python
strings it would cost some 130 beside its letters.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.string_array import (
    STRING_CHUNK,
    IntArray,
    StringArray,
    StringArrayBuilder,
    make_readonly,
)
from saccade.data.tokenizers import normalise
from saccade.errors import ConfigError, DataError

SPLIT_NAMES = ("train", "dev", "test")


@dataclass(frozen=True, eq=False)
class SentencePairs:
    """Sources and targets in columns, each with its line in the file; never changed once made."""

    name: str
    source: StringArray
    target: StringArray
    lines: NDArray[np.integer[Any]]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_strings(cls, pairs: Iterable[tuple[str, str]], name: str) -> "SentencePairs":
        """Columns made of Python strings; the n-th pair has line n."""
        sides = StringArrayBuilder(), StringArrayBuilder()
        waiting: tuple[list[bytes], list[bytes]] = [], []
        for number, pair in enumerate(pairs, start=1):
            for texts, text in zip(waiting, pair, strict=True):
                texts.append(_encoded(text, f"{name}, pair {number}"))
            if number % STRING_CHUNK == 0:
                _move(waiting, sides)
        _move(waiting, sides)
        source, target = (side.build() for side in sides)
        return cls(
            name, source, target, make_readonly(np.arange(1, len(source) + 1, dtype=np.int32))
        )

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[str, str]:
        at = np.array([range(len(self))[index]])
        return next(self.sources(at)), next(self.targets(at))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.sources(), self.targets(), strict=True)

    def line(self, index: int) -> int:
        """The pair's line in its file, counted from 1."""
        return int(self.lines[index])

    def sources(self, indices: IntArray | None = None) -> Iterator[str]:
        """The sources, or those asked for."""
        return map(bytes.decode, self.source.iter_bytes(indices))

    def targets(self, indices: IntArray | None = None) -> Iterator[str]:
        """The targets, or those asked for."""
        return map(bytes.decode, self.target.iter_bytes(indices))

    def take(self, indices: IntArray) -> "SentencePairs":
        """The chosen pairs, in the chosen order, in columns of their own."""
        source, target = self.source.take(indices), self.target.take(indices)
        return SentencePairs(
            self.name, source, target, make_readonly(self.lines[indices]), self.notes
        )

    @property
    def bytes_per_pair(self) -> float:
        """What a pair takes in memory: its letters, two offsets and a line number."""
        total = self.source.nbytes + self.target.nbytes + self.lines.nbytes
        return total / max(1, len(self))


def _encoded(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: {excerpt(text)} has half a character at place {error.start + 1} "
            f"(the surrogate {ord(text[error.start]):04x}); write the whole one."
        ) from None


def _move(
    waiting: tuple[list[bytes], list[bytes]], sides: tuple[StringArrayBuilder, StringArrayBuilder]
) -> None:
    for texts, side in zip(waiting, sides, strict=True):
        side.add_texts(texts)
        texts.clear()


def excerpt(text: str | bytes) -> str:
    """At most 60 characters of a text, with tabs and the like to be seen."""
    start = text[:240].decode("utf-8", "ignore") if isinstance(text, bytes) else text
    return repr(start if len(start) <= 58 else start[:57] + "…")


def assign_split(source: str, dev: float, test: float) -> str:
    """On which side a source falls: "train", "dev" or "test", for good.

    A hash of the source alone (NFC) gives a place between 0 and 1: below `test` is test, the
    last `dev` is dev. So the same source is always on the same side, in any file and order, and
    growing one share takes from train only.
    """
    return SPLIT_NAMES[int(assign_splits([normalise(source).encode()], dev, test)[0])]


def split_indices(pairs: SentencePairs, dev: float, test: float) -> dict[str, IntArray]:
    """Which pairs are on which side, in the order of the file; see `split_of`."""
    sides = assign_splits(pairs.source.iter_bytes(), dev, test)
    return {name: np.flatnonzero(sides == side) for side, name in enumerate(SPLIT_NAMES)}


def assign_splits(sources: Iterable[bytes], dev: float, test: float) -> NDArray[np.int8]:
    """The side of each source, by its number in SPLITS; see `split_of`."""
    if not (0 <= dev <= 1 and 0 <= test <= 1 and dev + test <= 1):
        raise ConfigError(
            f"The shares for dev ({dev}) and test ({test}) must lie between 0 and 1 and leave "
            "something for training; 0.05 each is usual."
        )
    digests = b"".join(map(_digest, sources))
    places = np.frombuffer(digests, dtype=">u8") / 2.0**64
    return np.where(places < test, 2, np.where(places >= 1 - dev, 1, 0)).astype(np.int8)


def _digest(source: bytes) -> bytes:
    if not source.isascii():  # ASCII is in normal form as it is
        source = normalise(source.decode()).encode()
    return blake2b(source, digest_size=8).digest()
