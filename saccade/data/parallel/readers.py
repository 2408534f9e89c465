"""Readers of parallel text.

Formats, each of them plain, .gz or .xz:
- `pairs.tsv`: source TAB target in each line;
- `a.en,a.de`: two files, line by line;
- `pairs.jsonl`: {"source": …, "target": …} in each line, or "src" and "tgt"; other fields are
  ignored. Two fields with other names are an error: which one is the source would be a guess.

Empty lines, pairs with an empty side and pairs beyond a limit are left out, and
`SentencePairs.notes` has their number and lines. Anything else is an error; one message lists all.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from saccade.data.parallel.pairs import (
    SentencePairs,
    StringArrayBuilder,
    assign_split,
    excerpt,
    make_readonly,
    split_indices,
)
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

    def __init__(self, name: str, limit: int | None):
        self.name = name
        self.limit = limit
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
            f"{self.name}: {_left_out(what, count, self.left_out_lines[what])}"
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


def _left_out(what: str, count: int, lines: list[int]) -> str:
    noun, space, rest = what.partition(" with")
    if count == 1:
        return f"1 {what} was left out (line {lines[0]})."
    listed = ", ".join(map(str, lines)) + (", …" if count > len(lines) else "")
    return f"{count} {noun}s{space}{rest} were left out (lines {listed})."


def read_pairs(spec: str | Path | Sequence[str | Path], limit: int | None = None) -> SentencePairs:
    """Return the pairs of a file or of two parallel files ("a.en,a.de").

    A pair with more than `limit` characters on a side is left out, with a note.
    """
    paths = _paths(spec)
    for path in paths:
        read_first_bytes(path)
    reading = _Reading(", ".join(map(str, paths)), limit)
    if len(paths) == 2:
        return _read_parallel(paths[0], paths[1], reading)
    if _is_json(paths[0]):
        return _read_json(paths[0], reading)
    return _read_tsv(paths[0], reading)


def _paths(spec: str | Path | Sequence[str | Path]) -> list[Path]:
    if isinstance(spec, str | Path):
        # a file name may contain a comma
        whole = isinstance(spec, Path) or os.path.exists(spec)
        spec = [spec] if whole else [part.strip() for part in str(spec).split(",")]
    if len(spec) not in (1, 2) or not all(map(str, spec)):
        given = ",".join(map(str, spec)) or "no file"
        raise DataError(
            f"got {given}; expected one file of pairs or two parallel files (a.en,a.de)."
        )
    return [Path(part) for part in spec]


def _is_json(path: Path) -> bool:
    """Detect JSON lines by the suffix, or without a known one by the first line."""
    plain = path.with_suffix("") if path.suffix in (".gz", ".xz") else path
    if plain.suffix in (".jsonl", ".json", ".ndjson"):
        return True
    if plain.suffix in (".tsv", ".tab", ".csv"):
        return False
    first = next((line for line in read_lines(path) if line.strip()), "")
    return first.lstrip().startswith("{") and "\t" not in first


def _lines_of(block: LineBlock) -> _Texts:
    buffer = np.frombuffer(block.content, dtype=np.uint8)
    ends = np.flatnonzero(buffer == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    # index -1, before the first byte, is the last byte in numpy: a newline, so it is no "\r"
    return _Texts(buffer, starts, ends - ((buffer[ends - 1] == _RETURN) & (ends > starts)))


def _read_tsv(path: Path, reading: _Reading) -> SentencePairs:
    max_columns = 1
    for block in read_blocks(path):
        texts = _lines_of(block)
        numbers = np.arange(len(texts.starts)) + block.first_line
        tabs = np.flatnonzero(texts.buffer == _TAB)
        first = np.searchsorted(tabs, texts.starts)
        columns = np.searchsorted(tabs, texts.ends) - first + 1
        pair = columns == 2
        middle = tabs[first[pair]]
        whole = texts.where(pair)
        source = whole._replace(ends=middle)
        reading.keep(source, whole._replace(starts=middle + 1), numbers[pair])
        others = np.flatnonzero(~pair)
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
    return reading.pairs("source TAB target in each line", _tsv_advice(path, max_columns))


def _columns(count: int) -> str:
    return "got 1 column (no tab)" if count == 1 else f"got {count} columns"


def _tsv_advice(path: Path, max_columns: int) -> str:
    if max_columns > 2:
        return f"To keep the first two columns: cut -f1,2 {path} > new-file"
    if path.suffix == ".csv":
        return "Commas do not separate the columns here: save the table as TSV (tab-separated)."
    return "Put one tab between source and target, or give two parallel files (a.en,a.de)."


def _read_parallel(left: Path, right: Path, reading: _Reading) -> SentencePairs:
    streams = [map(_lines_of, read_blocks(path)) for path in (left, right)]
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


# --- JSON lines ---------------------------------------------------------------------------------

_FIELDS = (("source", "target"), ("src", "tgt"))


def _read_json(path: Path, reading: _Reading) -> SentencePairs:
    for block in read_blocks(path):
        texts: list[bytes] = []  # a source, its target, the next source …
        lines: list[int] = []
        for number, line in enumerate(block.content[:-1].split(b"\n"), start=block.first_line):
            if not line.strip():
                reading.leave_out("empty line", np.array([number]))
                continue
            try:
                texts += _pair_of(line)
                lines.append(number)
            except ValueError as error:
                reading.complain(np.array([number]), [str(error)])
        reading.keep(*_sides_of(texts), np.array(lines, dtype=np.int64))
    advice = "To turn one JSON list into lines: jq -c '.[]' FILE > new.jsonl"
    return reading.pairs('{"source": "…", "target": "…"} in each line', advice)


def _pair_of(line: bytes) -> tuple[bytes, bytes]:
    """Return source and target of one line, or raise a ValueError with the reason."""
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "too deep or too long")
        raise ValueError(f"not JSON ({reason}): {excerpt(line)}") from None
    for names in _FIELDS:
        if isinstance(value, dict) and all(name in value for name in names):
            source, target = (_text_of(name, value[name]) for name in names)
            return source, target
    raise ValueError(f'no "source" and "target": {excerpt(line)}')


def _text_of(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f'got {json.dumps(value)[:40]} in "{name}"; expected text')
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(value[error.start]):04x}"
        raise ValueError(f'got a lone surrogate ({half}) in "{name}": {excerpt(value)}') from None


def _sides_of(texts: list[bytes]) -> tuple[_Texts, _Texts]:
    # a byte behind the last, so that an empty string at the end has a first byte, too
    buffer = np.frombuffer(b"".join([*texts, b"\n"]), dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    starts = np.concatenate([[0], ends[:-1]]) if texts else ends
    return _Texts(buffer, starts[::2], ends[::2]), _Texts(buffer, starts[1::2], ends[1::2])
