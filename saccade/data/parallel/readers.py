"""Readers of parallel text.

- `pairs.tsv`: source TAB target in each line, or more columns; read in blocks with NumPy;
- `a.en,a.de`: two files, line by line;
- any other file or object with two columns of texts (`saccade.data.records`).

Empty lines, pairs with an empty side and pairs beyond a limit are left out, and
`SentencePairs.notes` has their number and lines. Anything else is an error; one message lists all.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from saccade.data.parallel.pairs import (
    SentencePairs,
    StringArrayBuilder,
    assign_split,
    encode_text,
    excerpt,
    make_readonly,
    split_indices,
)
from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.open import ADDRESSES, open_records
from saccade.data.records.role_names import TASK_ROLES, is_language_name, match_names
from saccade.data.records.roles import AskColumn, RoleChoice
from saccade.data.task_records import RoleOptions, describe_records, find_roles, given_columns
from saccade.errors import DataError
from saccade.io.text_files import (
    MAX_LISTED_ERRORS,
    LineBlock,
    read_blocks,
    read_first_bytes,
    read_lines,
)
from saccade.types.arrays import BoolArray, ByteArray, IntArray

__all__ = ["SentencePairs", "read_lines", "read_pairs", "split_indices", "assign_split"]

_NEWLINE, _TAB, _RETURN, _SPACE = b"\n\t\r "


class _Texts(NamedTuple):
    """Strings of a block: buffer[start:end] for each."""

    buffer: ByteArray
    starts: IntArray
    ends: IntArray

    def where(self, rows: Any) -> "_Texts":
        return _Texts(self.buffer, self.starts[rows], self.ends[rows])

    def text(self, row: int) -> bytes:
        return self.buffer[self.starts[row] : self.ends[row]].tobytes()

    def blank(self) -> BoolArray:
        """Return which of them are empty or white space only."""
        empty = self.starts == self.ends
        # only a string that starts with white space can be blank, and that is rare
        for row in np.flatnonzero(~empty & (self.buffer[self.starts] <= _SPACE)).tolist():
            empty[row] = not self.text(row).strip()
        return empty

    def longer(self, limit: int) -> BoolArray:
        """Return which of them have more than `limit` characters."""
        long = self.ends - self.starts > limit  # in bytes, so possibly in characters
        for row in np.flatnonzero(long).tolist():
            long[row] = len(self.text(row).decode()) > limit
        return long


class _Reading:
    """The pairs read so far, the lines left out, and the errors."""

    def __init__(self, name: str, limit: int | None, unit: str = "line"):
        self.name = name
        self.limit = limit
        self.unit = unit
        self.sides = StringArrayBuilder(), StringArrayBuilder()
        self.lines = [np.zeros(0, dtype=np.int32)]
        self.left_out: Counter[str] = Counter()
        self.left_out_lines: dict[str, list[int]] = {}
        self.wrong = 0
        self.complaints: list[str] = []

    def keep(self, source: _Texts, target: _Texts, lines: IntArray) -> None:
        """Add the pairs with text on both sides that are not too long."""
        blank_source, blank_target = source.blank(), target.blank()
        kept = ~(blank_source | blank_target)
        self.leave_out("empty line", lines[blank_source & blank_target])
        self.leave_out("pair with an empty side", lines[blank_source ^ blank_target])
        if self.limit is not None:
            long = kept & (source.longer(self.limit) | target.longer(self.limit))
            self.leave_out(f"pair with more than {self.limit} characters on a side", lines[long])
            kept &= ~long
        for side, texts in zip(self.sides, (source, target), strict=True):
            side.add(*texts.where(kept))
        small = len(lines) == 0 or lines[-1] <= np.iinfo(np.int32).max
        self.lines.append(lines[kept].astype(np.int32 if small else np.int64))

    def leave_out(self, what: str, lines: IntArray) -> None:
        if len(lines):
            self.left_out[what] += len(lines)
            known = self.left_out_lines.get(what, [])
            self.left_out_lines[what] = sorted([*known, *lines[:MAX_LISTED_ERRORS].tolist()])[
                :MAX_LISTED_ERRORS
            ]

    def complain(self, lines: IntArray, complaints: Iterable[str]) -> None:
        """Count the lines as errors; only the first messages are kept."""
        self.wrong += len(lines)
        room = MAX_LISTED_ERRORS - len(self.complaints)
        listed = zip(lines[:room], complaints, strict=False)
        self.complaints += [f"line {line}: {complaint}" for line, complaint in listed]

    def notes(self) -> list[str]:
        return [
            f"{self.name}: {_left_out(what, count, self.left_out_lines[what], self.unit)}"
            for what, count in self.left_out.items()
        ]

    def pairs(self, expected: str, advice: str) -> SentencePairs:
        """Return the pairs, or raise one error that lists all that is wrong."""
        if self.wrong:
            more = self.wrong - len(self.complaints)
            listed = [f"  - {complaint}" for complaint in self.complaints]
            rest = [f"  … and {more} more"] if more else []
            count = "1 line" if self.wrong == 1 else f"{self.wrong} lines"
            heading = f"{self.name}: {count} cannot be used; expected {expected}."
            raise DataError("\n".join([heading, *listed, *rest, advice]))
        source, target = (side.build() for side in self.sides)
        if not len(source):
            found = " ".join(self.notes()) or f"{self.name} is empty."
            raise DataError(f"{self.name}: got no pairs; expected {expected}. {found}")
        return SentencePairs(
            self.name, source, target, make_readonly(np.concatenate(self.lines)), self.notes()
        )


def _left_out(what: str, count: int, lines: list[int], unit: str) -> str:
    noun, space, rest = what.partition(" with")
    if count == 1:
        return f"1 {what} was left out ({unit} {lines[0]})."
    listed = ", ".join(map(str, lines)) + (", …" if count > len(lines) else "")
    return f"{count} {noun}s{space}{rest} were left out ({unit}s {listed})."


@dataclass(frozen=True)
class ParallelTexts:
    """Sentence pairs of a file, of two files or in memory; `read` reads them.

    Its argument is the number of characters on a side above which a pair is left out, or None.
    """

    read: Callable[[int | None], SentencePairs]
    columns: dict[str, str] = field(default_factory=dict)  # by role; empty: not by name
    choices: list[RoleChoice] = field(default_factory=list)  # that the settings left open
    notes: list[str] = field(default_factory=list)  # for the user: how the file is read
    records: Records | None = None  # None: two files


PairSpec = str | Path | Sequence[str | Path]


def read_pairs(spec: PairSpec | object, limit: int | None = None) -> SentencePairs:
    """Return the pairs of a file, of two parallel files ("a.en,a.de") or in memory.

    A pair with more than `limit` characters on a side is left out, with a note.
    """
    return open_pairs(spec).read(limit)


def open_pairs(
    spec: PairSpec | object,
    config: ReadOptions | None = None,
    is_other: bool = False,
    ask: AskColumn | None = None,
) -> ParallelTexts:
    """Open sentence pairs in any format, and find the columns of sources and targets.

    Args:
        spec: a file, two parallel files with a comma between, or an object in memory.
        config: settings of the data; the columns `source` and `target` are inferred if None.
        is_other: True for other data than that of the settings.
        ask: function that asks the user which column has a role.
    """
    config = RoleOptions() if config is None else config
    paths = _paths(spec)
    if len(paths) == 2:
        left, right = paths
        for path in paths:
            read_first_bytes(Path(path))
        return ParallelTexts(partial(_read_parallel, left, right, config.encoding))
    records = open_records(paths[0] if paths else spec, config)
    if _takes_header_for_pair(records, config):
        config = config.with_values(header=False)
        records = open_records(paths[0], config)
    is_tabs = records.delimiter == "\t" and records.text_source and not records.has_quotes
    if records.text_source and (records.format == "text" or is_tabs and len(records.columns) == 1):
        # each line is reported
        return ParallelTexts(partial(_read_tsv, records, _PLAIN_PAIR), records=records)
    is_pair = not records.has_header and len(records.columns) == 2
    if is_tabs and is_pair and not any(given_columns(config, "translate").values()):
        encoding = str(records.encoding).upper()
        note = f"{records.name}: TSV, {encoding}, source TAB target in each line, without a header."
        read = partial(_read_tsv, records, _PLAIN_PAIR)
        return ParallelTexts(read, notes=[note], records=records)
    notes = describe_records(records)
    opened = find_roles(records, config, "translate", is_other=is_other, ask=ask)
    names = (opened.columns["source"], opened.columns["target"])
    read = partial(_read_records, records, names)
    if is_tabs:
        positions = [records.columns.index(name) for name in names]
        read = partial(_read_tsv, records, _TabColumns(len(records.columns), *positions))
    return ParallelTexts(read, opened.columns, opened.choices, notes, records)


def _paths(spec: PairSpec | object) -> list[str | Path]:
    """Return one path or address, or two of parallel files; none for an object in memory."""
    if isinstance(spec, str | Path):
        # a file name may contain a comma
        whole = isinstance(spec, Path) or os.path.exists(spec) or spec.startswith(ADDRESSES)
        spec = [spec] if whole else [part.strip() for part in str(spec).split(",")]
    elif not isinstance(spec, list | tuple) or not all(isinstance(p, str | Path) for p in spec):
        return []
    if len(spec) not in (1, 2) or not all(map(str, spec)):
        given = ",".join(map(str, spec)) or "no file"
        raise DataError(
            f"got {given}; expected one file of pairs or two parallel files (a.en,a.de)."
        )
    # a path would make one slash of the two in an address
    return [part if str(part).startswith(ADDRESSES) else Path(part) for part in spec]


def _takes_header_for_pair(records: Records, config: ReadOptions) -> bool:
    """Return True if the first line of a file of two columns is a pair rather than a header.

    "time TAB temps" is the first line of a dictionary; "source TAB target" is a header.
    """
    is_pair = records.delimiter == "\t" and records.has_header and len(records.columns) == 2
    if not is_pair or config.header is not None:
        return False
    roles = TASK_ROLES["translate"]
    return not all(
        is_language_name(name) or any(m.rank < 2 for r in roles for m in match_names(r, [name]))
        for name in records.columns
    )


# --- records --------------------------------------------------------------------------------------


def _read_records(records: Records, names: tuple[str, str], limit: int | None) -> SentencePairs:
    reading = _Reading(records.name, limit, records.unit)
    for chunk in records.chunks(names):
        texts: list[bytes] = []  # a source, its target, the next source …
        rows = zip(*(chunk.columns[name] for name in names), chunk.numbers.tolist(), strict=True)
        for *pair, number in rows:
            texts += [encode_text(text or "", records.where(number)) for text in pair]
        reading.keep(*_sides_of(texts), chunk.numbers)
    return reading.pairs(f"texts in the columns {names[0]!r} and {names[1]!r}", "")


def _sides_of(texts: list[bytes]) -> tuple[_Texts, _Texts]:
    # a byte behind the last, so that an empty string at the end has a first byte, too
    buffer = np.frombuffer(b"".join([*texts, b"\n"]), dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    starts = np.concatenate([[0], ends[:-1]]) if texts else ends
    return _Texts(buffer, starts[::2], ends[::2]), _Texts(buffer, starts[1::2], ends[1::2])


# --- lines ----------------------------------------------------------------------------------------


def _lines_of(block: LineBlock) -> _Texts:
    buffer = np.frombuffer(block.content, dtype=np.uint8)
    ends = np.flatnonzero(buffer == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    # index -1, before the first byte, is the last byte in numpy: a newline, so it is no "\r"
    return _Texts(buffer, starts, ends - ((buffer[ends - 1] == _RETURN) & (ends > starts)))


class _TabColumns(NamedTuple):
    """Columns separated by tabs: their number, and the positions of source and target."""

    width: int
    source: int
    target: int


_PLAIN_PAIR = _TabColumns(2, 0, 1)


def _read_tsv(records: Records, layout: _TabColumns, limit: int | None) -> SentencePairs:
    assert records.text_source is not None
    max_columns = 1
    reading = _Reading(records.name, limit)
    is_first = records.has_header
    for block in read_blocks(records.text_source, records.encoding):
        texts = _lines_of(block)
        numbers = np.arange(len(texts.starts)) + block.first_line
        tabs = np.flatnonzero(texts.buffer == _TAB)
        first = np.searchsorted(tabs, texts.starts)
        columns = np.searchsorted(tabs, texts.ends) - first + 1
        whole = columns == layout.width
        if is_first and whole.any():
            header = int(np.argmax(whole))
            whole[header], columns[header] = False, 0
            is_first = False
        sides = [_column(texts, tabs, first, whole, at) for at in layout[1:]]
        reading.keep(sides[0], sides[1], numbers[whole])
        others = np.flatnonzero(~whole & (columns > 0))
        if len(others):
            blank = texts.where(others).blank()
            reading.leave_out("empty line", numbers[others[blank]])
            wrong = others[~blank]
            max_columns = int(columns[wrong].max(initial=max_columns))
            complaints = (
                f"{_columns(int(columns[row]))}: {excerpt(texts.text(row))}"
                for row in wrong.tolist()
            )
            reading.complain(numbers[wrong], complaints)
    if layout.width != 2:
        named = f"{layout.width} columns ({', '.join(records.columns)}) with tabs between"
        return reading.pairs(named, "Correct these lines, or remove them.")
    return reading.pairs("source TAB target in each line", _tsv_advice(records.name, max_columns))


def _column(texts: _Texts, tabs: IntArray, first: IntArray, rows: BoolArray, at: int) -> _Texts:
    """Return the cells of one column of the rows, which have the same number of columns."""
    own = texts.where(rows)
    starts = own.starts if at == 0 else tabs[first[rows] + at - 1] + 1
    following = first[rows] + at
    inside = following < len(tabs)
    ends = np.where(inside, tabs[np.minimum(following, max(len(tabs) - 1, 0))], own.ends)
    return own._replace(starts=starts, ends=np.minimum(ends, own.ends))


def _columns(count: int) -> str:
    return "got 1 column (no tab)" if count == 1 else f"got {count} columns"


def _tsv_advice(name: str, max_columns: int) -> str:
    if max_columns > 2:
        return f"To keep the first two columns: cut -f1,2 {name} > new-file"
    return "Put one tab between source and target, or give two parallel files (a.en,a.de)."


def _read_parallel(
    left: str | Path, right: str | Path, encoding: str | None, limit: int | None
) -> SentencePairs:
    reading = _Reading(f"{left}, {right}", limit)
    streams = [map(_lines_of, read_blocks(path, encoding)) for path in (left, right)]
    pending: list[_Texts | None] = [None, None]
    done = 0
    while True:
        for side, stream in enumerate(streams):
            if pending[side] is None:
                pending[side] = next(stream, None)
        source, target = pending
        if source is None or target is None:
            break
        ready = min(len(source.starts), len(target.starts))
        lines = np.arange(done, done + ready) + 1
        reading.keep(source.where(slice(ready)), target.where(slice(ready)), lines)
        pending = [_rest(texts, ready) for texts in (source, target)]
        done += ready
    counts = [
        done + (len(texts.starts) if texts else 0) + sum(len(more.starts) for more in stream)
        for texts, stream in zip(pending, streams, strict=True)
    ]
    if counts[0] != counts[1]:
        raise DataError(
            f"got {counts[0]} lines in {left} and {counts[1]} in {right}; expected line n of one "
            "to be the translation of line n of the other; try one TSV file, or find where they "
            "differ."
        )
    return reading.pairs("a pair in each line of the two files", "")


def _rest(texts: _Texts, done: int) -> _Texts | None:
    return texts.where(slice(done, None)) if done < len(texts.starts) else None
