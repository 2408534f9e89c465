"""Tables of a SQLite database as records."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, RecordChunk, Records
from saccade.data.records.cells import to_cells
from saccade.errors import DataError
from saccade.io.byte_source import ByteSource, local_file
from saccade.registry import did_you_mean

SQLITE_MAGIC = b"SQLite format 3\0"
_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"


def open_sqlite(source: ByteSource, table: str | None = None) -> Records:
    """Open a table or view of a database; without a name, the only one."""
    path = local_file(source)
    with _connected(source, path) as connection:
        found = [row[0] for row in connection.execute(_TABLES)]
        tables = [name for name in found if not name.startswith("sqlite_")]
        table = _choose(source, tables, table)
        cursor = connection.execute(f"SELECT * FROM {_quoted(table)} LIMIT 0")
        names = tuple(column[0] for column in cursor.description)
    return Records(
        source.name if "#" in source.name else f"{source.name}#{table}",
        "sqlite",
        names,
        partial(_chunks, source, path, table),
        unit="row",
    )


def _choose(source: ByteSource, tables: list[str], table: str | None) -> str:
    if not tables:
        raise DataError(f"{source.name}: got a database without tables; expected one or more.")
    if table is None:
        if len(tables) > 1:
            listed = ", ".join(f"{source.name}#{name}" for name in tables)
            raise DataError(
                f"{source.name}: got a database with {len(tables)} tables; expected the name of "
                f"one; try one of: {listed}"
            )
        return tables[0]
    if table not in tables:
        raise DataError(
            f"{source.name}: got no table {table!r}.{did_you_mean(table, tables)} It has: "
            f"{', '.join(tables)}."
        )
    return table


def _chunks(
    source: ByteSource, path: Path, table: str, names: tuple[str, ...]
) -> Iterator[RecordChunk]:
    columns = ", ".join(map(_quoted, names)) or "1"
    done = 0
    with _connected(source, path) as connection:
        cursor = connection.execute(f"SELECT {columns} FROM {_quoted(table)}")
        while rows := cursor.fetchmany(CHUNK_ROWS):
            cells = dict(zip(names, map(to_cells, zip(*rows, strict=True)), strict=False))
            yield RecordChunk(cells, np.arange(done + 1, done + 1 + len(rows)))
            done += len(rows)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _connected(source: ByteSource, path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading; its errors are `DataError`."""
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as connection:
            connection.text_factory = lambda content: content.decode("utf-8", "replace")
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: of names
        raise DataError(
            f"{source.name}: got a database that cannot be read ({error}); expected SQLite; try: "
            f"sqlite3 {source.name} 'PRAGMA integrity_check'"
        ) from None
