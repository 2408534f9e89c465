r"""Reading, writing and splitting of delimited tables: a header row, then a row for each example.

The delimiter is a comma, a semicolon or a tab; cells may be quoted. Cells stay text here; their
types are inferred by `saccade.data.tables.schema`. Empty lines are skipped. In a file with
semicolons 1,5 is read as 1.5.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from saccade.data.hashing import hash_bytes
from saccade.data.splits import SPLIT_NAMES, split_by_order
from saccade.errors import ConfigError, DataError
from saccade.io.atomic import write_atomically
from saccade.io.numbers import is_number
from saccade.io.text_files import MAX_LISTED_ERRORS, read_lines
from saccade.types.arrays import IntArray

DELIMITERS = (",", ";", "\t")
MISSING_VALUES = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null"})
MAX_MAGNITUDE = 1e100  # the square of a larger number may overflow a float64

_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True, eq=False)
class Table:
    """Cells as text, by column, and the line of the file on which each row starts."""

    name: str
    columns: dict[str, list[str]]
    lines: IntArray
    delimiter: str = ","
    unit: str = "line"  # what `lines` counts: "line" of a file or "row"
    row_errors: tuple[str, ...] = ()  # errors of rows that are left out
    target: str | None = None  # default target column of a built-in table

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: IntArray) -> "Table":
        """Return the rows at the indices, in that order."""
        indices = rows.tolist()
        columns = {name: [cells[row] for row in indices] for name, cells in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[rows])

    def where(self, row: int) -> str:
        """Return the position of a row for a message: "line 7"."""
        return f"{self.unit} {self.lines[row]}"


def table_from_columns(
    name: str, columns: Mapping[str, Sequence[object]], target: str | None = None
) -> Table:
    """Return a table of values in memory; None is a missing value."""
    texts = {
        column: ["" if cell is None else str(cell) for cell in cells]
        for column, cells in columns.items()
    }
    counts = {len(cells) for cells in texts.values()}
    if len(counts) != 1:
        raise ValueError(f"got columns of {sorted(counts)} cells; expected columns of one length.")
    return Table(name, texts, np.arange(1, counts.pop() + 1), unit="row", target=target)


# --- files ----------------------------------------------------------------------------------------


def read_table(path: str | Path) -> Table:
    """Read a table from a file; errors of single rows are kept in `row_errors`."""
    delimiter, rows = _rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: got an empty file; expected a header row and rows below it.")
    names = _column_names(path, *first)
    kept: list[list[str]] = []
    lines: list[int] = []
    ragged: list[str] = []
    for line, cells in rows:
        if len(cells) == len(names):
            kept.append(cells)
            lines.append(line)
        else:
            found = pluralise(len(cells), "cell")
            ragged.append(f"line {line}: got {found}; expected {len(names)}")
    if not kept and not ragged:
        raise DataError(f"{path}: got a header row and no row below it; expected at least one row.")
    columns = dict(zip(names, map(list, zip(*kept, strict=True)), strict=True)) if kept else {}
    return Table(
        str(path),
        columns or {name: [] for name in names},
        np.array(lines, np.int64),
        delimiter,
        row_errors=tuple(first_errors(ragged)),
    )


def _rows(path: str | Path) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Return the delimiter, and an iterator over the rows with the line each starts on."""
    lines = read_lines(path)
    first_lines = []
    for line in lines:
        first_lines.append(line)
        if line.strip():
            break
    delimiter = detect_delimiter(first_lines[-1]) if first_lines else DELIMITERS[0]
    return delimiter, _cells(path, chain(first_lines, lines), delimiter)


def _cells(
    path: str | Path, lines: Iterator[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    ended = (f"{line}\n" for line in lines)  # a quoted cell may span several lines
    reader = csv.reader(ended, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path}, line {line}: got a row that cannot be parsed ({error}); expected cells "
                f"with {delimiter!r} between; try closing or removing a single quotation mark."
            ) from None
        if cells is None:
            return
        parsed = [parse_cell(cell, delimiter) for cell in cells]
        if any(parsed):
            yield line, parsed


def parse_cell(cell: str, delimiter: str) -> str:
    """Strip a cell; where commas are not the delimiter, read a decimal comma as a point."""
    cell = cell.strip()
    return cell.replace(",", ".") if delimiter == ";" and _DECIMAL_COMMA.fullmatch(cell) else cell


def detect_delimiter(line: str) -> str:
    """Return the delimiter that splits a line into the largest number of cells."""
    return max(DELIMITERS, key=lambda delimiter: len(split_row(line, delimiter) or []))


def split_row(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of one line; None if it cannot be parsed."""
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except csv.Error:
        return None


def _column_names(path: str | Path, line: int, cells: list[str]) -> list[str]:
    numbers = [cell for cell in cells if is_number(cell, MAX_MAGNITUDE)]
    if 2 * len(numbers) >= len(cells):
        raise DataError(
            f"{path}, line {line}: got numbers in the first row ({', '.join(numbers[:3])}); "
            "expected the names of the columns; try inserting a header row."
        )
    if len(cells) == 1:
        raise DataError(
            f"{path}, line {line}: got one cell in the first row ({cells[0][:40]!r}); expected two "
            "columns or more, with commas, semicolons or tabs between."
        )
    names = [cell or f"column {number}" for number, cell in enumerate(cells, start=1)]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise DataError(
            f"{path}, line {line}: got {', '.join(map(repr, duplicates))} as the name of more than "
            "one column; expected different names."
        )
    return names


def write_table(table: Table, path: Path) -> None:
    """Write a file that `read_table` reads as this table."""
    written = io.StringIO()
    writer = csv.writer(written, delimiter=table.delimiter, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(zip(*table.columns.values(), strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, written.getvalue().encode())


# --- messages -------------------------------------------------------------------------------------


def pluralise(count: int, what: str) -> str:
    """Return a count with its noun: 1 row, 2 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def first_errors(errors: list[str]) -> list[str]:
    """Return the first errors, and one line with the number of the others."""
    more = len(errors) - MAX_LISTED_ERRORS
    return errors[:MAX_LISTED_ERRORS] + ([f"… and {more:,} more like these"] if more > 0 else [])


# --- splits ---------------------------------------------------------------------------------------


def split_rows(table: Table, dev: float, test: float, seed: int = 0) -> dict[str, IntArray]:
    """Return the rows of train, dev and test, each in the table's order.

    Rows are sorted by a hash of the seed and their cells; the first are test, the next dev, so that
    the shares are exact. Equal rows are in one split, wherever they are in the file.
    """
    if dev + test >= 1:
        raise ConfigError(
            f"got data.dev_share={dev} and data.test_share={test}; expected a sum under 1, so that "
            "rows are left for training."
        )
    rows = zip(*table.columns.values(), strict=True)
    digests = hash_bytes("\x1f".join((str(seed), *row)).encode() for row in rows)
    splits = split_by_order(digests, dev, test)
    cuts = {name: np.flatnonzero(splits == split) for split, name in enumerate(SPLIT_NAMES)}
    sizes = {name: len(rows) for name, rows in cuts.items()}
    if sizes["train"] < 2 or not sizes["dev"]:
        counts = ", ".join(f"{size} for {name}" for name, size in sizes.items())
        raise DataError(
            f"{table.name}: got {pluralise(len(table), 'row')} ({counts}); expected at least two "
            "for train and one each for dev and test. Equal rows are kept together; try more rows."
        )
    return cuts
