r"""Tables: rows of cells with named columns, read from any format; and writing.

Cells stay text here; their types are inferred by `saccade.data.tables.schema`. A line of a table
that is predicted on its own is split here too; with semicolons 1,5 is read as 1.5.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.open import open_records
from saccade.errors import DataError
from saccade.io.atomic import write_atomically
from saccade.io.text_files import MAX_LISTED_ERRORS
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
    target: str | None = None  # default target column of a built-in table
    notes: tuple[str, ...] = ()  # for the user: how it was read

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


def read_table(data: str | Path | object, options: ReadOptions | None = None) -> Table:
    """Read a table from a file of any format, or from an object in memory."""
    return table_from_records(open_records(data, options))


def table_from_records(records: Records) -> Table:
    """Return all rows of some records, without white space around the cells."""
    if len(records.columns) < 2:
        found = f"one column ({records.columns[0]!r})" if records.columns else "no column"
        raise DataError(
            f"{records.name}: got {found}; expected two or more, with "
            "commas, semicolons or tabs between; try --set data.delimiter=… for another separator."
        )
    columns: dict[str, list[str]] = {name: [] for name in records.columns}
    lines: list[int] = []
    for chunk in records.chunks():
        for name, cells in chunk.columns.items():
            columns[name] += ["" if cell is None else cell.strip() for cell in cells]
        lines += chunk.numbers.tolist()
    table = Table(
        records.name,
        columns,
        np.array(lines, np.int64),
        records.delimiter or DELIMITERS[0],
        records.unit,
        notes=records.notes,
    )
    filled = [row for row, cells in enumerate(zip(*columns.values(), strict=True)) if any(cells)]
    if not filled:
        raise DataError(
            f"{records.name}: got a header row and no row below it; expected at least one row."
        )
    return table if len(filled) == len(table) else table.take(np.array(filled, np.int64))


def parse_cell(cell: str, delimiter: str) -> str:
    """Strip a cell; where commas are not the delimiter, read a decimal comma as a point."""
    cell = cell.strip()
    return cell.replace(",", ".") if delimiter == ";" and _DECIMAL_COMMA.fullmatch(cell) else cell


def split_row(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of one line; None if it cannot be parsed.

    Cells between delimiters of several characters have no quotation marks.
    """
    if len(delimiter) > 1:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except csv.Error:
        return None


def join_row(cells: Sequence[str], delimiter: str) -> str:
    """Return the line that `split_row` divides into these cells."""
    if len(delimiter) > 1:
        return delimiter.join(cells)
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator="").writerow(cells)
    return written.getvalue()


def write_table(table: Table, path: Path) -> None:
    """Write a file that `read_table` reads as this table."""
    rows = [list(table.columns), *zip(*table.columns.values(), strict=True)]
    lines = "".join(f"{join_row(row, table.delimiter)}\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lines.encode())


# --- messages -------------------------------------------------------------------------------------


def pluralise(count: int, what: str) -> str:
    """Return a count with its noun: 1 row, 2 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def first_errors(errors: list[str]) -> list[str]:
    """Return the first errors, and one line with the number of the others."""
    more = len(errors) - MAX_LISTED_ERRORS
    return errors[:MAX_LISTED_ERRORS] + ([f"… and {more:,} more like these"] if more > 0 else [])
