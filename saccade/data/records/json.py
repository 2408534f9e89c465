r"""JSON as records: a list, an object with a list or columns inside, or an object in each line.

Fields of nested objects are columns with a dotted path; lists in a field are written as JSON. The
columns are the fields of the first rows; a row may lack some of them. Lists and lines are read in
blocks; an object that contains the rows is read as a whole.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from json import JSONDecodeError, JSONDecoder
from typing import Any

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.delimited import encoding_notes
from saccade.data.records.dialect import lines_of
from saccade.data.records.rows import NumberedRow, open_rows
from saccade.errors import DataError
from saccade.io.byte_source import ByteSource
from saccade.io.text_files import file_encoding, read_characters, read_text_blocks

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson", ".geojson")
MAX_LIST_DEPTH = 3  # of an object, at which the list of rows is searched
CUT_TOKEN_CHARACTERS = 16  # before the end of a block: an error there may be a token that is cut

DECODE_LINES = 512  # lines decoded at a time

_DECODER = JSONDecoder(strict=False)  # control characters in strings are accepted
# `decode` without its searches for white space around the value
_scan: Callable[[str, int], tuple[Any, int]] = vars(_DECODER)["scan_once"]
_numbered = partial(tuple.__new__, NumberedRow)
JSON_SPACE = " \t\r\n"
_SPACE = re.compile(rf"[{JSON_SPACE}]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def is_json(start: str) -> bool:
    """Return True if a text starts like a JSON object or list."""
    return bool(re.match(r'\s*(\{\s*("|\}|$)|\[\s*([\[{"\]\d-]|null|true|false|$))', start))


def open_json(source: ByteSource, options: ReadOptions, member: str | None = None) -> Records:
    """Open a JSON file.

    Args:
        source: the file.
        options: `encoding` is used.
        member: dotted path to the list of rows in an object; None: found.
    """
    encoding = file_encoding(source, options.encoding)
    start = next(read_characters(source, encoding.name), "").lstrip(JSON_SPACE)
    if not start:
        raise DataError(f"{source.name}: got an empty file; expected JSON.")
    first, _, second = start.partition("\n")
    if start.startswith("[") and source.suffix not in (".jsonl", ".ndjson"):
        records = open_rows(source.name, "json", partial(_list_rows, source, encoding.name))
    elif not member and (
        source.suffix in (".jsonl", ".ndjson")
        or (_is_value(first) and (second.strip() or source.is_live))
    ):
        read = partial(_line_rows, source, encoding.name)
        records = open_rows(source.name, "jsonl", read, unit="line")
    else:
        rows = _rows_of_object(source, encoding.name, member)
        records = open_rows(source.name, "json", partial(_enumerated, rows))
    return replace(
        records,
        encoding=encoding.name,
        notes=(*encoding_notes(encoding, options), *records.notes),
    )


def _is_value(line: str) -> bool:
    try:
        _DECODER.decode(line)
        return True
    except (ValueError, RecursionError):
        return False


def _enumerated(rows: list[Any]) -> Iterator[NumberedRow]:
    return map(NumberedRow, range(1, len(rows) + 1), rows)


# --- lines ----------------------------------------------------------------------------------------


def _line_rows(source: ByteSource, encoding: str) -> Iterator[NumberedRow]:
    """Yield the values of the lines, decoded some hundred at a time."""
    for block in read_text_blocks(source, encoding):
        lines = lines_of(block.text)
        has_surrogates = _SURROGATE.search(block.text) is not None
        for start in range(0, len(lines), DECODE_LINES):
            some, first = lines[start : start + DECODE_LINES], block.first_line + start
            values = None if has_surrogates else _decode_lines(some)
            if values is not None:
                yield from map(_numbered, zip(range(first, first + len(some)), values, strict=True))
                continue
            for number, line in enumerate(some, first):
                if line and not line.isspace():
                    yield NumberedRow(number, _decode_line(source, number, line))


def _decode_lines(lines: list[str]) -> list[Any] | None:
    """Return the values of lines that are all JSON without white space around it; else None."""
    try:
        found = [_scan(line, 0) for line in lines]
    except (StopIteration, ValueError, RecursionError):
        return None
    values, ends = zip(*found, strict=True)
    return list(values) if [*ends] == [*map(len, lines)] else None


def _decode_line(source: ByteSource, number: int, line: str) -> Any:
    try:
        value = _DECODER.decode(line)
        return _without_surrogates(value) if _SURROGATE.search(line) else value
    except JSONDecodeError as error:
        raise DataError(
            f"{source.name}, line {number:,}, character {error.pos + 1:,}: got text that is "
            f"not JSON ({error.msg}) at {_excerpt(line, error.pos)}; expected one JSON "
            "object in each line."
        ) from None
    except ValueError:
        raise _too_long(f"{source.name}, line {number:,}") from None
    except RecursionError:
        raise _too_deep(f"{source.name}, line {number:,}") from None


def _excerpt(text: str, position: int) -> str:
    return repr(text[max(0, position - 10) : position + 30])


def _too_deep(where: str) -> DataError:
    return DataError(f"{where}: got JSON that is nested too deeply; expected rows of values.")


def _too_long(where: str) -> DataError:
    return DataError(
        f"{where}: got an integer of more than {sys.get_int_max_str_digits():,} digits; expected "
        "fewer; try to write it as a text, in quotation marks."
    )


def _without_surrogates(value: Any) -> Any:
    """Replace halves of surrogate pairs, which are no characters."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return list(map(_without_surrogates, value)) if isinstance(value, list) else value


# --- list -----------------------------------------------------------------------------------------


def _list_rows(source: ByteSource, encoding: str) -> Iterator[NumberedRow]:
    """Yield the elements of a list, decoded one by one."""
    text = _GrowingText(source, encoding)
    position = text.skip_space(0)
    assert text.text[position] == "["
    position = text.skip_space(position + 1)
    number = 0
    while text.at(position) != "]":
        if number:
            if text.at(position) != ",":
                raise text.error("Expecting ',' delimiter", position)
            position = text.skip_space(position + 1)
        value, position = text.decode(position)
        number += 1
        yield NumberedRow(number, value)
        position = text.skip_space(position)
    rest = text.skip_space(position + 1)
    if text.at(rest):
        raise text.error("Extra data", rest)


class _GrowingText:
    """The part of a file that is being decoded, extended by blocks."""

    def __init__(self, source: ByteSource, encoding: str):
        self.source = source
        self.blocks = read_characters(source, encoding)
        self.text, self.line = "", 1  # `line`: number of the first line of the text

    def grow(self, position: int) -> bool:
        """Drop the text before a position and add a block; False at the end of the file.

        More blocks are added until the rest has doubled, since a long value is decoded anew.
        """
        parts, size, rest = [self.text[position:]], 0, len(self.text) - position
        while size <= rest and (more := next(self.blocks, None)) is not None:
            parts.append(more)
            size += len(more)
        if not size:
            return False
        self.line += self.text.count("\n", 0, position)
        self.text = "".join(parts)
        return True

    def skip_space(self, position: int) -> int:
        """Return the position of the next token."""
        while True:
            match = _SPACE.match(self.text, position)
            assert match is not None
            if match.end() < len(self.text) or not self.grow(len(self.text)):
                return min(match.end(), len(self.text))
            position = 0

    def at(self, position: int) -> str:
        """Return the character at a position, or an empty string at the end."""
        return self.text[position : position + 1]

    def decode(self, position: int) -> tuple[Any, int]:
        """Return the value at a position and the position after it."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, position)
            except JSONDecodeError as error:
                is_cut = error.pos >= len(self.text) - CUT_TOKEN_CHARACTERS
                if not (is_cut or error.msg.startswith("Unterminated")) or not self.grow(position):
                    raise self.error(error.msg, error.pos) from None
                position = 0
                continue
            except ValueError:
                raise _too_long(f"{self.source.name}, line {self.line_at(position):,}") from None
            except RecursionError:
                raise _too_deep(f"{self.source.name}, line {self.line_at(position):,}") from None
            if end < len(self.text) or not self.grow(position):
                has_surrogates = _SURROGATE.search(self.text, position, end)
                return _without_surrogates(value) if has_surrogates else value, end
            position = 0

    def line_at(self, position: int) -> int:
        """Return the number of the line of a position."""
        return self.line + self.text.count("\n", 0, position)

    def error(self, message: str, position: int) -> DataError:
        """Return the error for text that is not JSON."""
        got = _excerpt(self.text, position) if self.at(position) else "the end of the file"
        return DataError(
            f"{self.source.name}, line {self.line_at(position):,}: got text that is not JSON "
            f"({message}) at {got}; expected a list of objects; try: python -m json.tool "
            f"{self.source.name}"
        )


# --- object ---------------------------------------------------------------------------------------


def _rows_of_object(source: ByteSource, encoding: str, member: str | None) -> list[Any]:
    """Return the rows of a file that is one object."""
    text = "".join(read_characters(source, encoding))
    try:
        value = _without_surrogates(_DECODER.decode(text))
    except JSONDecodeError as error:
        raise DataError(
            f"{source.name}, line {error.lineno:,}, character {error.colno:,}: got text that is "
            f"not JSON ({error.msg}) at {_excerpt(text, error.pos)}; expected a list of objects, "
            f"or one object in each line; try: python -m json.tool {source.name}"
        ) from None
    except ValueError:
        raise _too_long(source.name) from None
    except RecursionError:
        raise _too_deep(source.name) from None
    for key in member.split(".") if member else ():
        if not isinstance(value, Mapping) or key not in value:
            found = ", ".join(map(str, value)) if isinstance(value, Mapping) else "a list"
            raise DataError(f"{source.name}: got no field {member!r}; it has: {found}.")
        value = value[key]
    return _find_rows(source.name, value)


def _find_rows(name: str, value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return [value]
    if {"columns", "data"} <= value.keys() and isinstance(value["data"], list):  # pandas, "split"
        return [dict(zip(value["columns"], row, strict=False)) for row in value["data"]]
    columns = list(value.values())
    if columns and all(isinstance(column, list) for column in columns) and _are_columns(columns):
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    if len(columns) > 1 and _are_indexed(columns):  # pandas, "columns"
        return [{key: value[key][i] for key in value} for i in columns[0]]
    lists = _lists_of_rows(value)
    if len(lists) > 1:
        listed = ", ".join(f"{name}#{path}" for path in lists)
        raise DataError(
            f"{name}: got an object with several lists of rows; expected one; try one of: {listed}"
        )
    return next(iter(lists.values())) if lists else [value]


def _are_columns(columns: list[list[Any]]) -> bool:
    lengths = {*map(len, columns)}
    return len(lengths) == 1 and not any(
        isinstance(cell, dict | list) for column in columns for cell in column
    )


def _are_indexed(columns: list[Any]) -> bool:
    """Return True for mappings from row to value with the same rows, numbered from 0."""
    return all(isinstance(column, dict) for column in columns) and all(
        column.keys() == columns[0].keys() and next(iter(column), "") == "0" for column in columns
    )


def _lists_of_rows(value: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of objects at the least depth at which there are any, by dotted path."""
    level: dict[str, Any] = value
    for _ in range(MAX_LIST_DEPTH):
        found = {
            path: inside
            for path, inside in level.items()
            if isinstance(inside, list) and inside and isinstance(inside[0], dict)
        }
        if found:
            return found
        level = {
            f"{path}.{key}": inner
            for path, inside in level.items()
            if isinstance(inside, dict)
            for key, inner in inside.items()
        }
    return {}
