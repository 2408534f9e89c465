"""Opening of tabular data: the format is detected from the name and the first bytes."""

import os
from pathlib import Path

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.delimited import DELIMITED_SUFFIXES, open_text
from saccade.data.records.json import JSON_SUFFIXES, is_json, open_json
from saccade.data.records.memory import open_memory
from saccade.io.byte_source import (
    STANDARD_INPUT,
    ByteSource,
    file_source,
    spooled_standard_input,
)

FORMAT_BYTES = 1 << 10  # that show the format of a file


def open_records(data: str | Path | object, options: ReadOptions | None = None) -> Records:
    """Open a file, an address, standard input ("-") or an object in memory as records."""
    options = ReadOptions() if options is None else options
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data)
        source = spooled_standard_input() if name == STANDARD_INPUT else file_source(Path(name))
        return _open_source(source, options)
    return open_memory(data)


def _open_source(source: ByteSource, options: ReadOptions) -> Records:
    if source.suffix in JSON_SUFFIXES and options.delimiter is None:
        return open_json(source, options)
    if source.suffix not in DELIMITED_SUFFIXES and options.delimiter is None:
        start = source.first_bytes(FORMAT_BYTES).decode("utf-8-sig", "replace")
        if is_json(start):
            return open_json(source, options)
    return open_text(source, options)
