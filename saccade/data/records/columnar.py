"""Parquet and Arrow files as records, read in batches with polars (extra `files`).

Numbers, booleans and dates are turned into text by polars; other types (times, lists, bytes) value
by value. Fields of structs are columns with a dotted path. Numbers of classes that a Hugging Face
dataset names are replaced by the names.
"""

import io
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, Cells, RecordChunk, Records
from saccade.data.records.cells import to_cells
from saccade.data.records.columns import different_names
from saccade.errors import DataError, MissingPackageError
from saccade.io.byte_source import ByteSource, local_file
from saccade.io.documents import parse_json

ARROW_GROUP_BYTES = 1 << 23  # of record batches that are decoded together
ARROW_FILE_MAGIC = b"ARROW1\0\0"
ARROW_CONTINUATION = b"\xff\xff\xff\xff"
RECORD_BATCH = 3  # kind of a message
PARQUET_MAGIC = b"PAR1"
MAX_CLASS_DIGITS = 10
HUGGING_FACE_KEY = "huggingface"  # of the metadata of a Parquet file

ClassNames = Mapping[str, list[str]]  # by column
ReadFrames = Callable[[list[Any]], Iterator[Any]]  # polars expressions -> frames of them


def import_polars(name: str, kind: str) -> Any:
    """Return the module polars; `MissingPackageError` with the extra if it is not installed."""
    try:
        import polars
    except ImportError:
        raise MissingPackageError(
            f"{name} is {kind}, which needs polars: pip install 'saccade[files]'. Or convert it to "
            "CSV with the program that wrote it."
        ) from None
    return polars


def open_parquet(source: ByteSource) -> Records:
    """Open a Parquet file."""
    polars = import_polars(source.name, "a Parquet file")
    path = local_file(source)
    with _errors(polars, source.name, "Parquet"):
        metadata = polars.read_parquet_metadata(path)
        frame = polars.scan_parquet(path, glob=False)
        classes = class_names(metadata.get(HUGGING_FACE_KEY, ""))
        return _open_lazy_frame(polars, source.name, "Parquet", frame, classes)


def open_arrow(source: ByteSource, classes: ClassNames | None = None) -> Records:
    """Open an Arrow IPC file (Feather version 2) or an Arrow IPC stream."""
    polars = import_polars(source.name, "an Arrow file")
    with _errors(polars, source.name, "Arrow"):
        if source.first_bytes(len(ARROW_FILE_MAGIC)) == ARROW_FILE_MAGIC:
            frame = polars.scan_ipc(local_file(source), glob=False)
            return _open_lazy_frame(polars, source.name, "Arrow", frame, classes or {})
        first = next(_stream_groups(source, 0), b"")
        schema = polars.read_ipc_stream(io.BytesIO(first)).schema

    def read(expressions: list[Any]) -> Iterator[Any]:
        with _errors(polars, source.name, "Arrow"):
            for group in _stream_groups(source, ARROW_GROUP_BYTES):
                yield polars.read_ipc_stream(io.BytesIO(group)).select(expressions)

    return _open_frames(source.name, "arrow", schema, read, classes or {})


def _open_lazy_frame(polars: Any, name: str, kind: str, frame: Any, classes: ClassNames) -> Records:
    def read(expressions: list[Any]) -> Iterator[Any]:
        with _errors(polars, name, kind):
            lazy = frame.select(expressions)
            yield from lazy.collect_batches(chunk_size=CHUNK_ROWS, maintain_order=True, lazy=True)

    return _open_frames(name, kind.lower(), frame.collect_schema(), read, classes)


def class_names(info: str) -> dict[str, list[str]]:
    """Return the names of classes by column from the dataset information of Hugging Face."""
    try:
        parsed = parse_json(info) if info else {}
        features = parsed.get("info", parsed).get("features", {})
        return {
            column: list(map(str, feature["names"]))
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}  # written by another tool


@contextmanager
def _errors(polars: Any, name: str, kind: str) -> Iterator[None]:
    """Turn errors of polars into `DataError`, and its panics, which are no `Exception`."""
    panic = polars.exceptions.PanicException
    try:
        yield
    except (polars.exceptions.PolarsError, panic, OSError, struct.error) as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError(
            f"{name}: got a file that cannot be read as {kind} ({reason}); expected a complete "
            "one; try to copy or download it again."
        ) from None


# --- columns of text ------------------------------------------------------------------------------


class _Column(NamedTuple):
    """An expression for the cells of a column, and whether they are text already."""

    expression: Any
    is_text: bool


def _open_frames(
    name: str, format: str, schema: Mapping[str, Any], read: ReadFrames, classes: ClassNames
) -> Records:
    polars = import_polars(name, format)
    paths = {
        path: column
        for field, dtype in schema.items()
        for path, column in _columns(polars, field, polars.col(field), dtype)
    }
    names, notes = different_names(list(paths))
    columns = dict(zip(names, paths.values(), strict=True))
    named = {column: classes[column] for column in names if column in classes}
    for column, labels in named.items():
        listed = ", ".join(labels[:5]) + (", …" if len(labels) > 5 else "")
        notes += (f"the numbers in {column!r} are replaced by the names of classes: {listed}",)
    return Records(
        name, format, names, partial(_chunks, read, columns, named), unit="row", notes=notes
    )


def _columns(polars: Any, path: str, expression: Any, dtype: Any) -> Iterator[tuple[str, _Column]]:
    """Yield the columns of a field: one, or one for each field of a struct."""
    if isinstance(dtype, polars.Struct):
        for field in dtype.fields:
            inner = expression.struct.field(field.name)
            yield from _columns(polars, f"{path}.{field.name}", inner, field.dtype)
        return
    if dtype.is_float():
        expression = expression.fill_nan(None)
    is_text = dtype.is_numeric() or dtype in (
        polars.String,
        polars.Boolean,
        polars.Categorical,
        polars.Enum,
        polars.Date,
        polars.Null,
    )
    yield path, _Column(expression.cast(polars.String) if is_text else expression, is_text)


def _chunks(
    read: ReadFrames, columns: dict[str, _Column], classes: ClassNames, names: tuple[str, ...]
) -> Iterator[RecordChunk]:
    expressions = [columns[name].expression.alias(str(i)) for i, name in enumerate(names)]
    done = 0
    for frame in read(expressions):
        for part in frame.iter_slices(CHUNK_ROWS):
            if not part.height:
                continue
            cells: dict[str, Cells] = {}
            for name, series in zip(names, part.get_columns(), strict=True):
                values = series.to_list()
                cells[name] = values if columns[name].is_text else to_cells(values)
                if name in classes:
                    cells[name] = [_class_name(cell, classes[name]) for cell in cells[name]]
            yield RecordChunk(cells, np.arange(done + 1, done + 1 + part.height))
            done += part.height


def _class_name(cell: str | None, names: list[str]) -> str | None:
    if cell is None or not cell.removeprefix("-").isdecimal():
        return cell
    is_class = len(cell) < MAX_CLASS_DIGITS and 0 <= int(cell) < len(names)
    return names[int(cell)] if is_class else None  # -1: without a label


# --- Arrow IPC streams ----------------------------------------------------------------------------


MESSAGE_BLOCK = 1 << 20  # bytes: a length that the file declares is not allocated before it is read


class _StreamMessage(NamedTuple):
    """A message of a stream: a schema (1), a dictionary (2) or a record batch (3)."""

    kind: int
    content: bytes


def _stream_groups(source: ByteSource, group_bytes: int) -> Iterator[bytes]:
    """Yield streams with the schema, the dictionaries so far and some record batches each."""
    head: list[bytes] = []
    group: list[bytes] = []
    count = size = 0
    with source.open() as file:
        for message in _stream_messages(file):
            if group and (message.kind != RECORD_BATCH or size >= group_bytes):
                yield b"".join([*head, *group])
                group, size = [], 0
            (group if message.kind == RECORD_BATCH else head).append(message.content)
            size += len(message.content)
            count += message.kind == RECORD_BATCH
    if group or not count:
        yield b"".join([*head, *group])


def _stream_messages(file: IO[bytes]) -> Iterator[_StreamMessage]:
    """Yield the messages of a stream.

    Each is a continuation marker, the length of the metadata, the metadata and the body; a length
    of 0 ends the stream.
    """
    while (prefix := file.read(8)) and (length := _integer(prefix, 4)) > 0:
        metadata = _read_exactly(file, length)
        kind, body_length = _message_fields(metadata)
        yield _StreamMessage(kind, prefix + metadata + _read_exactly(file, body_length))


def _read_exactly(file: IO[bytes], count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0 and (content := file.read(min(count, MESSAGE_BLOCK))):
        parts.append(content)
        count -= len(content)
    if count:
        raise struct.error("the file ends inside a message")
    return b"".join(parts)


def _integer(buffer: bytes, at: int, format: str = "<i") -> int:
    value: int = struct.unpack_from(format, buffer, at)[0]
    return value


def _message_fields(metadata: bytes) -> tuple[int, int]:
    """Return the kind of a message and the length of its body from its metadata (FlatBuffers).

    A table starts with the distance back to its vtable: its size, the size of the table, and the
    offsets of the fields. Field 1 is the type of the header, 3 the length of the body; a field that
    is 0 may be absent.
    """
    table = _integer(metadata, 0)
    vtable = table - _integer(metadata, table)
    size = _integer(metadata, vtable, "<H")
    offsets = {
        field: _integer(metadata, vtable + 4 + 2 * field, "<H")
        for field in (1, 3)
        if 4 + 2 * field < size
    }
    kind = _integer(metadata, table + offsets[1], "<B") if offsets.get(1) else 0
    return kind, _integer(metadata, table + offsets[3], "<q") if offsets.get(3) else 0
