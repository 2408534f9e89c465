"""Sheets of Excel and OpenDocument files as records, read with calamine (extra `files`).

A sheet is read as a whole: it has at most a million rows. Cells are text: 3 for the number 3.0,
dates in ISO 8601, the results of formulas.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, Cells, ReadOptions, RecordChunk, Records
from saccade.data.records.cells import to_cell
from saccade.data.records.columns import different_names
from saccade.data.records.dialect import SAMPLE_ROWS
from saccade.data.records.header import choose_header, header_note
from saccade.errors import DataError, MissingPackageError
from saccade.io.byte_source import ByteSource, local_file
from saccade.registry import did_you_mean
from saccade.types.arrays import IntArray

EXCEL_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
MAX_EXACT_INTEGER = 1e15  # Excel has 15 digits; larger numbers are written as floats


def open_excel(source: ByteSource, options: ReadOptions, sheet: str | None = None) -> Records:
    """Open a sheet of a workbook; without a name, the first that has cells."""
    workbook = _workbook(source)
    names = list(workbook.sheet_names)
    if sheet is not None and sheet not in names:
        raise DataError(
            f"{source.name}: got no sheet {sheet!r}.{did_you_mean(sheet, names)} It has: "
            f"{', '.join(names)}."
        )
    for name in names if sheet is None else [sheet]:
        columns, numbers = _load(source, workbook, name)
        if columns:
            break
    else:
        what = "a workbook" if sheet is None else f"a sheet {sheet!r}"
        raise DataError(f"{source.name}: got {what} without cells; expected a table.")
    notes: tuple[str, ...] = ()
    if sheet is None and len(names) > 1:
        others = ", ".join(f"{source.name}#{other}" for other in names if other != name)
        notes = (f"read the sheet {name!r}; the others are {others}",)
    return _open_sheet(source, options, columns, numbers, notes)


def _workbook(source: ByteSource) -> Any:
    try:
        import python_calamine
    except ImportError:
        raise MissingPackageError(
            f"{source.name} is an Excel or OpenDocument file, which needs python-calamine: pip "
            "install 'saccade[files]'. Or save the sheet as CSV."
        ) from None
    try:
        return python_calamine.CalamineWorkbook.from_path(str(local_file(source)))
    except python_calamine.CalamineError as error:
        raise _unreadable(source, error) from None


def _unreadable(source: ByteSource, error: Exception) -> DataError:
    reason = str(error).split("\n")[0][:200]
    return DataError(
        f"{source.name}: got a workbook that cannot be read ({reason}); expected .xlsx, .xls or "
        ".ods without a password; try to save the sheet as CSV."
    )


def _load(source: ByteSource, workbook: Any, name: str) -> tuple[list[Cells], IntArray]:
    """Return the columns of a sheet, and the numbers of the rows; without empty ones of both."""
    import python_calamine

    try:
        rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except python_calamine.CalamineError as error:
        raise _unreadable(source, error) from None
    cells = [[_cell(value) for value in row] for row in rows]
    numbers = [number for number, row in enumerate(cells, 1) if any(row)]
    columns = [list(column) for column in zip(*filter(any, cells), strict=True) if any(column)]
    return columns, np.array(numbers, np.int64)


def _cell(value: Any) -> str | None:
    if value == "" and isinstance(value, str):
        return None
    if type(value) is float and value.is_integer() and abs(value) < MAX_EXACT_INTEGER:
        return str(int(value))
    return to_cell(value)


def _open_sheet(
    source: ByteSource,
    options: ReadOptions,
    columns: list[Cells],
    numbers: IntArray,
    notes: tuple[str, ...],
) -> Records:
    start = _first_row(columns)
    if start:
        notes += (f"the rows above row {numbers[start]} are left out: they are no table",)
    sample = [
        [cell or "" for cell in row]
        for row in zip(*(cells[start : start + SAMPLE_ROWS] for cells in columns), strict=True)
    ]
    choice = choose_header(sample, options.header, assume=True)
    names, renamed = different_names(sample[0] if choice.is_header else [""] * len(columns))
    first = start + choice.is_header
    cells = {name: column[first:] for name, column in zip(names, columns, strict=True)}
    return Records(
        source.name,
        "excel",
        names,
        partial(_chunks, cells, numbers[first:]),
        has_header=choice.is_header,
        unit="row",
        notes=(*notes, *header_note(choice, options.header), *renamed),
    )


def _first_row(columns: list[Cells]) -> int:
    """Return the first row of the table: above it are titles, in less than half of the columns."""
    for start, row in enumerate(zip(*columns, strict=True)):
        if 2 * sum(cell is not None for cell in row) >= len(columns):
            return start
    return 0


def _chunks(
    cells: dict[str, Cells], numbers: IntArray, names: tuple[str, ...]
) -> Iterator[RecordChunk]:
    for start in range(0, len(numbers), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        yield RecordChunk({name: cells[name][part] for name in names}, numbers[part])
