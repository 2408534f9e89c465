"""Rows that are Python objects as records: mappings, sequences or single values.

The columns are those of the first rows: the fields of mappings (nested ones with a dotted path),
named tuples and dataclasses, "column 1", … of sequences, "text" of strings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, Cells, RecordChunk, Records
from saccade.data.records.cells import flatten_fields, to_cells
from saccade.data.records.columns import numbered_columns
from saccade.errors import DataError

CONVERT_ROWS = 1 << 9  # turned into columns at a time, while they are in the processor's cache
TEXT_COLUMN, VALUE_COLUMN = "text", "value"


class NumberedRow(NamedTuple):
    """A row and its number: the line of a file or the position in a list, from 1."""

    number: int
    value: Any


ReadRows = Callable[[], Iterator[NumberedRow]]  # starts anew with each call


class RowShape(NamedTuple):
    """The kind of the rows and their columns."""

    kind: str  # "object", "list" or "value"
    columns: tuple[str, ...]
    is_nested: bool = False


def open_rows(name: str, format: str, read: ReadRows, unit: str = "row") -> Records:
    """Open rows that are Python objects.

    Args:
        name: of the source, for messages.
        format: of the source.
        read: returns an iterator over the rows.
        unit: "line" or "row", which the numbers count.
    """
    sample = list(islice(read(), CHUNK_ROWS))
    if not sample:
        raise DataError(f"{name}: got no rows; expected at least one.")
    where = partial("{}, {} {:,}".format, name, unit)
    shape = _shape(sample, where)
    notes = []
    if shape.kind == "object" and len(sample) == CHUNK_ROWS:
        notes.append(f"the columns are the fields of the first {CHUNK_ROWS:,} rows")
    return Records(
        name,
        format,
        shape.columns,
        lambda names: _chunks(read, shape, where, names),
        has_header=shape.kind == "object",
        unit=unit,
        notes=tuple(notes) if len(sample) == CHUNK_ROWS else (),
    )


def _chunks(
    read: ReadRows, shape: RowShape, where: Callable[[int], str], names: tuple[str, ...]
) -> Iterator[RecordChunk]:
    rows = read()
    cells: dict[str, Cells] = {name: [] for name in names}
    numbers: list[int] = []
    while some := list(islice(rows, CONVERT_ROWS)):
        found, values = map(list, zip(*some, strict=True))
        if {*map(type, values)} != {dict} or shape.kind != "object":
            values = list(map(as_fields, values))
            for number, value in zip(found, values, strict=True):
                if _kind(value) != shape.kind:
                    raise _mixed(where(number), value, shape.kind)
        for name, column in _columns(values, shape, where, found, names).items():
            cells[name] += column
        numbers += found
        if len(numbers) >= CHUNK_ROWS:
            yield RecordChunk(cells, np.array(numbers, np.int64))
            cells, numbers = {name: [] for name in names}, []
    if numbers:
        yield RecordChunk(cells, np.array(numbers, np.int64))


def _columns(
    values: list[Any],
    shape: RowShape,
    where: Callable[[int], str],
    numbers: list[int],
    names: tuple[str, ...],
) -> dict[str, Cells]:
    if shape.kind == "value":
        return {name: to_cells(values) for name in names}
    if shape.kind == "object":
        if shape.is_nested:
            values = [flatten_fields(value) for value in values]
        return {name: to_cells([value.get(name) for value in values]) for name in names}
    width = len(shape.columns)
    for number, value in zip(numbers, values, strict=True):
        if len(value) != width:
            raise DataError(
                f"{where(number)}: got {len(value)} values; expected {width}, as in the first "
                "row; try None for a missing value."
            )
    positions = {name: position for position, name in enumerate(shape.columns)}
    return {name: to_cells(value[positions[name]] for value in values) for name in names}


def _shape(sample: list[NumberedRow], where: Callable[[int], str]) -> RowShape:
    values = [as_fields(row.value) for row in sample]
    kind = _kind(values[0])
    for row, value in zip(sample, values, strict=True):
        if _kind(value) != kind:
            raise _mixed(where(row.number), value, kind)
    if kind == "list":
        return RowShape(kind, numbered_columns(len(values[0])))
    if kind == "value":
        is_text = any(isinstance(value, str) for value in values)
        return RowShape(kind, (TEXT_COLUMN if is_text else VALUE_COLUMN,))
    is_nested = any(isinstance(v, Mapping) for value in values for v in value.values())
    flat = map(flatten_fields, values) if is_nested else values
    names = tuple(dict.fromkeys(name for row in flat for name in row))
    if not names:
        raise DataError(f"{where(sample[0].number)}: got an empty object; expected named fields.")
    return RowShape(kind, names, is_nested)


def as_fields(row: Any) -> Any:
    """Return a mapping by name of a named tuple, a dataclass or a mapping; else the row itself."""
    if type(row) is dict or isinstance(row, str):
        return row
    if isinstance(row, Mapping):
        return {str(name): value for name, value in row.items()}
    if isinstance(row, tuple) and hasattr(row, "_asdict"):
        return row._asdict()
    if is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    if isinstance(row, np.ndarray):
        return row.tolist()
    return row


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "object"
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    return "list" if is_list else "value"


def _mixed(where: str, value: Any, kind: str) -> DataError:
    expected = {"object": "named fields", "list": "a list of values", "value": "a single value"}
    return DataError(
        f"{where}: got {str(value)[:60]!r}; expected {expected[kind]}, as in the first row."
    )
