r"""Line-by-line prediction for files: how they are read and how predictions are written.

A file is read in chunks of lines. A chunk is predicted together (sorted by length and put back in
order by the predictor) and dropped before the next one is read, so memory is that of one chunk
however long the file. Chunks depend on the lines alone, so a file that is resumed at the end of a
chunk gives the same predictions as without the interruption. On standard input a chunk ends where
no more input is available yet.

One line in is one line out. Invalid UTF-8 is read as "�" with a warning; line breaks inside a
prediction are written as escapes.
"""

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
from saccade.types.progress import Progress

PREDICT_CHUNK_LINES = 2000
PREDICT_CHUNK_CHARACTERS = 1 << 20  # a longer line is a chunk of its own
MAX_PRINTED_WARNINGS = 5  # the rest are counted

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\x00")
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # as str.splitlines has them

PredictFunction = Callable[..., list[Any]]
WarnFunction = Callable[[str], None]
TruncateFunction = Callable[[str], str]


def predict_file(
    path: str,
    predict: PredictFunction,
    format_prediction: Callable[[int, str, Any], str],
    truncate: TruncateFunction,
    output: ResumableOutput | None,
) -> None:
    """Predict each line of a file, into a resumable file or to standard output.

    Args:
        path: a text file, compressed or not, or "-" for standard input.
        predict: takes texts, the number of the `first` one and an `on_progress` callback.
        format_prediction: returns the output lines of (number, source, prediction).
        truncate: shortens a text to what the model takes.
        output: where to write; None for standard output.
    """
    console = stderr_console()
    warn, start_time = LimitedWarnings(console), time.monotonic()
    number = done_before = output.lines if output else 0
    total = count_input_lines(path) if console.is_terminal else None
    with show_progress(console, "predicting", total=total, done=done_before, unit="lines") as bar:
        for chunk in _remaining_chunks(path, output, warn):
            texts = _truncate_long_lines(chunk, truncate, path, number + 1, warn)
            predictions = predict(
                texts, first=number + 1, on_progress=_in_file(bar.update, number, total)
            )
            numbers = range(number + 1, number + 1 + len(chunk))
            written = "".join(map(format_prediction, numbers, chunk, predictions))
            if output is None:
                sys.stdout.write(written)
                sys.stdout.flush()
            else:
                output.add(chunk, written)
            number += len(chunk)
    warn.finish()
    if number:
        console.print(_summary(number - done_before, done_before, time.monotonic() - start_time))


def _in_file(on_progress: Progress, before: int, lines: int | None) -> Progress:
    """Return a callback that reports the progress of a chunk as progress in the file."""
    return lambda what, done, total: on_progress(what, before + done, lines)


def _remaining_chunks(
    path: str, output: ResumableOutput | None, warn: WarnFunction
) -> Iterator[list[str]]:
    if output is None and path == STANDARD_INPUT:
        yield from stream_chunks(path, warn)
        return
    lines = read_lines_lenient(path, warn)
    if output is not None:
        output.skip(lines, path)
    yield from chunk_lines(lines)


def _truncate_long_lines(
    texts: list[str], truncate: TruncateFunction, path: str, first: int, warn: WarnFunction
) -> list[str]:
    truncated = [truncate(text) for text in texts]
    for number, (text, kept) in enumerate(zip(texts, truncated, strict=True), first):
        if len(kept) < len(text):
            warn(
                f"{path}, line {number:,} is longer than this model takes: truncated from "
                f"{len(text):,} to {len(kept):,} characters."
            )
    return truncated


def _summary(lines: int, done_before: int, seconds: float) -> str:
    more = f" ({done_before:,} were done before)" if done_before else ""
    return (
        f"{lines:,} line{'' if lines == 1 else 's'} in {seconds:,.1f} s: "
        f"{lines / max(seconds, 1e-9):,.1f} lines/s{more}"
    )


# --- reading ----------------------------------------------------------------------------------


def read_lines_lenient(path: str, warn: WarnFunction) -> Iterator[str]:
    """Yield each line of a text file, empty ones too; decode invalid UTF-8 with a warning."""
    for lines in _blocks(path, warn):
        yield from lines


def chunk_lines(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield chunks of lines, bounded in lines and in characters."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        if chunk and (
            len(chunk) == PREDICT_CHUNK_LINES or characters + len(line) > PREDICT_CHUNK_CHARACTERS
        ):
            yield chunk
            chunk, characters = [], 0
        chunk.append(line)
        characters += len(line)
    if chunk:
        yield chunk


def stream_chunks(path: str, warn: WarnFunction) -> Iterator[list[str]]:
    """Yield the lines that are available before waiting for more (pipes, terminals)."""
    for lines in _blocks(path, warn):
        yield from chunk_lines(lines)


def _blocks(path: str, warn: WarnFunction) -> Iterator[Iterator[str]]:
    number = 1
    for content in read_line_blocks(path):
        if number == 1:
            if content.startswith(_UTF16) and b"\x00" in content:
                raise DataError(
                    f"{path}: got UTF-16 text; expected UTF-8. Convert it, "
                    f"for example: iconv -f utf-16 -t utf-8 {path} > new-file"
                )
            content = content.removeprefix(_BOM)
        lines = content[:-1].split(b"\n")
        yield (
            _decode(line, path, line_number, warn) for line_number, line in enumerate(lines, number)
        )
        number += len(lines)


def _decode(line: bytes, path: str, number: int, warn: WarnFunction) -> str:
    line = line.removesuffix(b"\r")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        warn(
            f"{path}, line {number:,}: invalid UTF-8 ({line[error.start]:#04x}) is read as �. "
            f"If the file is Latin-1: iconv -f latin1 -t utf-8 {path} > new-file"
        )
        return line.decode("utf-8", "replace")


def count_input_lines(path: str) -> int | None:
    """Return the number of lines of an uncompressed file; None for others."""
    if path == STANDARD_INPUT or not Path(path).is_file():
        return None
    if read_first_bytes(Path(path)).startswith(_COMPRESSED):
        return None
    count, last = 0, b"\n"
    with Path(path).open("rb") as file:
        while content := file.read(READ_BLOCK_BYTES):
            count += content.count(b"\n")
            last = content[-1:]
    return count + (last != b"\n")


# --- writing ----------------------------------------------------------------------------------


def escape_line_breaks(text: str) -> str:
    r"""Escape line breaks; a text that has any also gets each "\" doubled."""
    if not _LINE_BREAKS.search(text):
        return text
    doubled = text.replace("\\", "\\\\")
    return _LINE_BREAKS.sub(lambda match: match[0].encode("unicode_escape").decode(), doubled)


# --- warnings -----------------------------------------------------------------------------------


class LimitedWarnings:
    """Print the first warnings as they come, and in the end the number of the others."""

    def __init__(self, console: Console):
        self.console, self.count = console, 0

    def __call__(self, message: str) -> None:
        """Print a warning, or only count it."""
        self.count += 1
        if self.count <= MAX_PRINTED_WARNINGS:
            self.console.print(message, soft_wrap=True)

    def finish(self) -> None:
        """Print how many warnings were not printed."""
        if self.count > MAX_PRINTED_WARNINGS:
            more = self.count - MAX_PRINTED_WARNINGS
            self.console.print(f"… and {more:,} line{'s' if more > 1 else ''} more like these.")
