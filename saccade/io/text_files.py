r"""Readers of UTF-8 text files: plain, .gz or .xz, with a BOM or Windows line ends.

A file is read as a stream of blocks of whole lines. Lines end with "\n" only: U+2028, U+0085 and
form feeds are ordinary characters; a "\r" before the line end is dropped. Text that is not UTF-8 is
an error that gives the line.
"""

import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, NamedTuple, cast

from saccade.errors import DataError
from saccade.registry import did_you_mean

READ_BLOCK_BYTES = 1 << 22
STANDARD_INPUT = "-"

MAX_LISTED_ERRORS = 5  # lines that one error message lists; the others are counted

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\x00"


class LineBlock(NamedTuple):
    r"""Whole lines of a file, each with its "\n", and the number of the first (from 1)."""

    content: bytes
    first_line: int


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield each line of a text file, empty ones too; "-" is standard input, read as it arrives."""
    for block in read_blocks(path):
        for line in block.content[:-1].split(b"\n"):
            yield line.removesuffix(b"\r").decode()


def read_blocks(path: str | Path) -> Iterator[LineBlock]:
    """Yield the lines of a file in blocks of some megabytes, checked to be UTF-8."""
    offset, line = 0, 1
    for content in read_line_blocks(path):
        if offset == 0 and content.startswith(_BOM):
            content, offset = content.removeprefix(_BOM), len(_BOM)
        _check_utf8(path, content, line, offset)
        yield LineBlock(content, line)
        offset += len(content)
        line += content.count(b"\n")


def read_line_blocks(path: str | Path) -> Iterator[bytes]:
    """Yield blocks that end with a line end; one is added to a last line without."""
    pending: list[bytes] = []
    for content in _contents(path):
        cut = content.rfind(b"\n") + 1
        pending.append(content[:cut] if cut else content)
        if cut:
            yield b"".join(pending)
            pending = [content[cut:]]
    rest = b"".join(pending)
    if rest:
        yield rest + b"\n"


def _contents(path: str | Path) -> Iterator[bytes]:
    try:
        with _open(path) as file:
            # interactive input is processed as soon as there is a line
            read = getattr(file, "read1" if str(path) == STANDARD_INPUT else "read")
            while content := read(READ_BLOCK_BYTES):
                yield content
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} cannot be unpacked to its end ({error}): it is truncated or damaged. "
            "Copy or download it again."
        ) from None
    except OSError as error:
        raise DataError(f"{path} could not be read: {error.strerror or error}.") from None


def _open(path: str | Path) -> AbstractContextManager[IO[bytes]]:
    """Open a file by its first bytes, whatever its suffix."""
    if str(path) == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)  # must stay open
    path = Path(path)
    start = read_first_bytes(path)
    if start.startswith(_GZIP):
        return cast(IO[bytes], gzip.open(path))
    if start.startswith(_XZ):
        return lzma.open(path)
    if path.suffix in (".gz", ".xz") and start:
        raise DataError(
            f"{path}: got a file that is not {path.suffix}; expected the format of its suffix. "
            f"If it is plain text, rename it to {path.with_suffix('').name}; else compress it."
        )
    return path.open("rb")


def read_first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file; `DataError` if it is missing or is a folder."""
    if os.path.isdir(path):
        inside = sorted(entry.name for entry in path.iterdir())[:5]
        contents = f" It contains {', '.join(inside)}." if inside else " It is empty."
        raise DataError(f"{path}: got a folder; expected a file.{contents}")
    try:
        with path.open("rb") as file:
            start = file.read(len(_XZ))
    except FileNotFoundError:
        raise DataError(_missing(path)) from None
    except OSError as error:
        raise DataError(f"{path} could not be opened: {error.strerror or error}.") from None
    return start


def _missing(path: Path) -> str:
    if not os.path.isdir(path.parent):
        return f"There is no file {path}: there is no folder {path.parent}. Check the path."
    near = did_you_mean(path.name, [entry.name for entry in path.parent.iterdir()])
    return f"There is no file {path}.{near or ' Check the path.'}"


def _check_utf8(path: str | Path, content: bytes, line: int, offset: int) -> None:
    if line == 1 and content.startswith(_UTF16):
        raise DataError(
            f"{path}: got UTF-16 text; expected UTF-8; "
            f"try: iconv -f utf-16 -t utf-8 {path} > new-file"
        )
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}, line {line}: byte {offset + error.start} of the file "
            f"({content[error.start]:#04x}) is not UTF-8; expected UTF-8 text. If the file is "
            f"Latin-1, convert it with: iconv -f latin1 -t utf-8 {path} > new-file"
        ) from None
