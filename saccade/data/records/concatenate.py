"""Several files with the same columns as one: the rows of one after those of another.

Numbers of rows continue from file to file; `Records.where` gives the file and its own line. Files
whose names are those of splits (train, dev, test) get a column "split".
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from saccade.data.records.base import Cells, ReadOptions, RecordChunk, Records
from saccade.errors import DataError

SPLIT_COLUMN = "split"
MAX_OPENED_FILES = 64  # whose columns are compared before reading

_SPLIT = re.compile(
    r"(?:^|[-_./\d])(train|training|dev|valid|validation|val|test|testing)(?=$|[-_./\d])",
    re.IGNORECASE,
)

OpenPart = Callable[[ReadOptions], Records]


@dataclass(frozen=True)
class FilePart:
    """A file of several: its name in their folder, and how it is opened."""

    name: str
    open: OpenPart

    @property
    def split(self) -> str | None:
        """Split that the name of the file or of its folder has."""
        found = _SPLIT.findall(PurePosixPath(self.name).as_posix())
        return found[-1].lower() if found else None


def concatenate_files(name: str, parts: Sequence[FilePart], options: ReadOptions) -> Records:
    """Return the records of files with the same columns."""
    first = parts[0].open(options)
    if len(parts) == 1:
        return replace(first, name=name, locate=first.where)
    columns = first.columns
    opened = {0: first}
    for number, part in enumerate(parts[1:MAX_OPENED_FILES], 1):
        opened[number] = _open_like(part, first, options)
        if first.format in ("json", "jsonl"):  # a field may be missing in a whole file
            columns = tuple(dict.fromkeys([*columns, *opened[number].columns]))
    splits = [part.split for part in parts]
    has_splits = None not in splits and len({*splits}) > 1 and SPLIT_COLUMN not in columns
    notes = [f"{len(parts):,} files, from {parts[0].name} to {parts[-1].name}", *first.notes]
    if has_splits:
        listed = ", ".join(dict.fromkeys(split for split in splits if split))
        notes.append(
            f"the column {SPLIT_COLUMN!r} has the split that the name of the file has ({listed}); "
            f"to use it: --set data.split_column={SPLIT_COLUMN}"
        )
    reading = _Concatenation(parts, options, opened, has_splits)
    return replace(
        first,
        name=name,
        columns=(*columns, SPLIT_COLUMN) if has_splits else columns,
        read=reading.chunks,
        text_source=None,
        notes=tuple(notes),
        locate=reading.where,
    )


def _open_like(part: FilePart, first: Records, options: ReadOptions) -> Records:
    """Open a file with the columns of the first, in any order; the header may be there only."""
    if first.has_header is False and first.delimiter is not None:
        options = options.with_values(header=False)
    records = part.open(options)
    if {*records.columns} == {*first.columns} or first.format in ("json", "jsonl"):
        return records
    if not records.has_header and len(records.columns) == len(first.columns):
        return _renamed(records, first.columns)
    raise DataError(
        f"{records.name}: got the columns {', '.join(records.columns)}; expected those of "
        f"{first.name}: {', '.join(first.columns)}; try one file, or files with the same columns."
    )


def _renamed(records: Records, columns: tuple[str, ...]) -> Records:
    own = dict(zip(columns, records.columns, strict=True))

    def read(names: tuple[str, ...]) -> Iterator[RecordChunk]:
        for chunk in records.read(tuple(own[name] for name in names)):
            cells = {name: chunk.columns[own[name]] for name in names}
            yield RecordChunk(cells, chunk.numbers)

    return replace(records, columns=columns, read=read)


class _Concatenation:
    """Reading of the files one after another, with the number at which each starts."""

    def __init__(
        self,
        parts: Sequence[FilePart],
        options: ReadOptions,
        opened: dict[int, Records],
        has_splits: bool,
    ):
        self.parts, self.options, self.opened, self.has_splits = parts, options, opened, has_splits
        self.starts: dict[int, int] = {}  # number before the first row of each file

    def chunks(self, names: tuple[str, ...]) -> Iterator[RecordChunk]:
        """Yield the rows of all files."""
        done = 0
        for number, part in enumerate(self.parts):
            records = self._records(number)
            self.starts[number] = start = done
            has_split = self.has_splits and SPLIT_COLUMN in names
            own = tuple(name for name in names if name in records.columns)
            for chunk in records.read(own or records.columns[:1]):
                cells: dict[str, Cells] = {
                    name: chunk.columns[name] if name in own else [None] * len(chunk)
                    for name in names
                }
                if has_split:
                    cells[SPLIT_COLUMN] = [part.split] * len(chunk)
                yield RecordChunk(cells, chunk.numbers + start)
                done = start + int(chunk.numbers[-1])

    def _records(self, number: int) -> Records:
        if number in self.opened:
            return self.opened[number]
        return _open_like(self.parts[number], self.opened[0], self.options)

    def where(self, number: int) -> str:
        """Return the file and the line of a row that was read."""
        file = max((file for file, start in self.starts.items() if start < number), default=0)
        return self._records(file).where(number - self.starts.get(file, 0))
