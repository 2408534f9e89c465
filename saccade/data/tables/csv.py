r"""Tables as files have them: a first row of names, then a row of cells for each example.

Cells stand with commas, semicolons or tabs between them, in quotation marks where they have to be.
They stay text here; what they mean is for `saccade.data.tables.schema` to find out. Empty lines are no
rows. In a file with semicolons 1,5 is read as 1.5.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from saccade.errors import ConfigError, DataError
from saccade.io.atomic import write_atomically
from saccade.io.text_files import read_lines

IntArray = NDArray[np.int64]

DELIMITERS = (",", ";", "\t")
MISSING_VALUES = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null"})
MAX_LISTED_ERRORS = 5  # complaints of one kind that are written out; the others are counted
MAX_MAGNITUDE = 1e100  # squares of what is larger may be more than a float64 holds

_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True, eq=False)
class Table:
    """Cells as text, column by column, and the line of the file that each row began in."""

    name: str
    columns: dict[str, list[str]]
    lines: IntArray
    delimiter: str = ","
    unit: str = "line"  # what a row's number counts
    row_errors: tuple[str, ...] = ()  # complaints about rows, which are left out
    target: str | None = None  # what is asked for, where the table itself says so

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: IntArray) -> "Table":
        """The chosen rows, in the chosen order."""
        places = rows.tolist()
        some = {name: [cells[at] for at in places] for name, cells in self.columns.items()}
        return replace(self, columns=some, lines=self.lines[rows])

    def where(self, row: int) -> str:
        """The place of a row, for a message."""
        return f"{self.unit} {self.lines[row]}"


def table_from_columns(
    name: str, columns: Mapping[str, Sequence[object]], target: str | None = None
) -> Table:
    """A table of values that are in memory; None is a missing one."""
    texts = {
        column: ["" if cell is None else str(cell) for cell in cells]
        for column, cells in columns.items()
    }
    counts = {len(cells) for cells in texts.values()}
    if len(counts) != 1:
        raise ValueError(f"got columns of {sorted(counts)} cells; all of one length were wanted.")
    return Table(name, texts, np.arange(1, counts.pop() + 1), unit="row", target=target)


# --- files ----------------------------------------------------------------------------------------


def read_table(path: str | Path) -> Table:
    """A file as a table; complaints about single rows are kept in it, to be said with others."""
    delimiter, rows = _rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path} is empty; a row of names and rows below it were wanted.")
    names = _names(path, *first)
    kept: list[list[str]] = []
    lines: list[int] = []
    ragged: list[str] = []
    for line, cells in rows:
        if len(cells) == len(names):
            kept.append(cells)
            lines.append(line)
        else:
            ragged.append(f"line {line}: {pluralise(len(cells), 'cell')}; {len(names)} were wanted")
    if not kept and not ragged:
        raise DataError(f"{path} has a row of names and nothing below; rows were wanted.")
    columns = dict(zip(names, map(list, zip(*kept, strict=True)), strict=True)) if kept else {}
    return Table(
        str(path),
        columns or {name: [] for name in names},
        np.array(lines, np.int64),
        delimiter,
        row_errors=tuple(first_errors(ragged)),
    )


def _rows(path: str | Path) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """What stands between cells, and each row with the line it began in."""
    lines = read_lines(path)
    begun = []
    for line in lines:
        begun.append(line)
        if line.strip():
            break
    delimiter = detect_delimiter(begun[-1]) if begun else DELIMITERS[0]
    return delimiter, _cells(path, chain(begun, lines), delimiter)


def _cells(
    path: str | Path, lines: Iterator[str], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    ended = (f"{line}\n" for line in lines)  # a cell in quotation marks may go over several
    reader = csv.reader(ended, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path}, line {line}: this is no row of a table ({error}). "
                "Look for a quotation mark that is not closed, or stands alone."
            ) from None
        if cells is None:
            return
        plain = [parse_cell(cell, delimiter) for cell in cells]
        if any(plain):
            yield line, plain


def parse_cell(cell: str, delimiter: str) -> str:
    """A cell without the spaces around it; where commas part no cells they may part digits."""
    cell = cell.strip()
    return cell.replace(",", ".") if delimiter == ";" and _COMMA.fullmatch(cell) else cell


def detect_delimiter(line: str) -> str:
    """What stands between the cells of a line: what parts it into most."""
    return max(DELIMITERS, key=lambda delimiter: len(split_row(line, delimiter) or []))


def split_row(line: str, delimiter: str) -> list[str] | None:
    """The cells of one line; None if it cannot be read."""
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True), [])
    except csv.Error:
        return None


def _names(path: str | Path, line: int, cells: list[str]) -> list[str]:
    numbers = [cell for cell in cells if is_numeric_cell(cell)]
    if 2 * len(numbers) >= len(cells):
        raise DataError(
            f"{path}, line {line}: the first row holds numbers ({', '.join(numbers[:3])}); names "
            "of the columns were wanted there. Put a row of names before it."
        )
    if len(cells) == 1:
        raise DataError(
            f"{path}, line {line}: the first row is one cell ({cells[0][:40]!r}); two columns or "
            "more were wanted, with commas, semicolons or tabs between."
        )
    names = [cell or f"column {place}" for place, cell in enumerate(cells, start=1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{path}, line {line}: {', '.join(map(repr, twice))} names more than one column; give "
            "each a name of its own."
        )
    return names


def write_table(table: Table, path: Path) -> None:
    """A file that `read_table` reads as this table."""
    written = io.StringIO()
    writer = csv.writer(written, delimiter=table.delimiter, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(zip(*table.columns.values(), strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, written.getvalue().encode())


# --- cells ----------------------------------------------------------------------------------------


def is_numeric_cell(cell: str) -> bool:
    """Whether a cell is a number that can be learned from."""
    try:
        return isfinite(value := float(cell)) and abs(value) <= MAX_MAGNITUDE and "_" not in cell
    except ValueError:
        return False


def pluralise(count: int, what: str) -> str:
    """1 row, 2 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def first_errors(complaints: list[str]) -> list[str]:
    """The first few, and how many more there are."""
    more = len(complaints) - MAX_LISTED_ERRORS
    return complaints[:MAX_LISTED_ERRORS] + (
        [f"… and {more:,} more like these"] if more > 0 else []
    )


# --- sides ----------------------------------------------------------------------------------------


def split_rows(table: Table, dev: float, test: float, seed: int = 0) -> dict[str, IntArray]:
    """Which rows are to learn from, which for dev and which for test, each in the table's order.

    Rows stand in the order of a hash of the seed and their cells; the first of them are test, the
    next dev, so that the shares are exact. Rows that are alike are on one side, wherever they stand
    in the file.
    """
    if dev + test >= 1:
        raise ConfigError(
            f"data.dev_share={dev} and data.test_share={test} leave nothing to learn from; they "
            "must be under 1 together."
        )
    count = len(table)
    rows = zip(*table.columns.values(), strict=True)
    digests = np.array([_digest(seed, row) for row in rows], np.uint64)
    order = np.argsort(digests, kind="stable")
    places = digests[order]
    first = _past_alike(places, max(1, round(test * count)))
    second = _past_alike(places, first + max(1, round(dev * count)))
    cuts = {"train": order[second:], "dev": order[first:second], "test": order[:first]}
    sizes = {name: len(rows) for name, rows in cuts.items()}
    if sizes["train"] < 2 or not sizes["dev"]:
        shown = ", ".join(f"{size} for {name}" for name, size in sizes.items())
        raise DataError(
            f"{table.name} has {pluralise(count, 'row')} ({shown}); two or more to learn from and "
            "one or more for each of the others were wanted. Rows that are alike count together."
        )
    return {name: np.sort(rows).astype(np.int64) for name, rows in cuts.items()}


def _past_alike(places: NDArray[np.uint64], cut: int) -> int:
    while 0 < cut < len(places) and places[cut] == places[cut - 1]:
        cut += 1
    return min(cut, len(places))


def _digest(seed: int, cells: tuple[str, ...]) -> int:
    text = "\x1f".join((str(seed), *cells))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
