"""Sources of bytes: files, members of archives and standard input, decompressed when opened.

An open source has `read(size)`, which returns at most `size` bytes and none at the end. A live
source (standard input) returns what has arrived.
"""

import atexit
import os
import sys
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit

from saccade.errors import DataError
from saccade.io.compression import BZIP2, GZIP, XZ, ZSTANDARD, decompress
from saccade.io.file_kinds import check_regular_file, is_opened_pipe
from saccade.io.spool import Spool
from saccade.registry import nearest_name

STANDARD_INPUT = "-"
STANDARD_INPUT_NAME = "standard input"  # in messages
MAX_SUGGESTED_FILES = 5  # files of a folder, in a message
LIVE_READ_BYTES = 1 << 16
COPY_BYTES = 1 << 20
FIRST_BYTES = 16  # that recognise a compression
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


@dataclass(frozen=True)
class ByteSource:
    """Bytes that can be read from their start."""

    name: str  # as the user gave it, for messages
    open: Callable[[], IO[bytes]]
    path: Path | None = None  # of an uncompressed file, for formats that need random access
    is_live: bool = False  # standard input

    @property
    def suffix(self) -> str:
        """Suffix of the file's name in lower case, without that of a compression."""
        return plain_suffix(self.name)

    def first_bytes(self, count: int) -> bytes:
        """Return the first bytes, or all if there are fewer; of a live source what has arrived."""
        with self.open() as file:
            content = file.read(count)
            while not self.is_live and len(content) < count and (more := file.read(count)):
                content += more
        return content[:count]


def plain_suffix(name: str) -> str:
    """Return the suffix of a path, an address or a member in lower case: ".csv" of "a.CSV.gz"."""
    location = urlsplit(name).path if "://" in name and "#" not in name else name
    path = Path(location.rpartition("#")[2])
    if path.suffix.lower() in COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.lower()


AnySource = str | Path | ByteSource


def byte_source(source: AnySource) -> ByteSource:
    """Return the source of a path; "-" is standard input, which is read only once."""
    if isinstance(source, ByteSource):
        return source
    if str(source) == STANDARD_INPUT:
        return ByteSource(
            STANDARD_INPUT_NAME, lambda: _decompressed_live(_Live(sys.stdin.buffer)), is_live=True
        )
    return file_source(Path(source))


def file_source(path: Path, name: str | None = None) -> ByteSource:
    """Return the source of a file; `DataError` if it is missing or is a folder."""
    start = read_first_bytes(path)
    label = str(path) if name is None else name
    return ByteSource(
        label,
        lambda: unpacked(_open_file(path), read_first_bytes(path), label),
        None if is_compressed(start) or is_opened_pipe(path) else path,
    )


def spooled_standard_input() -> ByteSource:
    """Return a source of standard input that is kept, so that it can be read again.

    What is read goes to a temporary file; a later reader takes it from there, then continues with
    standard input.
    """
    live, spool = _Live(sys.stdin.buffer), Spool()
    return ByteSource(
        STANDARD_INPUT_NAME, lambda: _decompressed_live(_Replay(live, spool)), is_live=True
    )


def read_first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file; `DataError` if it is missing or is a folder."""
    with _open_file(path) as file:
        return file.read(FIRST_BYTES)


def _open_file(path: Path) -> IO[bytes]:
    if os.path.isdir(path):
        inside = sorted(entry.name for entry in path.iterdir())[:5]
        contents = f" It contains {', '.join(inside)}." if inside else " It is empty."
        raise DataError(f"{path}: got a folder; expected a file.{contents}")
    if is_opened_pipe(path):
        return cast(IO[bytes], _Replay(*_opened_pipe(str(path), os.stat(path).st_ino)))
    check_regular_file(path)
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except OSError as error:
        raise DataError(f"{path} could not be opened: {error.strerror or error}.") from None


def is_compressed(start: bytes) -> bool:
    """Return True if these are the first bytes of a compressed stream."""
    is_bzip2 = start.startswith(BZIP2) and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90")
    return is_bzip2 or start.startswith((GZIP, XZ, ZSTANDARD))


def unpacked(file: IO[bytes], start: bytes, name: str) -> IO[bytes]:
    """Return the stream of a file at its start, decompressed if its first bytes are compressed."""
    if is_compressed(start):
        return decompress(file, start, name)
    suffix = Path(name).suffix
    if suffix in COMPRESSED_SUFFIXES and start:
        file.close()
        raise DataError(
            f"{name}: got a file that is not {suffix}; expected the format of its suffix. "
            f"If it is plain text, rename it to {Path(name).with_suffix('').name}; else "
            "compress it."
        )
    return file


def missing_file(path: Path) -> str:
    """Return the message for a file that is not there, with the nearest name."""
    if not os.path.isdir(path.parent):
        return f"There is no file {path}: there is no folder {path.parent}. Check the path."
    # by the stem: a common suffix makes any two names similar
    names = {entry.stem: entry.name for entry in path.parent.iterdir()}
    near = nearest_name(path.stem, names)
    if near is not None:
        return f"There is no file {path}. Did you mean {names[near]!r}?"
    files = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    more = ", …" if len(files) > MAX_SUGGESTED_FILES else ""
    listed = ", ".join(files[:MAX_SUGGESTED_FILES]) or "no files"
    return f"There is no file {path}. Check the path; the folder has: {listed}{more}."


# --- copies ---------------------------------------------------------------------------------------


def local_file(source: ByteSource) -> Path:
    """Return the path of an uncompressed file with the bytes of a source, for random access.

    Other sources than plain files are copied to a temporary file, which is removed when the
    process ends.
    """
    if source.path is not None:
        return source.path
    folder = _temporary_folder()
    with tempfile.NamedTemporaryFile(dir=folder, suffix=source.suffix, delete=False) as copy:
        with source.open() as file:
            while content := file.read(COPY_BYTES):
                copy.write(content)
    return Path(copy.name)


@cache
def _temporary_folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="saccade-")
    atexit.register(folder.cleanup)
    return folder.name


# --- standard input -------------------------------------------------------------------------------


class _Live:
    """A stream that stays open and whose reads return what has arrived."""

    def __init__(self, file: Any):
        self.file, self.pending = file, b""

    def peek(self) -> bytes:
        """Return the next bytes, without taking them."""
        self.pending = self.pending or self.file.read1(LIVE_READ_BYTES)
        return self.pending

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; none at the end."""
        if self.pending:
            taken = self.pending if size < 0 else self.pending[:size]
            self.pending = self.pending[len(taken) :]
            return taken
        return self.file.read1(size)

    def close(self) -> None:
        """Leave the stream open: others may read it."""

    def __enter__(self) -> "_Live":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Replay(_Live):
    """A reader of a live stream from its start: the bytes that are kept, then those to come."""

    def __init__(self, live: _Live, spool: Spool):
        super().__init__(self)
        self.live, self.spool, self.position = live, spool, 0

    def read1(self, size: int = -1) -> bytes:
        """Return bytes that are kept, or the next of the live stream."""
        if self.position < self.spool.size:
            content = self.spool.read_at(self.position, size)
        else:
            content = self.live.read(size)
            self.spool.append(content)
        self.position += len(content)
        return content


@cache
def _opened_pipe(path: str, inode: int) -> tuple[_Live, Spool]:
    """Return a pipe that a shell opened, and its bytes so far: each reader starts with them.

    The inode distinguishes two pipes that have had the same descriptor.
    """
    spool = Spool()
    file = open(path, "rb")  # noqa: SIM115  other readers continue with it
    weakref.finalize(spool, file.close)
    return _Live(file), spool


def _decompressed_live(live: _Live) -> IO[bytes]:
    return unpacked(cast(IO[bytes], live), live.peek()[:FIRST_BYTES], STANDARD_INPUT_NAME)
