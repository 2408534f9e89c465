r"""Text files as they come: plain, .gz or .xz, with a BOM or Windows line ends.

A file is read as a stream of blocks of whole lines. Lines end with "\n" and with nothing else:
U+2028, U+0085 and form feeds are letters like any other; a "\r" before the end is dropped. The
text must be UTF-8; what is not gets a message with its line.
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

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\x00"


class LineBlock(NamedTuple):
    r"""Some whole lines of a file, each with its "\n", and the number of the first (from 1)."""

    content: bytes
    first_line: int


def read_lines(path: str | Path) -> Iterator[str]:
    """Each line of a text file, empty ones too; "-" is standard input, read as it comes."""
    for block in read_blocks(path):
        for line in block.content[:-1].split(b"\n"):
            yield line.removesuffix(b"\r").decode()


def read_blocks(path: str | Path) -> Iterator[LineBlock]:
    """The lines of a file in blocks of some megabytes, checked to be UTF-8."""
    offset, line = 0, 1
    for content in read_line_blocks(path):
        if offset == 0 and content.startswith(_BOM):
            content, offset = content.removeprefix(_BOM), len(_BOM)
        _check_utf8(path, content, line, offset)
        yield LineBlock(content, line)
        offset += len(content)
        line += content.count(b"\n")


def read_line_blocks(path: str | Path) -> Iterator[bytes]:
    """Blocks that end with a line's end; a last line that has none is given one."""
    begun: list[bytes] = []
    for content in _contents(path):
        cut = content.rfind(b"\n") + 1
        begun.append(content[:cut] if cut else content)
        if cut:
            yield b"".join(begun)
            begun = [content[cut:]]
    rest = b"".join(begun)
    if rest:
        yield rest + b"\n"


def _contents(path: str | Path) -> Iterator[bytes]:
    try:
        with _open(path) as file:
            # a person at the keyboard is answered as soon as there is a line
            read = getattr(file, "read1" if str(path) == STANDARD_INPUT else "read")
            while content := read(READ_BLOCK_BYTES):
                yield content
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path} cannot be unpacked to its end ({error}): it is cut short or damaged. "
            "Copy or download it again."
        ) from None
    except OSError as error:
        raise DataError(f"{path} could not be read: {error.strerror or error}.") from None


def _open(path: str | Path) -> AbstractContextManager[IO[bytes]]:
    """Open by what the file holds, not by what it is called."""
    if str(path) == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)  # not ours to close
    path = Path(path)
    start = read_first_bytes(path)
    if start.startswith(_GZIP):
        return cast(IO[bytes], gzip.open(path))
    if start.startswith(_XZ):
        return lzma.open(path)
    if path.suffix in (".gz", ".xz") and start:
        raise DataError(
            f"{path} is called {path.suffix} but is not packed that way. "
            f"If it is plain text, call it {path.with_suffix('').name}; else pack it again."
        )
    return path.open("rb")


def read_first_bytes(path: Path) -> bytes:
    """The beginning of a file that must be there and be a file."""
    if os.path.isdir(path):
        inside = sorted(entry.name for entry in path.iterdir())[:5]
        holds = f" It holds {', '.join(inside)}." if inside else " It is empty."
        raise DataError(f"{path} is a folder; a file was wanted.{holds}")
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
            f"{path} is UTF-16 text; UTF-8 was wanted. Save it as UTF-8, "
            f"for example: iconv -f utf-16 -t utf-8 {path} > new-file"
        )
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}, line {line}: byte {offset + error.start} of the file "
            f"({content[error.start]:#04x}) is not UTF-8; UTF-8 text was wanted. If the file is "
            f"Latin-1, turn it round with: iconv -f latin1 -t utf-8 {path} > new-file"
        ) from None
