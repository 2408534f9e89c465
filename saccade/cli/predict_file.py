r"""Files that are answered line by line: how they are read, how an answer is written on a line.

A file is read in groups of lines. A group is answered at once, sorted by length and put back in
order by whoever answers, and is forgotten before the next is read: memory is that of one group,
however long the file. Groups follow from the lines alone, so a file that is taken up at the end
of a group is answered as if it had not been left. On standard input a group ends where nothing
more has come yet.

A line in is a line out. What is no UTF-8 is read as "�" and said; what would break a line of the
answers is written as its escape.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from saccade.cli.console import stderr_console
from saccade.cli.resumable_output import ResumableOutput
from saccade.errors import DataError
from saccade.io.text_files import (
    READ_BLOCK_BYTES,
    STANDARD_INPUT,
    read_first_bytes,
    read_line_blocks,
)
from saccade.training.progress import show_progress

PREDICT_CHUNK_LINES = 2000  # lines that are answered before the next are read
PREDICT_CHUNK_CHARACTERS = 1 << 20  # of them, unless a line has more by itself
MAX_SHOWN_WARNINGS = 5  # warnings that are said one by one

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_PACKED = (b"\x1f\x8b", b"\xfd7zXZ\x00")
_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # as str.splitlines has them
_NOT_IN_JSON = re.compile("[\x85\u2028\u2029\ud800-\udfff]")  # that JSON lets stand

WarnFunction = Callable[[str], None]
TruncateFunction = Callable[[str], str]


def predict_file(
    path: str,
    answer: Callable[..., list[Any]],
    format_answer: Callable[[int, str, Any], str],
    truncate: TruncateFunction,
    output: ResumableOutput | None,
) -> None:
    """Answer each line of a file: into a file that can be gone on with, or on standard output.

    `answer` takes some texts, the number of the `first` and whom to `tell` of those that are
    done; `form` writes an answer down, with the end of its line; `shorten` cuts a text that is
    longer than can be answered.
    """
    console = stderr_console()
    warn, began = LimitedWarnings(console), time.monotonic()
    number = before = output.lines if output else 0
    total = count_lines(path) if console.is_terminal else None
    with show_progress(
        console, "answering", total=total, done=before, unit="sentences"
    ) as on_progress:
        for group in _groups_to_answer(path, output, warn):
            texts = _shortened(group, truncate, path, number + 1, warn)
            answers = answer(texts, first=number + 1, on_progress=on_progress)
            written = "".join(
                map(format_answer, range(number + 1, number + 1 + len(group)), group, answers)
            )
            if output is None:
                sys.stdout.write(written)
                sys.stdout.flush()
            else:
                output.add(group, written)
            number += len(group)
    warn.finish()
    if number:
        console.print(_summary(number - before, before, time.monotonic() - began))


def _groups_to_answer(
    path: str, output: ResumableOutput | None, warn: WarnFunction
) -> Iterator[list[str]]:
    if output is None and path == STANDARD_INPUT:
        yield from stream_chunks(path, warn)
        return
    lines = read_lines_lenient(path, warn)
    if output is not None:
        output.skip(lines, path)
    yield from chunk_lines(lines)


def _shortened(
    texts: list[str], truncate: TruncateFunction, path: str, first: int, warn: WarnFunction
) -> list[str]:
    cut = [truncate(text) for text in texts]
    for number, (whole, beginning) in enumerate(zip(texts, cut, strict=True), first):
        if len(beginning) < len(whole):
            warn(
                f"{path}, line {number:,} is longer than this model takes: only the first "
                f"{len(beginning):,} of its {len(whole):,} characters are answered."
            )
    return cut


def _summary(lines: int, before: int, seconds: float) -> str:
    more = f" ({before:,} were answered before)" if before else ""
    return (
        f"{lines:,} line{'' if lines == 1 else 's'} in {seconds:,.1f} s: "
        f"{lines / max(seconds, 1e-9):,.1f} sentences/s{more}"
    )


# --- reading ----------------------------------------------------------------------------------


def read_lines_lenient(path: str, warn: WarnFunction) -> Iterator[str]:
    """Each line of a text file, empty ones too, whatever bytes it has."""
    for lines in _blocks(path, warn):
        yield from lines


def chunk_lines(lines: Iterator[str]) -> Iterator[list[str]]:
    """Lines that are answered together, so many that memory is bounded."""
    group: list[str] = []
    letters = 0
    for line in lines:
        if group and (
            len(group) == PREDICT_CHUNK_LINES or letters + len(line) > PREDICT_CHUNK_CHARACTERS
        ):
            yield group
            group, letters = [], 0
        group.append(line)
        letters += len(line)
    if group:
        yield group


def stream_chunks(path: str, warn: WarnFunction) -> Iterator[list[str]]:
    """For a pipe or a person: what is there is answered before more is waited for."""
    for lines in _blocks(path, warn):
        yield from chunk_lines(lines)


def _blocks(path: str, warn: WarnFunction) -> Iterator[Iterator[str]]:
    number = 1
    for content in read_line_blocks(path):
        if number == 1:
            if content.startswith(_UTF16) and b"\x00" in content:
                raise DataError(
                    f"{path} is UTF-16 text; UTF-8 was wanted. Save it as UTF-8, "
                    f"for example: iconv -f utf-16 -t utf-8 {path} > new-file"
                )
            content = content.removeprefix(_BOM)
        lines = content[:-1].split(b"\n")
        yield (_decoded(line, path, at, warn) for at, line in enumerate(lines, number))
        number += len(lines)


def _decoded(line: bytes, path: str, number: int, warn: WarnFunction) -> str:
    line = line.removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        warn(
            f"{path}, line {number:,}: what is not UTF-8 ({line[error.start]:#04x}) is read as "
            f"�. If the file is Latin-1: iconv -f latin1 -t utf-8 {path} > new-file"
        )
        return line.decode("utf-8", "replace")


def count_lines(path: str) -> int | None:
    """How many there are, where that can be seen without unpacking."""
    if path == STANDARD_INPUT or not Path(path).is_file():
        return None
    if read_first_bytes(Path(path)).startswith(_PACKED):
        return None
    count, last = 0, b"\n"
    with Path(path).open("rb") as file:
        while content := file.read(READ_BLOCK_BYTES):
            count += content.count(b"\n")
            last = content[-1:]
    return count + (last != b"\n")


# --- writing ----------------------------------------------------------------------------------


def escape_line_breaks(text: str) -> str:
    r"""The text without a line break: of one that has any, each is escaped, and "\" doubled."""
    if not _BREAKS.search(text):
        return text
    doubled = text.replace("\\", "\\\\")
    return _BREAKS.sub(lambda found: found[0].encode("unicode_escape").decode(), doubled)


def json_line(value: Any) -> str:
    """A JSON value without a line break; a reader gets back every character."""
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# --- saying -----------------------------------------------------------------------------------


class LimitedWarnings:
    """The first few are said as they come; of the others, in the end, how many there were."""

    def __init__(self, console: Console):
        self.console, self.count = console, 0

    def __call__(self, message: str) -> None:
        """One more."""
        self.count += 1
        if self.count <= MAX_SHOWN_WARNINGS:
            self.console.print(message, soft_wrap=True)

    def finish(self) -> None:
        """Tell of those that were not said."""
        if self.count > MAX_SHOWN_WARNINGS:
            more = self.count - MAX_SHOWN_WARNINGS
            self.console.print(f"… and {more:,} line{'s' if more > 1 else ''} more like these.")
