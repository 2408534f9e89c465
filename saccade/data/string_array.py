"""Arrays of strings in one buffer of UTF-8 bytes with an array of offsets.

A Python string has an overhead of some 50 bytes, and 8 in the list that holds it; here a string
takes its UTF-8 bytes and 8 more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from saccade.types.arrays import ByteArray, IntArray

Array = TypeVar("Array", bound=NDArray[Any])
STRING_CHUNK = 1 << 16  # strings processed per step


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
