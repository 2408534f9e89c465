"""Two parallel files as records: line n of one and line n of the other are a row."""

import os
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, Cells, ReadOptions, RecordChunk, Records
from saccade.errors import DataError
from saccade.io.byte_source import COMPRESSED_SUFFIXES
from saccade.io.text_files import read_lines

PARALLEL_FORMAT = "two parallel files"


def parallel_paths(name: str) -> tuple[Path, Path] | None:
    """Return the paths of two files with a comma between ("a.en,a.de"); None for any other name."""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) != 2 or os.path.exists(name) or not all(map(os.path.isfile, parts)):
        return None
    return Path(parts[0]), Path(parts[1])


def open_parallel(name: str, paths: tuple[Path, Path], options: ReadOptions) -> Records:
    """Open two parallel files; the columns are named by the suffixes ("en", "de")."""
    languages = [_suffix(path) for path in paths]
    if not all(languages) or len({*languages}) < 2:
        languages = ["column 1", "column 2"]

    def read(columns: tuple[str, ...]) -> Iterator[RecordChunk]:
        streams = [read_lines(path, options.encoding) for path in paths]
        rows = enumerate(zip_longest(*streams), start=1)
        while chunk := list(islice(rows, CHUNK_ROWS)):
            number, last = chunk[-1]
            if None in last:
                short = paths[last.index(None)]
                raise DataError(
                    f"got fewer lines in {short} than in the other file ({number:,} or more); "
                    "expected line n of one to be the translation of line n of the other."
                )
            sides: list[Cells] = [
                list(side) for side in zip(*(row for _, row in chunk), strict=True)
            ]
            cells = dict(zip(languages, sides, strict=True))
            numbers = np.array([number for number, _ in chunk], np.int64)
            yield RecordChunk({column: cells[column] for column in columns}, numbers)

    return Records(name, PARALLEL_FORMAT, tuple(languages), read, has_header=False)


def _suffix(path: Path) -> str:
    if path.suffix.lower() in COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.removeprefix(".")
