"""The value that every reader of tabular data returns: `Records`, read in chunks of text cells.

A cell is text or None (missing), whatever the format: an integer 3 of a Parquet file and the "3" of
a CSV file are the same cell, a float is written with the fewest digits that read back as the same
number, a boolean is "true" or "false", a date is in ISO 8601. Types are inferred by the tasks.
Fields of nested JSON objects are columns with a dotted path ("translation.en").
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.errors import DataError
from saccade.io.byte_source import ByteSource
from saccade.registry import did_you_mean
from saccade.types.arrays import IntArray

CHUNK_ROWS = 1 << 13  # rows of a chunk, at most

Cells = list[str | None]
Delimiter = Annotated[str, Field(min_length=1, max_length=16, pattern=r'^[^"\r\n]*$')]


class ReadOptions(Config):
    """Properties of a file that cannot always be detected; None: detected."""

    encoding: str | None = None
    """Text encoding of the file, such as `latin-1` or `gb18030`."""
    delimiter: Delimiter | None = None
    """Separator of the columns."""
    header: bool | None = None
    """Whether the first row has the names of the columns."""
    quoting: bool | None = None
    """Whether quotation marks enclose cells of a delimited file."""


class RecordChunk(NamedTuple):
    """Some rows: the cells of each column, and the number of each row in its source."""

    columns: dict[str, Cells]
    numbers: IntArray  # lines of a file or rows of a frame, counted from 1

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Records:
    """Rows with named columns. Reading starts anew with each call of `chunks`."""

    name: str  # path as the user gave it, for messages
    format: str  # "csv", "tsv", "jsonl", "json", "parquet", "text", "memory", …
    columns: tuple[str, ...]  # "column 1", … without a header
    read: Callable[[tuple[str, ...]], Iterator[RecordChunk]]  # chunks of the named columns
    has_header: bool = True
    unit: str = "line"  # what the numbers of a chunk count: "line" or "row"
    encoding: str | None = None  # of a text file
    delimiter: str | None = None  # of a delimited file
    text_source: ByteSource | None = None  # of a single text file, for readers of whole lines
    has_quotes: bool = False  # True: quotation marks may enclose cells of a delimited file
    is_repeatable: bool = True  # False: standard input, an iterator
    notes: tuple[str, ...] = ()  # for the user: what was detected and what was left out
    locate: Callable[[int], str] | None = None  # position of a row in one of several files

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[RecordChunk]:
        """Yield the rows in chunks, with some of the columns or all of them."""
        if columns is None:
            return self.read(self.columns)
        for name in columns:
            self.check_column(name)
        return self.read(tuple(columns))

    def head(self, rows: int = 1000) -> RecordChunk:
        """Return the first rows."""
        cells: dict[str, Cells] = {name: [] for name in self.columns}
        numbers: list[int] = []
        for chunk in self.chunks():
            for name, column in chunk.columns.items():
                cells[name] += column[: rows - len(numbers)]
            numbers += chunk.numbers[: rows - len(numbers)].tolist()
            if len(numbers) >= rows:
                break
        return RecordChunk(cells, np.array(numbers, np.int64))

    def column_at(self, position: str) -> str | None:
        """Return the column at a position that is written in digits, counted from 1."""
        positions = {str(number): name for number, name in enumerate(self.columns, 1)}
        return positions.get(position)

    def check_column(self, name: str) -> None:
        """Raise a DataError if there is no column of this name."""
        if name not in self.columns:
            raise DataError(
                f"{self.name}: got no column {name!r}.{did_you_mean(name, self.columns)} It has: "
                f"{', '.join(self.columns)}."
            )

    def where(self, number: int) -> str:
        """Return the position of a row for a message: "pairs.csv, line 7"."""
        return self.locate(number) if self.locate else f"{self.name}, {self.unit} {number:,}"
