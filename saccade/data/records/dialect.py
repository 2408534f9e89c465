"""Detection of the dialect of a delimited file: delimiter and quotation marks.

Each delimiter is tried on the first rows; the one with which nearly all rows have the same number
of cells is taken, of several the one with the most cells. Quotation marks enclose cells (as in
RFC 4180, or with a backslash before a mark inside a cell) unless the rows fit only without: text
that was written with plain tabs has unpaired marks.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

USUAL_DELIMITERS = (",", "\t", ";", "|")
RARE_DELIMITERS = ("\x1f", "\x01", "^", "~", ":", " ")  # tried if none of the others fits
TEXT_DELIMITERS = (":", " ")  # between numbers only
SAMPLE_CHARACTERS = 1 << 20
SAMPLE_ROWS = 1000  # for the types of cells
CONSISTENT_SHARE = 0.9  # of rows with the same number of cells
MAX_CELL_CHARACTERS = 1 << 26  # beyond it a quotation mark was not closed

CellRows = list[list[str]]


@contextmanager
def large_cells() -> Iterator[None]:
    """Allow long cells in the csv module, whose limit is one for all readers."""
    limit = csv.field_size_limit(MAX_CELL_CHARACTERS)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


class RowReader(Protocol):
    """The reader of the csv module."""

    @property
    def line_num(self) -> int:
        """Number of lines read."""
        ...

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


@dataclass(frozen=True)
class Dialect:
    """Division of rows into cells."""

    delimiter: str
    has_quotes: bool = True  # quotation marks enclose cells
    has_backslashes: bool = False  # a backslash before a mark inside a cell
    skips_spaces: bool = False  # after a delimiter
    ignores_quotes: bool = False  # there are marks that could enclose cells, and do not

    def rows(self, lines: Iterable[str]) -> RowReader:
        r"""Yield the cells of each row; an empty line is an empty row.

        Args:
            lines: each ends with "\n", the last one too.
        """
        assert self.has_quotes
        how: dict[str, Any] = {"escapechar": "\\", "doublequote": False}
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            skipinitialspace=self.skips_spaces,
            strict=True,
            **(how if self.has_backslashes else {}),
        )

    def split(self, lines: list[str]) -> CellRows:
        """Return the cells of each line of a dialect without quotation marks."""
        if self.skips_spaces:
            between = re.compile(rf"{re.escape(self.delimiter)} *")
            return [between.split(line.strip(" ")) if line else [] for line in lines]
        return [line.split(self.delimiter) if line else [] for line in lines]


def lines_of(text: str) -> list[str]:
    """Return the lines of a block, without their ends."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def detect_dialect(
    text: str, is_whole: bool, suffix: str, delimiter: str | None, quotes: bool | None
) -> Dialect | None:
    """Return the dialect of a file from its first lines; None if there is no delimiter.

    Args:
        text: whole lines.
        is_whole: True if these are all lines.
        suffix: of the file's name: ".csv", ".tsv", ".txt", …
        delimiter: as given by the user; None: detected.
        quotes: whether quotation marks enclose cells; None: detected.
    """
    if delimiter is None and suffix in (".tsv", ".tab") and "\t" in text:
        delimiter = "\t"
    if delimiter is not None:
        return _dialect(text, is_whole, delimiter, quotes)
    found = _best(text, is_whole, suffix, USUAL_DELIMITERS, quotes)
    return found or _best(text, is_whole, suffix, RARE_DELIMITERS, quotes)


def _best(
    text: str, is_whole: bool, suffix: str, delimiters: Iterable[str], quotes: bool | None
) -> Dialect | None:
    """Return the dialect with consistent rows and the largest number of cells."""
    best: tuple[bool, float, int] = (False, 0.0, 0)
    found = None
    for delimiter in delimiters:
        if delimiter not in text:
            continue
        dialect = _dialect(text, is_whole, delimiter, quotes)
        rows = parse_sample(text, is_whole, dialect)
        if rows is None:
            continue
        width, share = consistency(rows)
        is_even = share >= CONSISTENT_SHARE if suffix == ".csv" else share == 1
        fits = _has_numbers(rows, width) if delimiter in TEXT_DELIMITERS else width > 1
        # with decimal commas between semicolons, only the header does not fit the commas
        rank = (share == 1, round(share, 2), width)
        if is_even and fits and rank > best:
            best, found = rank, dialect
    return found


def _has_numbers(rows: CellRows, width: int) -> bool:
    """Return True if a delimiter divides rows into cells of which half are numbers."""
    cells = [cell for row in rows[1:SAMPLE_ROWS] for cell in row]
    numbers = sum(bool(re.fullmatch(r"[-+\d.eE]+", cell)) for cell in cells)
    return width > 2 and len(rows) > 2 and 2 * numbers >= len(cells)


def _dialect(text: str, is_whole: bool, delimiter: str, quotes: bool | None) -> Dialect:
    """Return the dialect of a delimiter, with or without quotation marks around cells."""
    dialect = Dialect(delimiter, skips_spaces=_has_spaces(text, delimiter))
    if delimiter == " ":
        return replace(dialect, has_quotes=False)
    plain = replace(dialect, has_quotes=False)
    if len(dialect.delimiter) > 1 or quotes is False:  # the csv module takes one character
        return plain
    is_tab = dialect.delimiter == "\t"
    if quotes or '"' not in text:
        return plain if is_tab and not quotes else dialect
    quoted = parse_sample(text, is_whole, dialect)
    if quoted is None and '\\"' in text:
        escaped = replace(dialect, has_backslashes=True)
        rows = parse_sample(text, is_whole, escaped)
        if rows is not None and consistency(rows)[1] >= CONSISTENT_SHARE:
            return escaped
    divided = plain.split(lines_of(text))
    share = consistency(divided)[1]
    opening = re.compile(rf'(?:^|{re.escape(dialect.delimiter)})"', re.MULTILINE)
    plain = replace(plain, ignores_quotes=bool(opening.search(text)))
    if quoted is None or consistency(quoted)[1] < share:
        return plain if share >= 0.99 else dialect
    return plain if is_tab and not _proves_quotes(quoted, divided) else dialect


def _proves_quotes(quoted: CellRows, divided: CellRows) -> bool:
    """Return True if quotation marks enclose cells in a file that also parses without them.

    Evidence: a delimiter, a line end or a doubled mark inside a quoted cell, or a column in which
    every cell is quoted. A sentence in quotation marks alone is a text like others.
    """
    if [len(row) for row in quoted] != [len(row) for row in divided[: len(quoted)]]:
        return True
    if any('""' in cell[1:-1] and cell[0] == '"' == cell[-1] for row in divided for cell in row):
        return True
    below = [row for row in divided[1:] if row]
    width = min(map(len, below), default=0)
    return len(below) > 1 and any(
        all(len(row[i]) > 1 and row[i][0] == '"' == row[i][-1] for row in below)
        for i in range(width)
    )


def _has_spaces(text: str, delimiter: str) -> bool:
    """Return True if there is a space after each delimiter of the first lines."""
    lines = [line for line in text.split("\n", 100)[:100] if delimiter in line]
    followed = re.compile(rf"{re.escape(delimiter)}(?! |$)")
    return delimiter == " " or (bool(lines) and not any(map(followed.search, lines)))


def parse_sample(text: str, is_whole: bool, dialect: Dialect) -> CellRows | None:
    """Return the rows of a sample, without one that may be cut; None if they cannot be parsed."""
    if not dialect.has_quotes:
        return [row for row in dialect.split(lines_of(text)) if row]
    rows: CellRows = []
    try:
        with large_cells():
            rows.extend(filter(None, dialect.rows(io.StringIO(text, newline="\n"))))
    except csv.Error as error:
        if is_whole or "end of data" not in str(error):
            return None
    return rows


def consistency(rows: CellRows) -> tuple[int, float]:
    """Return the most frequent number of cells in a row, and the share of rows with it."""
    counts = Counter(len(row) for row in rows if row)
    if not counts:
        return 0, 0.0
    width, count = counts.most_common(1)[0]
    return width, count / counts.total()
