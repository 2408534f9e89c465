"""Bytes of a stream that are kept, so that they can be read again: in memory, then on the disk."""

import tempfile
import weakref

SPOOL_MEMORY_BYTES = 1 << 24  # of a stream that are kept in memory; with more all go to the disk


class Spool:
    """A temporary file that grows at its end and is removed with the object."""

    def __init__(self) -> None:
        file = tempfile.SpooledTemporaryFile(SPOOL_MEMORY_BYTES)
        weakref.finalize(self, file.close)
        self.file, self.size = file, 0

    def append(self, content: bytes) -> None:
        """Add bytes at the end."""
        self.file.seek(self.size)
        self.file.write(content)
        self.size += len(content)

    def read_at(self, position: int, size: int = -1) -> bytes:
        """Return at most `size` bytes from a position."""
        self.file.seek(position)
        return self.file.read(size)
