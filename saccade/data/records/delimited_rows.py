"""Reading of the rows of a delimited file in chunks, and the errors with their lines.

Pieces of some thousand rows are divided as a whole (`divide_cells`). From the first one on for
which that is not possible, rows are parsed by the csv module, or split where quotation marks have
no meaning, some hundred at a time: so few that they are still in the processor's cache when they
are turned into columns.
"""

import csv
import io
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import NamedTuple

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, Cells, RecordChunk
from saccade.data.records.dialect import CellRows, Dialect, large_cells, lines_of
from saccade.errors import DataError
from saccade.io.byte_source import ByteSource
from saccade.io.text_files import (
    MAX_LISTED_ERRORS,
    RawBlock,
    TextBlock,
    read_lines,
    read_raw_blocks,
)
from saccade.types.arrays import BoolArray, ByteArray, IntArray

PARSE_ROWS = 256  # parsed before they are turned into columns
PIECE_BYTES = 1 << 18  # whose cells are divided at a time
MAX_OPEN_BYTES = 1 << 24  # after which a quotation mark is left to the csv module
MAX_COUNTED_ERRORS = 1000
DELIMITER_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}

DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_QUOTE_IN_CELL = re.compile('""|"')
REMOVED, CELL_END = 0x1E, 0x1F  # information separators of ASCII: no text has them
QUOTE, LINE_FEED, CARRIAGE_RETURN = 0x22, 0x0A, 0x0D


@dataclass(frozen=True)
class Layout:
    """Columns and dialect of a delimited file."""

    source: ByteSource
    encoding: str
    dialect: Dialect
    columns: tuple[str, ...]
    has_header: bool
    decimal_commas: frozenset[str]  # columns of numbers with a decimal comma
    min_width: int  # cells of a row; with fewer than there are columns, the last are missing
    comments: int  # lines before the first row

    @property
    def delimiters(self) -> str:
        """The delimiter in words: "commas"."""
        return DELIMITER_NAMES.get(self.dialect.delimiter, repr(self.dialect.delimiter))


def read_delimited(layout: Layout, names: tuple[str, ...]) -> Iterator[RecordChunk]:
    """Yield the named columns in chunks."""
    by_name = {name: position for position, name in enumerate(layout.columns)}
    positions = [by_name[name] for name in names]
    cells: list[Cells] = [[] for _ in names]
    numbers: list[IntArray] = []
    count = 0
    for columns, lines in _columns(layout):
        if count and count + len(lines) > CHUNK_ROWS:
            yield _chunk(layout, names, cells, numbers)
            cells, numbers, count = [[] for _ in names], [], 0
        whole = len(lines) - len(lines) % CHUNK_ROWS  # of a large block
        for start in range(0, whole, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            some: list[Cells] = [[*columns[position][rows]] for position in positions]
            yield _chunk(layout, names, some, [lines[rows]])
        for column, position in zip(cells, positions, strict=True):
            column.extend(columns[position][whole:])
        numbers.append(lines[whole:])
        count += len(lines) - whole
    if count:
        yield _chunk(layout, names, cells, numbers)


def _chunk(
    layout: Layout, names: tuple[str, ...], cells: list[Cells], numbers: list[IntArray]
) -> RecordChunk:
    columns = dict(zip(names, cells, strict=True))
    for name in layout.decimal_commas.intersection(names):
        columns[name] = [_with_decimal_point(cell or "") for cell in columns[name]]
    return RecordChunk(columns, np.concatenate(numbers))


def _with_decimal_point(cell: str) -> str:
    if DECIMAL_COMMA.fullmatch(cell.strip()):
        return cell.strip().replace(".", "").replace(",", ".")
    return cell


class _Part(NamedTuple):
    """Some rows by their lines, as columns if all have the right length."""

    numbers: IntArray
    rows: CellRows | None
    columns: Sequence[Sequence[str]] = ()


def _columns(layout: Layout) -> Iterator[tuple[Sequence[Sequence[str]], IntArray]]:
    """Yield the cells of some rows by column, and their lines, without the header."""
    width, is_first = len(layout.columns), layout.has_header
    wrong = _WrongRows(layout)
    for numbers, rows, columns in _parts(layout):
        if rows is not None:
            if {*map(len, rows)} != {width}:
                rows, numbers = wrong.left_out(rows, numbers)
            columns = list(zip(*rows, strict=True))
        if is_first and columns:
            columns, numbers = [column[1:] for column in columns], numbers[1:]
            is_first, wrong.is_started = False, True
        if width > 1 and columns and "" in columns[0]:  # rows of empty cells
            kept = [any(row) for row in zip(*columns, strict=True)]
            columns = [list(compress(column, kept)) for column in columns]
            numbers = numbers[np.array(kept, bool)]
        if len(numbers) and not wrong.count:
            yield columns, numbers
        if wrong.count >= MAX_COUNTED_ERRORS:
            break
    wrong.check()


def _parts(layout: Layout) -> Iterator[_Part]:
    """Yield some rows at a time, by columns where the cells can be divided."""
    blocks, dialect = _blocks(layout), layout.dialect
    is_simple = not (dialect.max_cells or dialect.skips_spaces or dialect.has_backslashes)
    if is_simple and dialect.delimiter.isascii() and len(dialect.delimiter) == 1:
        rest = yield from _divided_parts(layout, blocks)
        blocks = chain([] if rest is None else [rest], blocks)
    texts = (TextBlock(block.decode(), block.first_line) for block in blocks)
    for rows, numbers in _rows(layout, texts):
        yield _Part(numbers, rows)


def _divided_parts(
    layout: Layout, blocks: Iterator[RawBlock]
) -> Generator[_Part, None, RawBlock | None]:
    """Yield the rows of small pieces of text, which stay in the processor's cache.

    Returns:
        The first block that the csv module has to parse, if there is one.
    """
    dialect, size, start = layout.dialect, PIECE_BYTES, 0
    block = next(blocks, None)
    line = 0 if block is None else block.first_line
    while block is not None:
        piece = block.content[start : start + size]
        divided = divide_cells(piece, dialect.delimiter, dialect.has_quotes)
        if divided is None:
            return block.skip(start)
        if divided.size:
            try:
                columns = divided.columns(len(layout.columns))
                rows = divided.rows() if columns is None else None
            except UnicodeDecodeError:
                return block.skip(start)  # the error has line and byte when it is decoded
            yield _Part(divided.lines + line, rows, columns or ())
            start, line, size = start + divided.size, line + divided.line_count, PIECE_BYTES
            if start == len(block.content):
                block, start = next(blocks, None), 0
        elif start + size < len(block.content):  # the end of a row is later
            size *= 2
        else:
            block, start = block.skip(start), 0
            more = next(blocks, None)
            if more is None:
                return block
            block = block._replace(content=block.content + more.content)
            if len(block.content) > MAX_OPEN_BYTES:
                return block
    return None


def _rows(layout: Layout, blocks: Iterator[TextBlock]) -> Iterator[tuple[CellRows, IntArray]]:
    """Yield some rows of blocks, empty ones too, and the lines that they start on."""
    if not layout.dialect.has_quotes:
        for block in blocks:
            lines = lines_of(block.text)
            for start in range(0, len(lines), PARSE_ROWS):
                rows = layout.dialect.split(lines[start : start + PARSE_ROWS])
                yield rows, np.arange(len(rows)) + (block.first_line + start)
        return
    first = next(blocks, None)
    if first is None:
        return
    reader = layout.dialect.rows(_lines(chain([first], blocks)))
    done = before = 0
    while True:
        try:
            with large_cells():
                rows = list(islice(reader, PARSE_ROWS))
        except csv.Error as error:
            raise _parse_error(layout, str(error)) from None
        if not rows:
            return
        numbers = np.arange(done, done + len(rows)) + first.first_line
        done, before = reader.line_num, done
        if done - before != len(rows):  # line ends inside cells
            inside = np.array([sum(cell.count("\n") for cell in row) for row in rows])
            numbers[1:] += np.cumsum(inside)[:-1]
        yield rows, numbers


def _blocks(layout: Layout) -> Iterator[RawBlock]:
    """Yield the lines of the file, without the comments at its start."""
    comments = layout.comments
    for block in read_raw_blocks(layout.source, layout.encoding):
        while comments and block.content:
            block = block.skip(block.content.index(b"\n") + 1)
            comments -= 1
        if block.content:
            yield block


def _text_blocks(layout: Layout) -> Iterator[TextBlock]:
    return (TextBlock(block.decode(), block.first_line) for block in _blocks(layout))


def _lines(blocks: Iterator[TextBlock]) -> Iterator[str]:
    return chain.from_iterable(io.StringIO(block.text, newline="\n") for block in blocks)


# --- errors ---------------------------------------------------------------------------------------


class _WrongRows:
    """Rows with another number of cells than there are columns."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self.count = 0
        self.complaints: list[str] = []
        self.first_line = 0
        self.is_started = False

    def left_out(self, rows: CellRows, numbers: IntArray) -> tuple[CellRows, IntArray]:
        """Return the rows without empty lines, cells after the last column and wrong rows."""
        width = len(self.layout.columns)
        kept: CellRows = []
        kept_numbers: list[int] = []
        for row, number in zip(rows, numbers.tolist(), strict=True):
            if len(row) > width and not any(row[width:]):
                row = row[:width]
            elif self.layout.min_width <= len(row) < width:
                row = [*row, *[""] * (width - len(row))]
            elif len(row) == width - 1 and self.layout.has_header and not self.is_started:
                row = ["", *row]  # as R writes a table: no name above the names of the rows
            if len(row) == width:
                self.is_started = True
                kept.append(row)
                kept_numbers.append(number)
            elif any(cell.strip() for cell in row):
                self.add(number, len(row))
        return kept, np.array(kept_numbers, np.int64)

    def add(self, line: int, cells: int) -> None:
        """Count a wrong row."""
        self.first_line = self.first_line or line
        self.count += 1
        if self.count <= MAX_LISTED_ERRORS:
            got = "1 cell" if cells == 1 else f"{cells:,} cells"
            expected = len(self.layout.columns)
            self.complaints.append(f"line {line:,}: got {got}; expected {expected}")

    def check(self) -> None:
        """Raise one error for all wrong rows."""
        if not self.count:
            return
        layout = self.layout
        more = self.count - len(self.complaints)
        over = "more than " if self.count >= MAX_COUNTED_ERRORS else ""
        listed = self.complaints + ([f"… and {over}{more:,} more"] if more else [])
        columns = layout.columns[:8] + (("…",) if len(layout.columns) > 8 else ())
        quotes = (
            f"put quotation marks around cells that contain {layout.delimiters}"
            if layout.dialect.has_quotes
            else "--set data.quoting=true if quotation marks enclose cells"
        )
        raise DataError(
            f"{layout.source.name}: got rows of a wrong length; expected {len(layout.columns)} "
            f"cells ({', '.join(columns)}) with {layout.delimiters} between:\n"
            + "".join(f"  - {line}\n" for line in listed)
            + f"Try: {quotes}; --set data.delimiter=… for another separator; or "
            + self._removal()
        )

    def _removal(self) -> str:
        if self.layout.source.path is None:  # compressed, in an archive or standard input
            return f"remove line {self.first_line:,}."
        return f"remove the line: sed {self.first_line}d {self.layout.source.name} > new-file"


def _parse_error(layout: Layout, error: str) -> DataError:
    """Return the error of the csv module with the line of the row and of the open quote."""
    reader = layout.dialect.rows(_lines(_text_blocks(layout)))
    start = layout.comments + 1
    try:
        with large_cells():
            for _ in reader:
                start = layout.comments + reader.line_num + 1
    except csv.Error:
        pass
    name, reached = layout.source.name, layout.comments + reader.line_num
    off = "or --set data.quoting=false if quotation marks are ordinary characters."
    if "new-line" in error:
        return DataError(
            f"{name}, line {start:,}: got a carriage return inside a cell; expected one at the end "
            f"of a line only, or inside quotation marks; try: tr '\\r' ' ' < {name} > new-file"
        )
    line = _open_quote_line(layout, start, reached)
    if "end of data" in error or "limit" in error:
        return DataError(
            f"{name}, line {line:,}: got a quotation mark that opens a cell and is never closed; "
            f"expected a second one; try closing or removing it, {off}"
        )
    return DataError(
        f"{name}, line {line:,}: got a quotation mark that opens a cell, and text after the one "
        f"that closes it on line {reached:,}; expected {layout.delimiters} or a line end there; "
        f'try doubling the marks inside the cell ("") or removing them, {off}'
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


# --- division of a whole piece --------------------------------------------------------------------
#
# With the number of quotation marks before it, a byte is known to be inside (odd) or outside (even)
# of a quoted cell; delimiters and line ends outside end cells and rows. A mark directly behind a
# closing one is doubled and stays; the others are removed. Text in which a mark opens a cell in its
# middle, or has text behind it where it closes one, is left to the csv module, which has the same
# result for all other text.


class DividedCells(NamedTuple):
    """The cells of some whole rows in their order, and where each row ends."""

    content: bytes  # in UTF-8, CELL_END after each cell
    ends: IntArray  # number of cells up to the end of each row
    empty: BoolArray  # True for rows that are empty lines
    lines: IntArray  # number of line ends before each row
    size: int  # bytes of the rows
    line_count: int  # line ends of the rows

    def columns(self, width: int) -> list[list[str]] | None:
        """Return the cells by column; None if a row is empty or has another length."""
        count = len(self.ends)
        if self.empty.any() or not np.array_equal(self.ends, np.arange(1, count + 1) * width):
            return None
        cells = self.cells()
        return [cells[column::width] for column in range(width)]

    def rows(self) -> CellRows:
        """Return the cells of each row; an empty line is an empty row."""
        cells, ends = self.cells(), self.ends.tolist()
        starts = [0, *ends][:-1]
        return [
            [] if empty else cells[start:end]
            for start, end, empty in zip(starts, ends, self.empty.tolist(), strict=True)
        ]

    def cells(self) -> list[str]:
        """Return all cells."""
        cells = self.content.decode().split(chr(CELL_END))
        cells.pop()  # after the last one
        return cells


def divide_cells(content: bytes, delimiter: str, has_quotes: bool) -> DividedCells | None:
    """Return the cells of the whole rows at the start of a text; None: for the csv module.

    Args:
        content: rows in UTF-8; the last one may be cut anywhere.
        delimiter: an ASCII character.
        has_quotes: True if quotation marks enclose cells.
    """
    if bytes([REMOVED]) in content or bytes([CELL_END]) in content:
        return None
    raw: ByteArray = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero((raw == LINE_FEED) | (raw == ord(delimiter)))
    is_line_end = raw[ends] == LINE_FEED
    line_ends = ends[is_line_end]
    quotes = np.flatnonzero(raw == QUOTE) if has_quotes and b'"' in content else None
    if quotes is not None:
        is_outside = np.searchsorted(quotes, ends) % 2 == 0
        ends, is_line_end = ends[is_outside], is_line_end[is_outside]
    row_ends = ends[is_line_end]
    size = int(row_ends[-1]) + 1 if len(row_ends) else 0
    ends, is_line_end = ends[: np.searchsorted(ends, size)], is_line_end[: len(ends)]
    line_ends = line_ends[: np.searchsorted(line_ends, size)]
    text = raw[:size].copy()
    if quotes is not None:
        quotes = quotes[: np.searchsorted(quotes, size)]
        if not _remove_quotes(text, quotes[::2], quotes[1::2], ord(delimiter)):
            return None
    if b"\r" in content:
        returns = np.flatnonzero(raw[:size] == CARRIAGE_RETURN)
        if quotes is not None:
            returns = returns[np.searchsorted(quotes, returns) % 2 == 0]
        is_at_end = raw[returns + 1] == LINE_FEED
        if has_quotes and not is_at_end.all():
            return None
        text[returns[is_at_end]] = REMOVED
    text[ends] = CELL_END
    starts = np.concatenate([np.zeros(1, np.int64), row_ends + 1])[: len(row_ends)]
    lengths = row_ends - starts
    return DividedCells(
        text.tobytes().translate(None, bytes([REMOVED])),
        np.flatnonzero(is_line_end) + 1,
        (lengths == 0) | ((lengths == 1) & (raw[starts] == CARRIAGE_RETURN)),
        np.arange(len(starts))
        if len(line_ends) == len(starts)
        else np.searchsorted(line_ends, starts),
        size,
        len(line_ends),
    )


def _remove_quotes(text: ByteArray, opens: IntArray, closes: IntArray, delimiter: int) -> bool:
    """Mark quotation marks as removed, but one of doubled ones; False if a cell is not whole."""
    is_doubled = np.zeros(len(opens) + 1, bool)  # an opening mark, behind a closing one
    is_doubled[1:-1] = opens[1:] == closes[:-1] + 1
    starts, after = opens[~is_doubled[:-1]], closes[~is_doubled[1:]] + 1
    before, behind = text[starts - 1], text[after]
    is_started = (before == delimiter) | (before == LINE_FEED) | (starts == 0)
    is_return = (behind == CARRIAGE_RETURN) & (
        text[np.minimum(after + 1, len(text) - 1)] == LINE_FEED
    )
    is_ended = (behind == delimiter) | (behind == LINE_FEED) | is_return
    text[starts] = REMOVED
    text[closes] = REMOVED
    return bool(is_started.all() and is_ended.all())
