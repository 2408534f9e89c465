"""Objects in memory as records: frames, columns, rows and iterators.

Frames are recognised by their methods, so that there is no dependency on pandas, polars or Arrow.
Any other object with `__arrow_c_stream__` is read with polars, if that is installed. The rows of an
iterator are kept in a temporary file, so that they can be read again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, RecordChunk, Records
from saccade.data.records.cells import to_cells, to_json_value
from saccade.data.records.columns import different_names
from saccade.data.records.rows import NumberedRow, as_fields, open_rows
from saccade.errors import DataError, MissingPackageError
from saccade.io.spool import Spool

SPOOL_READ_BYTES = 1 << 20

ReadColumn = Callable[[int, int, int], Iterable[Any]]  # (column, start, end) -> values


def open_memory(data: Any, name: str = "data") -> Records:
    """Open an object in memory."""
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # lazy frame of polars
        data = data.collect()
    for kind, read in FRAMES.items():
        if all(hasattr(data, method) for method in kind):
            return read(data, name)
    if isinstance(data, np.ndarray):
        if data.dtype.names:
            return _open_mapping({column: data[column] for column in data.dtype.names}, name)
        return _open_list(data.tolist(), name)
    if isinstance(data, Mapping):
        return _open_mapping(data, name)
    if isinstance(data, AbstractSet):
        raise DataError(
            "got a set as data, which has no order; expected rows in an order; try sorted(data)."
        )
    if isinstance(data, list | tuple) and not hasattr(data, "_fields"):
        return _open_list(data, name)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | bytearray):
        return _open_iterator(iter(data), name)
    raise DataError(
        f"got a {type(data).__name__} as data; expected a path, a pandas, polars or Arrow frame, a "
        "list of rows, mappings or texts, or a mapping from column to values."
    )


def _open_polars(frame: Any, name: str) -> Records:
    columns = frame.get_columns()
    return _open_columns(
        name, frame.columns, frame.height, lambda i, start, end: columns[i][start:end].to_list()
    )


def _open_pandas(frame: Any, name: str) -> Records:
    names = [
        ".".join(map(str, label)) if isinstance(label, tuple) else str(label)
        for label in frame.columns
    ]
    return _open_columns(
        name, names, len(frame), lambda i, start, end: frame.iloc[start:end, i].tolist()
    )


def _open_arrow(table: Any, name: str) -> Records:
    return _open_columns(
        name,
        table.schema.names,
        table.num_rows,
        lambda i, start, end: table.column(i).slice(start, end - start).to_pylist(),
    )


def _open_arrow_stream(stream: Any, name: str) -> Records:
    try:
        import polars
    except ImportError:
        raise MissingPackageError(
            f"got a {type(stream).__name__}; reading an Arrow stream needs polars: "
            "pip install 'saccade[files]'"
        ) from None
    return open_memory(polars.DataFrame(stream), name)


def _open_series(series: Any, name: str) -> Records:
    values = series.to_list()
    return (
        _open_mapping({str(series.name): values}, name) if series.name else _open_list(values, name)
    )


FRAMES: dict[tuple[str, ...], Callable[[Any, str], Records]] = {  # by attributes
    ("iter_slices", "get_columns", "height"): _open_polars,
    ("iloc", "columns"): _open_pandas,
    ("to_list", "dtype", "name"): _open_series,  # of pandas and polars
    ("num_rows", "schema", "column"): _open_arrow,
    ("__arrow_c_stream__",): _open_arrow_stream,
}


def is_frame(data: object) -> bool:
    """Return True for frames and series of pandas and polars, and for Arrow tables."""
    return hasattr(data, "collect_schema") or any(
        all(hasattr(data, method) for method in kind) for kind in FRAMES
    )


def _open_mapping(data: Mapping[Any, Any], name: str) -> Records:
    columns = [column.tolist() if hasattr(column, "tolist") else column for column in data.values()]
    for label, column in zip(data, columns, strict=True):
        if not isinstance(column, list | tuple):
            raise DataError(
                f"{name}: got a {type(column).__name__} for {label!r}; expected a mapping from "
                "column to a list of values; try a list of mappings for rows."
            )
    lengths = {str(label): len(column) for label, column in zip(data, columns, strict=True)}
    if len({*lengths.values()}) > 1:
        listed = ", ".join(f"{length:,} in {label!r}" for label, length in lengths.items())
        raise DataError(
            f"{name}: got columns of different lengths ({listed}); expected one length."
        )
    return _open_columns(
        name,
        list(lengths),
        max(lengths.values(), default=0),
        lambda i, start, end: columns[i][start:end],
    )


def _open_columns(name: str, labels: list[str], count: int, read: ReadColumn) -> Records:
    if not labels or not count:
        raise DataError(f"{name}: got no rows; expected at least one.")
    names, notes = different_names(labels)
    positions = {name: position for position, name in enumerate(names)}

    def chunks(chosen: tuple[str, ...]) -> Iterator[RecordChunk]:
        for start in range(0, count, CHUNK_ROWS):
            end = min(start + CHUNK_ROWS, count)
            cells = {column: to_cells(read(positions[column], start, end)) for column in chosen}
            yield RecordChunk(cells, np.arange(start + 1, end + 1))

    return Records(name, "memory", names, chunks, unit="row", notes=notes)


def _open_list(rows: list[Any] | tuple[Any, ...], name: str) -> Records:
    return open_rows(name, "memory", lambda: map(NumberedRow, range(1, len(rows) + 1), rows))


def _open_iterator(rows: Iterator[Any], name: str) -> Records:
    spool = Spool()
    for row in rows:
        spool.append(json.dumps(to_json_value(as_fields(row))).encode() + b"\n")
    return open_rows(name, "memory", partial(_spooled_rows, spool))


def _spooled_rows(spool: Spool) -> Iterator[NumberedRow]:
    position, number, cut = 0, 0, b""
    while content := spool.read_at(position, SPOOL_READ_BYTES):
        position += len(content)
        *lines, cut = (cut + content).split(b"\n")
        for line in lines:
            number += 1
            yield NumberedRow(number, json.loads(line))
