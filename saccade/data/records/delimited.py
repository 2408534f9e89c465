r"""Text files as records: delimited (CSV, TSV and others), or one column of lines.

Cells keep their text: spaces, and the empty string for an empty cell. Empty lines and rows without
any text are skipped. Where semicolons separate, 1,5 is read as 1.5 in columns of such numbers. Rows
are parsed by the csv module in blocks, so memory does not grow with the file.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, Cells, ReadOptions, RecordChunk, Records
from saccade.data.records.columns import different_names
from saccade.data.records.dialect import (
    SAMPLE_CHARACTERS,
    SAMPLE_ROWS,
    CellRows,
    Dialect,
    consistency,
    detect_dialect,
    large_cells,
    parse_sample,
)
from saccade.data.records.header import HeaderChoice, detect_header
from saccade.errors import DataError
from saccade.io.byte_source import ByteSource
from saccade.io.encodings import DetectedEncoding
from saccade.io.text_files import (
    MAX_LISTED_ERRORS,
    TextBlock,
    file_encoding,
    read_lines,
    read_text_blocks,
)
from saccade.types.arrays import IntArray

DELIMITED_SUFFIXES = (".csv", ".tsv", ".tab")
DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
MIN_TABLE_ROWS = 5  # with the same number of cells, in a file whose suffix does not name a format

_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)([eE][+-]?\d+)?")
_QUOTE_IN_CELL = re.compile('""|"')


@dataclass(frozen=True)
class Layout:
    """Columns and dialect of a delimited file."""

    source: ByteSource
    encoding: str
    dialect: Dialect
    columns: tuple[str, ...]
    has_header: bool
    decimal_commas: frozenset[str]  # columns of numbers with a decimal comma


def open_text(source: ByteSource, options: ReadOptions) -> Records:
    """Open a text file: delimited if its rows have the same number of cells, else lines."""
    encoding = file_encoding(source, options.encoding)
    sample, is_whole = _sample(source, encoding.name)
    if not sample.strip():
        raise DataError(f"{source.name}: got an empty file; expected rows or lines of text.")
    notes = encoding_notes(encoding, options)
    dialect = detect_dialect(sample, is_whole, source.suffix, options.delimiter, options.quoting)
    has_suffix = source.suffix in DELIMITED_SUFFIXES or options.delimiter is not None
    if dialect is None and has_suffix:
        dialect = Dialect("\t" if source.suffix in (".tsv", ".tab") else ",")  # one column
    rows = None if dialect is None else parse_sample(sample, is_whole, dialect)
    if dialect is None or not (has_suffix or _is_table(rows or [], dialect)):
        return _open_lines(source, encoding.name, notes)
    if rows is None:  # an error that reading reports with its line
        rows = Dialect(dialect.delimiter, has_quotes=False).split(sample)[:1]
    return _open_delimited(source, dialect, encoding.name, rows, options, notes)


def _sample(source: ByteSource, encoding: str) -> tuple[str, bool]:
    """Return the first lines, and whether these are all."""
    blocks = read_text_blocks(source, encoding)
    text = next(blocks, TextBlock("", 1)).text
    cut = len(text)
    if cut > SAMPLE_CHARACTERS:
        cut = text.rfind("\n", 0, SAMPLE_CHARACTERS) + 1 or text.find("\n") + 1
    is_whole = cut == len(text) and not source.is_live and next(blocks, None) is None
    return text[:cut], is_whole


def _is_table(rows: CellRows, dialect: Dialect) -> bool:
    """Return True unless the delimiter may be an ordinary character of a text."""
    width, share = consistency(rows)
    if share < 1 or width < 2:
        return False
    if dialect.delimiter == "\t" or (width > 2 and len(rows) >= MIN_TABLE_ROWS):
        return True
    choice = detect_header(rows[:SAMPLE_ROWS], assume=False)
    return choice.is_header and choice.is_evident


def encoding_notes(encoding: DetectedEncoding, options: ReadOptions) -> tuple[str, ...]:
    """Return a note about an encoding that was guessed."""
    if encoding.is_certain or options.encoding is not None:
        return ()
    return (
        f"read as {encoding.name} (detected); if letters look wrong, try --set data.encoding=NAME",
    )


def dialect_delimiters(dialect: Dialect) -> str:
    """Return the delimiter of a dialect in words: "commas"."""
    return DELIMITER_NAMES.get(dialect.delimiter, repr(dialect.delimiter))


# --- lines ----------------------------------------------------------------------------------------


def _open_lines(source: ByteSource, encoding: str, notes: tuple[str, ...]) -> Records:
    return Records(
        source.name,
        "text",
        ("text",),
        lambda names: _line_chunks(source, encoding, names),
        has_header=False,
        encoding=encoding,
        notes=notes,
    )


def _line_chunks(
    source: ByteSource, encoding: str, names: tuple[str, ...]
) -> Iterator[RecordChunk]:
    lines, done = read_lines(source, encoding), 0
    while cells := list(islice(lines, CHUNK_ROWS)):
        numbers = np.arange(done + 1, done + 1 + len(cells))
        yield RecordChunk({name: list[str | None](cells) for name in names}, numbers)
        done += len(cells)


# --- delimited ------------------------------------------------------------------------------------


def _open_delimited(
    source: ByteSource,
    dialect: Dialect,
    encoding: str,
    rows: CellRows,
    options: ReadOptions,
    notes: tuple[str, ...],
) -> Records:
    width, _ = consistency(rows)
    even = [row for row in rows[1:] if len(row) == width][:SAMPLE_ROWS]
    first = rows[0]
    if len(first) == width - 1 and options.header is not False:
        first = ["", *first]  # as R writes a table: no name above the names of the rows
    if options.header is not None:
        choice = HeaderChoice(options.header, "given")
    elif len(first) != width:
        choice = HeaderChoice(True, f"{len(first)} names", is_evident=False)
    else:
        choice = detect_header([first, *even], assume=dialect.delimiter != "\t")
    names, renamed = different_names(first if choice.is_header else [""] * len(first))
    data = even if choice.is_header else [first, *even]
    commas = _decimal_commas(names, data) if dialect.delimiter == ";" else frozenset()
    layout = Layout(source, encoding, dialect, names, choice.is_header, commas)
    return Records(
        source.name,
        "tsv" if dialect.delimiter == "\t" else "csv",
        names,
        partial(_read, layout),
        has_header=choice.is_header,
        encoding=encoding,
        delimiter=dialect.delimiter,
        notes=(*notes, *_layout_notes(layout, choice, options), *renamed),
    )


def _decimal_commas(names: tuple[str, ...], rows: CellRows) -> frozenset[str]:
    """Return the columns whose cells are all numbers, some of them with a decimal comma."""
    found = set()
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        present = [cell.strip() for cell in cells if cell.strip()]
        if any(map(_DECIMAL_COMMA.fullmatch, present)) and all(
            _DECIMAL_COMMA.fullmatch(cell) or _INTEGER.fullmatch(cell) for cell in present
        ):
            found.add(name)
    return frozenset(found)


def _layout_notes(layout: Layout, choice: HeaderChoice, options: ReadOptions) -> list[str]:
    notes = []
    dialect, expected = layout.dialect, {".csv": ","}.get(layout.source.suffix, "\t")
    if options.delimiter is None and dialect.delimiter != expected and len(layout.columns) > 1:
        separators = dialect_delimiters(dialect)
        notes.append(f"columns are separated by {separators} (detected)")
    if options.quoting is None and dialect.has_backslashes:
        notes.append("a backslash before a quotation mark makes it an ordinary character")
    if options.quoting is None and dialect.ignores_quotes:
        notes.append(
            "quotation marks are ordinary characters here; if they enclose cells, try "
            "--set data.quoting=true"
        )
    if layout.decimal_commas:
        listed = ", ".join(map(repr, sorted(layout.decimal_commas)))
        notes.append(f"decimal commas are read as points in {listed}")
    if options.header is None and choice.is_header:
        notes.append(
            f"the first row has the names of the columns ({choice.reason}); if it is data, try "
            "--set data.header=false"
        )
    elif options.header is None:
        notes.append(
            f"no header ({choice.reason}); if the first row has the names of the columns, try "
            "--set data.header=true"
        )
    return notes


def _read(layout: Layout, names: tuple[str, ...]) -> Iterator[RecordChunk]:
    """Yield the named columns in chunks."""
    positions = [layout.columns.index(name) for name in names]
    is_first = layout.has_header
    for rows, numbers in _rows(layout):
        rows, numbers = _complete(layout, rows, numbers)
        if is_first and rows:
            rows, numbers, is_first = rows[1:], numbers[1:], False
        if not rows:
            continue
        columns = list(zip(*rows, strict=True))
        cells: dict[str, Cells] = {
            name: list(columns[position]) for name, position in zip(names, positions, strict=True)
        }
        for name in layout.decimal_commas.intersection(names):
            cells[name] = [_with_decimal_point(cell or "") for cell in cells[name]]
        yield RecordChunk(cells, numbers)


def _with_decimal_point(cell: str) -> str:
    if _DECIMAL_COMMA.fullmatch(cell.strip()):
        return cell.strip().replace(".", "").replace(",", ".")
    return cell


def _rows(layout: Layout) -> Iterator[tuple[CellRows, IntArray]]:
    """Yield rows, empty ones too, with the lines that they start on."""
    blocks = read_text_blocks(layout.source, layout.encoding)
    if not layout.dialect.has_quotes:
        for block in blocks:
            rows = layout.dialect.split(block.text)
            for start in range(0, len(rows), CHUNK_ROWS):
                chunk = rows[start : start + CHUNK_ROWS]
                yield chunk, np.arange(len(chunk)) + (block.first_line + start)
        return
    reader = layout.dialect.rows(_lines(blocks))
    done = 0
    while True:
        try:
            with large_cells():
                rows = list(islice(reader, CHUNK_ROWS))
        except csv.Error as error:
            raise _parse_error(layout, str(error)) from None
        if not rows:
            return
        numbers = np.arange(done + 1, done + 1 + len(rows))
        done, before = reader.line_num, done
        if done - before != len(rows):  # line ends inside cells
            inside = np.array([sum(cell.count("\n") for cell in row) for row in rows])
            numbers[1:] += np.cumsum(inside)[:-1]
        yield rows, numbers


def _lines(blocks: Iterator[TextBlock]) -> Iterator[str]:
    return chain.from_iterable(io.StringIO(block.text, newline="\n") for block in blocks)


def _complete(layout: Layout, rows: CellRows, numbers: IntArray) -> tuple[CellRows, IntArray]:
    """Leave out empty rows and empty cells after the last column; raise for other lengths."""
    width = len(layout.columns)
    first_cells = [row[0] if row else "" for row in rows]
    if {*map(len, rows)} == {width} and (width == 1 or "" not in first_cells):
        return rows, numbers
    kept: CellRows = []
    kept_numbers: list[int] = []
    wrong: list[str] = []
    for row, number in zip(rows, numbers.tolist(), strict=True):
        if len(row) != width:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) > width and not any(row[width:]):
                row = row[:width]
            elif len(row) == width - 1 and layout.has_header and number == 1:
                row = ["", *row]
            else:
                wrong.append(f"line {number:,}: got {_cells(len(row))}; expected {width}")
                continue
        elif width > 1 and not any(row):
            continue
        kept.append(row)
        kept_numbers.append(number)
    if wrong:
        raise _ragged(layout, wrong)
    return kept, np.array(kept_numbers, np.int64)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _ragged(layout: Layout, wrong: list[str]) -> DataError:
    more = len(wrong) - MAX_LISTED_ERRORS
    listed = wrong[:MAX_LISTED_ERRORS] + ([f"… and {more:,} more"] if more > 0 else [])
    separators = dialect_delimiters(layout.dialect)
    number = re.sub(r"\D", "", wrong[0].partition(":")[0])
    quotes = (
        f"put quotation marks around cells that contain {separators}"
        if layout.dialect.has_quotes
        else "--set data.quoting=true if quotation marks enclose cells"
    )
    return DataError(
        f"{layout.source.name}: rows with another number of cells than the "
        f"{len(layout.columns)} columns ({', '.join(layout.columns[:8])}), separated by "
        f"{separators}:\n"
        + "".join(f"  - {line}\n" for line in listed)
        + f"Try: {quotes}; --set data.delimiter=… for another separator; or remove the line: "
        f"sed {number}d {layout.source.name} > new-file"
    )


def _parse_error(layout: Layout, error: str) -> DataError:
    """Return the error of the csv module with the line of the row and of the open quote."""
    reader = layout.dialect.rows(_lines(read_text_blocks(layout.source, layout.encoding)))
    start = 1
    try:
        with large_cells():
            for _ in reader:
                start = reader.line_num + 1
    except csv.Error:
        pass
    name, reached = layout.source.name, reader.line_num
    off = "or --set data.quoting=false if quotation marks are ordinary characters."
    if "new-line" in error:
        return DataError(
            f"{name}, line {start:,}: got a carriage return inside a cell; expected one at the end "
            "of a line only, or inside quotation marks; try: tr '\\r' ' ' < "
            f"{name} > new-file"
        )
    line = _open_quote_line(layout, start, reached)
    if "end of data" in error or "limit" in error:
        return DataError(
            f"{name}, line {line:,}: got a quotation mark that opens a cell and is never closed; "
            f"expected a second one; try closing or removing it, {off}"
        )
    separators = dialect_delimiters(layout.dialect)
    return DataError(
        f"{name}, line {line:,}: got a quotation mark that opens a cell, and text after the one "
        f"that closes it on line {reached:,}; expected {separators} or a line end there; try "
        f'doubling the marks inside the cell ("") or removing them, {off}'
    )


def _open_quote_line(layout: Layout, start: int, end: int) -> int:
    """Return the line of the last mark that opens a cell in the rows of some lines."""
    delimiter = re.escape(layout.dialect.delimiter)
    opening = re.compile(rf'(?:^|{delimiter}) *"')
    is_open, found = False, start
    lines = islice(read_lines(layout.source, layout.encoding), start - 1, end)
    for number, line in enumerate(lines, start):
        position = 0
        while match := (_QUOTE_IN_CELL if is_open else opening).search(line, position):
            position = match.end()
            if not is_open:
                is_open, found = True, number
            elif match[0] == '"':
                is_open = False
    return found
