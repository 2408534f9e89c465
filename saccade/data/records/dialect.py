"""Detection of the dialect of a delimited file: delimiter and quotation marks.

Each delimiter is tried on the first rows; the one with which nearly all rows have the same number
of cells is taken, of several the one with the most cells. Quotation marks enclose cells (as in
RFC 4180, or with a backslash before a mark inside a cell) unless the rows fit only without: text
that was written with plain tabs has unpaired marks. Without marks around cells, a free text in the
last column may contain the delimiter, and the last columns may be missing in some rows.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple, Protocol

USUAL_DELIMITERS = (",", "\t", ";", "|")
RARE_DELIMITERS = ("\x1f", "\x01", "^", "~", ":", " ")  # tried if none of the others fits
TEXT_DELIMITERS = (":", " ")  # between numbers only
SAMPLE_CHARACTERS = 1 << 20
SAMPLE_ROWS = 1000  # for the types of cells
CONSISTENT_SHARE = 0.9  # of rows with the same number of cells
PLAIN_SHARE = 0.99  # of rows with one of two numbers of cells, where some cells are missing
MIN_SHORT_SHARE = 0.01  # of rows with the second number of cells
MAX_FIELD_CHARACTERS, MAX_FIELD_WORDS = 20, 2  # of cells before a free text
MAX_FIELD_VALUES = 20  # different ones, of a column before a free text that is no number
MIN_TEXT_WORDS, MIN_TEXT_CHARACTERS = 4, 20  # median of a free text
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
    max_cells: int = 0  # of a row whose last cell may contain the delimiter; 0: no limit

    @property
    def is_plain_tabs(self) -> bool:
        """True for tabs between cells without quotation marks around them."""
        return self.delimiter == "\t" and not self.has_quotes

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
        limit = self.max_cells - 1
        if self.skips_spaces:
            between = re.compile(rf"{re.escape(self.delimiter)} *")
            return [between.split(line.strip(" "), max(limit, 0)) if line else [] for line in lines]
        return [line.split(self.delimiter, limit) if line else [] for line in lines]


class RowLengths(NamedTuple):
    """The number of cells of most rows, the least number, and the share of rows that fit."""

    width: int
    min_width: int
    share: float


def row_lengths(rows: CellRows, dialect: Dialect) -> RowLengths:
    """Return the usual number of cells of a row.

    Between plain tabs a second number is accepted too: the last cells are missing in the shorter
    rows. (Between commas, it is rather a comma inside a cell.)
    """
    counts = Counter(len(row) for row in rows if row)
    if not counts:
        return RowLengths(0, 0, 0.0)
    (width, count), *others = counts.most_common(2)
    total = counts.total()
    if others and dialect.is_plain_tabs and min(width, others[0][0]) > 1:
        other, other_count = others[0]
        share = (count + other_count) / total
        if share >= PLAIN_SHARE and other_count >= MIN_SHORT_SHARE * total:
            return RowLengths(max(width, other), min(width, other), share)
    return RowLengths(width, width, count / total)


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
    if found is None and suffix == ".csv":
        found = _with_free_text(text, Dialect(","))
    return found or _best(text, is_whole, suffix, RARE_DELIMITERS, quotes)


def _best(
    text: str, is_whole: bool, suffix: str, delimiters: Iterable[str], quotes: bool | None
) -> Dialect | None:
    """Return the dialect with consistent rows and the largest number of cells."""
    best: tuple[bool, bool, float, int] = (False, False, 0.0, 0)
    found = None
    for delimiter in delimiters:
        if delimiter not in text:
            continue
        dialect = _dialect(text, is_whole, delimiter, quotes)
        rows = parse_sample(text, is_whole, dialect)
        if rows is None:
            continue
        width, _, share = row_lengths(rows, dialect)
        is_even = share >= CONSISTENT_SHARE if suffix == ".csv" else share == 1
        fits = _has_numbers(rows, width) if delimiter in TEXT_DELIMITERS else width > 1
        # with decimal commas between semicolons, only the header does not fit the commas; a tab is
        # no part of ordinary text, a comma is
        rank = (share == 1, share == 1 and delimiter == "\t", round(share, 2), width)
        if is_even and fits and rank > best:
            best, found = rank, dialect
    return found


def fallback_dialect(text: str, suffix: str) -> Dialect:
    """Return the dialect of a file whose rows are uneven, or which has only one column.

    It is that of the delimiter that is in most lines, so that an error is about the right one.
    """
    lines = lines_of(text)[:SAMPLE_ROWS]
    usual = "," if suffix == ".csv" else "\t"
    counts = {d: sum(d in line for line in lines) for d in (usual, *USUAL_DELIMITERS)}
    delimiter = max(counts, key=lambda delimiter: counts[delimiter])
    return Dialect(delimiter if 2 * counts[delimiter] > len(lines) else usual)


def _has_numbers(rows: CellRows, width: int) -> bool:
    """Return True if a delimiter divides rows into cells of which half are numbers."""
    cells = [cell for row in rows[1:SAMPLE_ROWS] for cell in row]
    numbers = sum(bool(re.fullmatch(r"[-+\d.eE]+", cell)) for cell in cells)
    return width > 2 and len(rows) > 2 and 2 * numbers >= len(cells)


def _dialect(text: str, is_whole: bool, delimiter: str, quotes: bool | None) -> Dialect:
    """Return the dialect of a delimiter."""
    dialect = Dialect(delimiter, skips_spaces=_has_spaces(text, delimiter))
    if quotes is False or delimiter == " " or len(delimiter) > 1:  # csv takes one character
        dialect = replace(dialect, has_quotes=False)
    elif quotes is None:
        dialect = _with_quotes(text, is_whole, dialect)
    return _with_free_text(text, dialect) or dialect


def _with_quotes(text: str, is_whole: bool, dialect: Dialect) -> Dialect:
    """Return a dialect with quotation marks around cells, or without."""
    plain = replace(dialect, has_quotes=False)
    is_tab = dialect.delimiter == "\t"
    if '"' not in text:
        return plain if is_tab else dialect
    quoted = parse_sample(text, is_whole, dialect)
    divided = plain.split(lines_of(text))
    if quoted is None and '\\"' in text and (not is_tab or _has_quoted_column(divided)):
        escaped = replace(dialect, has_backslashes=True)
        rows = parse_sample(text, is_whole, escaped)
        if rows is not None and row_lengths(rows, escaped).share >= CONSISTENT_SHARE:
            return escaped
    share = row_lengths(divided, plain).share
    plain = replace(plain, ignores_quotes=bool(_opening(dialect.delimiter).search(text)))
    if quoted is None or row_lengths(quoted, dialect).share < share:
        return plain if share >= PLAIN_SHARE else dialect
    return plain if is_tab and not _proves_quotes(quoted, divided) else dialect


def _opening(delimiter: str) -> re.Pattern[str]:
    """Return a pattern of a quotation mark that may open a cell."""
    escaped = re.escape(delimiter)
    if not delimiter.strip(" "):  # further spaces would be tried from each space of a run
        return re.compile(rf'(?:^ *|{escaped})"', re.MULTILINE)
    return re.compile(rf'(?:^|{escaped}) *"', re.MULTILINE)


def _with_free_text(text: str, dialect: Dialect) -> Dialect | None:
    """Return a dialect whose last column is a free text that contains the delimiter, if it is.

    All rows have at least as many cells as the first row (or as most rows), some have more; the
    cells before the text are numbers or a few short words. No cell is quoted.
    """
    if dialect.has_quotes and _opening(dialect.delimiter).search(text):
        return None
    lines = [line for line in lines_of(text) if line and not line.isspace()]
    lengths = [line.count(dialect.delimiter) + 1 for line in lines]
    shortest = min(lengths, default=0)
    if shortest not in (lengths[0], Counter(lengths).most_common(1)[0][0]) or not any(
        length > shortest for length in lengths
    ):
        return None
    free = replace(dialect, has_quotes=False, max_cells=shortest)
    rows = [row for row in free.split(lines[1 : SAMPLE_ROWS + 1]) if len(row) == shortest]
    if not rows:
        return None
    *fields, texts = zip(*rows, strict=True)
    words = median(len(cell.split()) for cell in texts)
    is_long = words >= MIN_TEXT_WORDS or median(map(len, texts)) >= MIN_TEXT_CHARACTERS
    return free if is_long and all(map(_is_field, fields)) else None


def _is_field(cells: tuple[str, ...]) -> bool:
    """Return True for a column of numbers or of a few short words."""
    if all(re.fullmatch(r" *[-+\d.eE]+ *", cell) for cell in cells):
        return True
    return len({*cells}) <= MAX_FIELD_VALUES and all(
        len(cell) <= MAX_FIELD_CHARACTERS and len(cell.split()) <= MAX_FIELD_WORDS for cell in cells
    )


def _proves_quotes(quoted: CellRows, divided: CellRows) -> bool:
    """Return True if quotation marks enclose cells in a file that also parses without them.

    Evidence: a delimiter, a line end or a doubled mark inside a quoted cell, or a column in which
    every cell is quoted. A sentence in quotation marks alone is a text like others.
    """
    if [len(row) for row in quoted] != [len(row) for row in divided[: len(quoted)]]:
        return True
    if any('""' in cell[1:-1] and cell[0] == '"' == cell[-1] for row in divided for cell in row):
        return True
    return _has_quoted_column(divided)


def _has_quoted_column(divided: CellRows) -> bool:
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
