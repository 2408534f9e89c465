r"""Line-by-line prediction for files: how they are read and how predictions are written.

A file is read in chunks of lines. A chunk is predicted together (sorted by length and put back in
order by the predictor) and dropped before the next one is read, so memory is that of one chunk
however long the file. Chunks depend on the lines alone, so a file that is resumed at the end of a
chunk gives the same predictions as without the interruption. On standard input a chunk ends where
no more input is available yet.

One line in is one line out. Invalid UTF-8 is read as "�" with a warning; line breaks inside a
prediction are written as escapes.
"""

import csv
import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console

from saccade.cli.console import json_line, stderr_console
from saccade.cli.predict_input import FileInput, InputRow, WarnFunction
from saccade.cli.resumable_output import ResumableOutput
from saccade.errors import DataError
from saccade.io.byte_source import is_compressed
from saccade.io.encodings import UTF8, detect_encoding, named_encoding
from saccade.io.text_files import (
    READ_BLOCK_BYTES,
    STANDARD_INPUT,
    read_first_bytes,
    read_line_blocks,
    read_text_blocks,
)
from saccade.training.progress import show_progress
from saccade.types.progress import Progress

PREDICT_CHUNK_LINES = 2000
PREDICT_CHUNK_CHARACTERS = 1 << 20  # a longer line is a chunk of its own
EMPTY_CHUNK_LINES = 100_000  # of a chunk of empty lines, whose one prediction is repeated
MAX_PRINTED_WARNINGS = 5  # the rest are counted

_BOM = b"\xef\xbb\xbf"
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # as str.splitlines has them

PredictFunction = Callable[..., list[Any]]
FormatFunction = Callable[[int, InputRow, Any], str]
TruncateFunction = Callable[[str], str]


def predict_file(
    path: str,
    inputs: FileInput,
    predict: PredictFunction,
    format_prediction: FormatFunction,
    truncate: TruncateFunction,
    output: ResumableOutput | None,
    *,
    is_sampled: bool = False,
) -> None:
    """Predict each input of a file, into a resumable file or to standard output.

    Args:
        path: a file, compressed or not, or "-" for standard input.
        inputs: its inputs.
        predict: takes inputs, the number of the `first` one and an `on_progress` callback.
        format_prediction: returns the output lines of (number, input, prediction).
        truncate: shortens a text to what the model takes.
        output: where to write; None for standard output.
        is_sampled: equal inputs may have different predictions.
    """
    console = stderr_console()
    for note in inputs.notes:
        console.print(note, soft_wrap=True)
    warn, start_time = LimitedWarnings(console), time.monotonic()
    number = done_before = output.lines if output else 0
    first_line = "" if inputs.first_line is None else f"{inputs.first_line}\n"
    total = count_input_lines(path) if console.is_terminal and not inputs.columns else None
    with show_progress(console, "predicting", total=total, done=done_before, unit="lines") as bar:
        for chunk in _remaining_chunks(path, inputs, output, warn):
            values = _truncate_long_lines(chunk, truncate, path, number + 1, warn)
            is_repeated = not is_sampled and not any(values)  # empty lines
            predictions = predict(
                values[:1] if is_repeated else values,
                first=number + 1,
                on_progress=_in_file(bar.update, number, total),
            )
            if is_repeated:
                predictions *= len(values)
                bar.update("predicting", number + len(values), total)
            numbers = range(number + 1, number + 1 + len(chunk))
            for at, found in zip(numbers, predictions, strict=True):
                problems = () if found.error is None else (found.error,)
                for note in (*(found.notes or ()), *problems):
                    warn(f"{path}, input {at:,}: {note}.")
            written = "".join(map(format_prediction, numbers, chunk, predictions))
            written = written if number else first_line + written
            if output is None:
                sys.stdout.write(written)
                sys.stdout.flush()
            else:
                output.add([row.text for row in chunk], written)
            number += len(chunk)
    warn.finish()
    if number:
        console.print(_summary(number - done_before, done_before, time.monotonic() - start_time))


def _in_file(on_progress: Progress, before: int, lines: int | None) -> Progress:
    """Return a callback that reports the progress of a chunk as progress in the file."""
    return lambda what, done, total: on_progress(what, before + done, lines)


def _remaining_chunks(
    path: str, inputs: FileInput, output: ResumableOutput | None, warn: WarnFunction
) -> Iterator[list[InputRow]]:
    if output is None and path == STANDARD_INPUT:
        # what is available is predicted before waiting for more (pipes, terminals)
        for rows in inputs.blocks(warn):
            yield from chunk_rows(rows)
        return
    rows = chain.from_iterable(inputs.blocks(warn))
    if output is not None:
        output.skip((row.text for row in rows), path)
    yield from chunk_rows(rows)


def _truncate_long_lines(
    rows: list[InputRow], truncate: TruncateFunction, path: str, first: int, warn: WarnFunction
) -> list[Any]:
    values: list[Any] = []
    for number, row in enumerate(rows, first):
        if not row.value:
            values.append(row.value)
            continue
        kept = truncate(row.value) if isinstance(row.value, str) else row.value
        if len(kept) < len(row.value):
            warn(
                f"{path}, line {number:,} is longer than this model takes: truncated from "
                f"{len(row.value):,} to {len(kept):,} characters."
            )
        values.append(kept)
    return values


def _summary(lines: int, done_before: int, seconds: float) -> str:
    more = f" ({done_before:,} were done before)" if done_before else ""
    return (
        f"{lines:,} line{'' if lines == 1 else 's'} in {seconds:,.1f} s: "
        f"{lines / max(seconds, 1e-9):,.1f} lines/s{more}"
    )


# --- reading ----------------------------------------------------------------------------------


def read_lines_lenient(path: str, warn: WarnFunction) -> Iterator[str]:
    """Yield each line of a text file, empty ones too; decode invalid UTF-8 with a warning."""
    return chain.from_iterable(read_input_blocks(path, warn))


def chunk_rows(rows: Iterator[InputRow]) -> Iterator[list[InputRow]]:
    """Yield chunks of inputs, bounded in number and in characters; more of empty ones together."""
    chunk: list[InputRow] = []
    characters, is_empty = 0, True
    for row in rows:
        if chunk and (
            len(chunk) >= (EMPTY_CHUNK_LINES if is_empty and not row.value else PREDICT_CHUNK_LINES)
            or characters + len(row.text) > PREDICT_CHUNK_CHARACTERS
        ):
            yield chunk
            chunk, characters, is_empty = [], 0, True
        chunk.append(row)
        if row.value:
            is_empty = False
        characters += len(row.text)
    if chunk:
        yield chunk


def read_input_blocks(
    path: str, warn: WarnFunction, given_encoding: str | None = None
) -> Iterator[Iterator[str]]:
    """Yield the lines of a text file in blocks, as they are available.

    The encoding is that given, or detected; single bytes that it does not have are read as "�".
    """
    encoding, is_known, number = UTF8, False, 1
    if given_encoding is not None:
        encoding, is_known = named_encoding(given_encoding, b"").name, True
        if encoding.startswith(("utf-16", "utf-32")):
            yield from _text_blocks(path, encoding)
            return
    for content in read_line_blocks(path):
        if not is_known and (number == 1 or not content.isascii()):
            encoding, is_known = detect_encoding(content).name, not content.isascii()
            if encoding != UTF8:
                warn(f"{path}: read as {encoding}, which was detected.")
            if encoding.startswith(("utf-16", "utf-32")):
                yield from _text_blocks(path, encoding)
                return
        if number == 1:
            content = content.removeprefix(_BOM)
        lines = content[:-1].split(b"\n")
        yield (
            _decode(line, encoding, path, line_number, warn) if line else ""
            for line_number, line in enumerate(lines, number)
        )
        number += len(lines)


def _text_blocks(path: str, encoding: str) -> Iterator[Iterator[str]]:
    """Yield the lines of a file whose line ends are not single bytes."""
    if path == STANDARD_INPUT:
        raise DataError(
            f"got {encoding} on standard input; expected UTF-8; try a file, or: "
            f"iconv -f {encoding} -t utf-8"
        )
    for block in read_text_blocks(path, encoding):
        yield (line.removesuffix("\r") for line in block.text[:-1].split("\n"))


def _decode(line: bytes, encoding: str, path: str, number: int, warn: WarnFunction) -> str:
    line = line.removesuffix(b"\r")
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"{path}, line {number:,}"
        warn(f"{where}: invalid {encoding.upper()} ({line[error.start]:#04x}) is read as �.")
        return line.decode(encoding, "replace")


def count_input_lines(path: str) -> int | None:
    """Return the number of lines of an uncompressed file; None for others."""
    if path == STANDARD_INPUT or not Path(path).is_file():
        return None
    if is_compressed(read_first_bytes(Path(path))):
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


ROW_FORMATS = (".csv", ".jsonl", ".tsv")  # of --out, to which the columns of the input are written
PREDICTION_COLUMN = "prediction"


def with_cells(inputs: FileInput, suffix: str) -> tuple[FileInput, FormatFunction]:
    """Return the inputs and a format that writes the cells of each row and its prediction."""
    name = PREDICTION_COLUMN
    while name in inputs.columns:
        name += "_"
    names = [*inputs.columns, name]

    def format_row(number: int, row: InputRow, prediction: Any) -> str:
        cells = [*row.cells, prediction.text]
        if suffix == ".jsonl":
            return json_line(dict(zip(names, cells, strict=True))) + "\n"
        return _delimited(["" if cell is None else cell for cell in cells], suffix)

    header = None if suffix == ".jsonl" else _delimited(names, suffix).removesuffix("\n")
    return inputs._replace(first_line=header), format_row


def _delimited(cells: list[str], suffix: str) -> str:
    written = io.StringIO(newline="")
    delimiter = "\t" if suffix == ".tsv" else ","
    csv.writer(written, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return written.getvalue()


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
