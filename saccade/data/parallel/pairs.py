"""Sentence pairs in columns, and their assignment to splits by a hash of the source.

A pair takes its UTF-8 bytes and 20 more: two offsets of 8 and a line number of 4. As Python
strings it would have an overhead of some 130 bytes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from saccade.data.splits import SPLIT_NAMES, check_shares, hash_texts, split_by_hash
from saccade.data.tokenizers import normalise
from saccade.errors import DataError
from saccade.types.arrays import ByteArray, IntArray

Array = TypeVar("Array", bound=NDArray[Any])
STRING_CHUNK = 1 << 16  # strings processed per step


# --- strings --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StringArray:
    """Strings in one buffer of UTF-8: string i is buffer[offsets[i] : offsets[i + 1]]."""

    buffer: ByteArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def iter_bytes(self, indices: IntArray | None = None) -> Iterator[bytes]:
        """Yield the strings, or those at the indices, as bytes."""
        view = memoryview(self.buffer)  # type: ignore[arg-type]
        chosen = np.arange(len(self)) if indices is None else np.asarray(indices, dtype=np.int64)
        for at in range(0, len(chosen), STRING_CHUNK):
            chunk = chosen[at : at + STRING_CHUNK]
            starts, ends = self.offsets[chunk].tolist(), self.offsets[chunk + 1].tolist()
            for start, end in zip(starts, ends, strict=True):
                yield bytes(view[start:end])

    def take(self, indices: IntArray) -> "StringArray":
        """Return the strings at the indices, in that order."""
        chosen = StringArrayBuilder()
        for at in range(0, len(indices), STRING_CHUNK):
            chunk = indices[at : at + STRING_CHUNK]
            chosen.add(self.buffer, self.offsets[chunk], self.offsets[chunk + 1])
        return chosen.build()

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.buffer.nbytes + self.offsets.nbytes


class StringArrayBuilder:
    """Builder of a `StringArray`."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._lengths: list[IntArray] = []

    def add(self, buffer: ByteArray, starts: IntArray, ends: IntArray) -> None:
        """Append the strings buffer[start:end]."""
        lengths = ends - starts
        before = np.cumsum(lengths) - lengths
        positions = np.repeat(starts - before, lengths)
        positions += np.arange(len(positions))
        self._buffer += memoryview(buffer[positions])
        self._lengths.append(lengths)

    def add_texts(self, texts: list[bytes]) -> None:
        """Append strings given as bytes."""
        self._buffer += b"".join(texts)
        self._lengths.append(np.fromiter(map(len, texts), np.int64, len(texts)))

    def build(self) -> StringArray:
        """Return what was appended; the builder must not be used afterwards."""
        offsets = np.zeros(sum(map(len, self._lengths)) + 1, dtype=np.int64)
        np.cumsum(np.concatenate([*self._lengths, offsets[:0]]), out=offsets[1:])
        buffer = np.frombuffer(self._buffer, dtype=np.uint8)
        return StringArray(make_readonly(buffer), make_readonly(offsets))


def make_readonly(array: Array) -> Array:
    """Make an array read-only, and return it."""
    array.flags.writeable = False
    return array


# --- pairs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SentencePairs:
    """Sources and targets in columns, with the line of each pair in the file. Immutable."""

    name: str
    source: StringArray
    target: StringArray
    lines: NDArray[np.integer[Any]]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_strings(cls, pairs: Iterable[tuple[str, str]], name: str) -> "SentencePairs":
        """Return pairs of Python strings in columns; the n-th pair has line n."""
        sides = StringArrayBuilder(), StringArrayBuilder()
        pending: tuple[list[bytes], list[bytes]] = [], []
        for number, pair in enumerate(pairs, start=1):
            for texts, text in zip(pending, pair, strict=True):
                texts.append(encode_text(text, f"{name}, pair {number}"))
            if number % STRING_CHUNK == 0:
                _flush(pending, sides)
        _flush(pending, sides)
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
        """Return the line of a pair in its file, counted from 1."""
        return int(self.lines[index])

    def sources(self, indices: IntArray | None = None) -> Iterator[str]:
        """Yield the sources, or those at the indices."""
        return map(bytes.decode, self.source.iter_bytes(indices))

    def targets(self, indices: IntArray | None = None) -> Iterator[str]:
        """Yield the targets, or those at the indices."""
        return map(bytes.decode, self.target.iter_bytes(indices))

    def take(self, indices: IntArray) -> "SentencePairs":
        """Return a copy of the pairs at the indices, in that order."""
        source, target = self.source.take(indices), self.target.take(indices)
        return SentencePairs(
            self.name, source, target, make_readonly(self.lines[indices]), self.notes
        )

    @property
    def bytes_per_pair(self) -> float:
        """Average memory of a pair in bytes: its text, two offsets and a line number."""
        total = self.source.nbytes + self.target.nbytes + self.lines.nbytes
        return total / max(1, len(self))


def encode_text(text: str, where: str) -> bytes:
    """Return a text in UTF-8; `DataError` with its position if it has half a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: got a lone surrogate ({ord(text[error.start]):04x}) at character "
            f"{error.start + 1} of {excerpt(text)}; expected valid Unicode."
        ) from None


def _flush(
    pending: tuple[list[bytes], list[bytes]], sides: tuple[StringArrayBuilder, StringArrayBuilder]
) -> None:
    for texts, side in zip(pending, sides, strict=True):
        side.add_texts(texts)
        texts.clear()


def excerpt(text: str | bytes) -> str:
    """Return at most 60 characters of a text, with control characters escaped."""
    start = text[:240].decode("utf-8", "ignore") if isinstance(text, bytes) else text
    return repr(start if len(start) <= 58 else start[:57] + "…")


# --- splits ---------------------------------------------------------------------------------------


def assign_split(source: str, dev: float, test: float) -> str:
    """Return the split of a source: "train", "dev" or "test".

    A hash of the source alone (NFC) gives a number between 0 and 1: below `test` it is test, in the
    last `dev` it is dev. So the same source is always in the same split, in any file and order, and
    raising one share takes from train only.
    """
    return SPLIT_NAMES[int(assign_splits([normalise(source).encode()], dev, test)[0])]


def split_indices(pairs: SentencePairs, dev: float, test: float) -> dict[str, IntArray]:
    """Return the pairs of each split, in the order of the file; see `assign_split`."""
    sides = assign_splits(pairs.source.iter_bytes(), dev, test)
    return {name: np.flatnonzero(sides == side) for side, name in enumerate(SPLIT_NAMES)}


def assign_splits(sources: Iterable[bytes], dev: float, test: float) -> NDArray[np.int8]:
    """Return the split of each source, as an index into SPLIT_NAMES; see `assign_split`."""
    check_shares(dev, test)
    return split_by_hash(hash_texts(sources), dev, test)
