"""Many texts without many Python objects: one buffer of UTF-8 bytes and an array of offsets.

A Python string costs some 50 bytes beside its letters and 8 for the list that holds it; here a
text costs its UTF-8 bytes and 8 more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Array = TypeVar("Array", bound=NDArray[Any])
STRING_CHUNK = 1 << 16  # how many texts are handled at once


@dataclass(frozen=True, eq=False)
class StringArray:
    """Many texts as one buffer of UTF-8: text i is buffer[offsets[i] : offsets[i + 1]]."""

    buffer: NDArray[np.uint8]
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def iter_bytes(self, indices: IntArray | None = None) -> Iterator[bytes]:
        """The texts, or those asked for, as bytes."""
        view = memoryview(self.buffer)  # type: ignore[arg-type]
        chosen = np.arange(len(self)) if indices is None else np.asarray(indices, dtype=np.int64)
        for at in range(0, len(chosen), STRING_CHUNK):
            some = chosen[at : at + STRING_CHUNK]
            starts, ends = self.offsets[some].tolist(), self.offsets[some + 1].tolist()
            for start, end in zip(starts, ends, strict=True):
                yield bytes(view[start:end])

    def take(self, indices: IntArray) -> "StringArray":
        """A column of the chosen texts, in the chosen order."""
        chosen = StringArrayBuilder()
        for at in range(0, len(indices), STRING_CHUNK):
            some = indices[at : at + STRING_CHUNK]
            chosen.add(self.buffer, self.offsets[some], self.offsets[some + 1])
        return chosen.build()

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self.buffer.nbytes + self.offsets.nbytes


class StringArrayBuilder:
    """A column while it grows."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._lengths: list[IntArray] = []

    def add(self, buffer: NDArray[np.uint8], starts: IntArray, ends: IntArray) -> None:
        """Append the texts buffer[start:end]."""
        lengths = ends - starts
        before = np.cumsum(lengths) - lengths
        places = np.repeat(starts - before, lengths)
        places += np.arange(len(places))
        self._buffer += memoryview(buffer[places])
        self._lengths.append(lengths)

    def add_texts(self, texts: list[bytes]) -> None:
        """Append texts that are already apart."""
        self._buffer += b"".join(texts)
        self._lengths.append(np.fromiter(map(len, texts), np.int64, len(texts)))

    def build(self) -> StringArray:
        """What was appended; the builder is not to be used after that."""
        offsets = np.zeros(sum(map(len, self._lengths)) + 1, dtype=np.int64)
        np.cumsum(np.concatenate([*self._lengths, offsets[:0]]), out=offsets[1:])
        buffer = np.frombuffer(self._buffer, dtype=np.uint8)
        return StringArray(make_readonly(buffer), make_readonly(offsets))


def make_readonly(array: Array) -> Array:
    """The array itself, from now on to be read only."""
    array.flags.writeable = False
    return array
