"""Data that is given as Python objects: frames, lists of rows, pairs or texts.

A frame is any object with `to_dicts()` (polars), or with `columns` and `to_dict("records")`
(pandas); there is no dependency on either. Training data is written to a file, so that a run can
be resumed and evaluated like one that was trained from a file.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from saccade.errors import DataError
from saccade.io.atomic import write_atomically

Rows = list[Any]
MISSING_MARKERS = ("<NA>", "NaT")  # pandas' missing values that are not floats


def is_in_memory(data: object) -> bool:
    """Return True for anything but a path or a name."""
    return data is not None and not isinstance(data, str | Path)


def to_rows(data: object) -> Rows:
    """Return the rows of a frame, a series or an iterable."""
    if hasattr(data, "to_dicts"):  # polars
        return list(data.to_dicts())
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        return list(data.to_dict("records"))
    if hasattr(data, "tolist"):  # a series or an array
        data = data.tolist()
    if isinstance(data, Mapping):
        raise DataError(
            "got a mapping as data; expected a frame or a list of rows; try a list of mappings."
        )
    if isinstance(data, AbstractSet):
        raise DataError(
            "got a set as data, which has no order; expected rows in an order; try sorted(data)."
        )
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | bytearray):
        return list(data)
    raise DataError(
        f"got a {type(data).__name__} as data; expected a path, a pandas or polars frame, or a "
        "list of rows, mappings or pairs."
    )


def write_rows(task: str, data: object, path: Path, target: str | None = None) -> Path:
    """Write in-memory data of a task to a file that the task reads; return its path.

    Args:
        task: name of the task, which decides the format.
        data: a frame, a series or an iterable of rows.
        path: where to write, without the suffix of the format.
        target: label column of labelled texts.
    """
    rows = to_rows(data)
    if not rows:
        raise DataError("got no rows; expected at least one.")
    write = WRITERS.get(task, _lines)
    content = write(rows, target)
    path = path.with_name(path.name + SUFFIXES.get(task, ".txt"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.encode())
    return path


def _pairs(rows: Rows, target: str | None) -> str:
    return "".join(
        json.dumps({"source": str(source), "target": str(translation)}, ensure_ascii=False) + "\n"
        for source, translation in _two_fields(rows, ("source", "target"))
    )


def _labelled_texts(rows: Rows, target: str | None) -> str:
    label_key = target or "label"
    if isinstance(rows[0], Mapping):
        text_keys = [key for key in rows[0] if key != label_key]
        if label_key not in rows[0] or len(text_keys) != 1:
            raise DataError(
                f"row 1: got {_columns(rows[0])}; expected {label_key!r} and one column of texts; "
                "try target=NAME of the label column."
            )
        names = (text_keys[0], label_key)
    else:
        names = ("text", "label")
    return "".join(
        f"{_one_line(label)}\t{_one_line(text)}\n" for text, label in _two_fields(rows, names)
    )


def _table(rows: Rows, target: str | None) -> str:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise DataError(
                f"row {number}: got a {type(row).__name__}, without column names; expected a frame "
                "or a list of mappings from column to value."
            )
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        values = (row.get(name) for name in columns)
        writer.writerow(["" if _is_missing(value) else value for value in values])
    return text.getvalue()


def _series(rows: Rows, target: str | None) -> str:
    return _table(rows, target) if isinstance(rows[0], Mapping) else _lines(rows, target)


def _points(rows: Rows, target: str | None) -> str:
    lines = []
    for number, pair in enumerate(_two_fields(rows, ("x", "y")), 1):
        try:
            x, y = map(float, pair)
        except (TypeError, ValueError):
            raise DataError(f"row {number}: got {pair!r}; expected two numbers (x, y).") from None
        lines.append(f"{x!r}\t{y!r}\n")
    return "".join(lines)


def _lines(rows: Rows, target: str | None) -> str:
    lines = []
    for number, row in enumerate(rows, 1):
        value = row
        if isinstance(row, Mapping):
            if len(row) != 1:
                raise DataError(f"row {number}: got {_columns(row)}; expected one column.")
            value = next(iter(row.values()))
        if _is_missing(value):
            raise DataError(f"row {number}: got a missing value; try to drop the row.")
        lines.append(f"{_one_line(value)}\n")
    return "".join(lines)


def _two_fields(rows: Rows, names: tuple[str, str]) -> list[tuple[Any, Any]]:
    """Return two values of each row: a pair, or a mapping with these or any other two keys.

    Mappings without these keys are read by the keys of the first row, in its order.
    """
    first = rows[0]
    if isinstance(first, Mapping) and not set(names) <= first.keys() and len(first) == 2:
        names = (*first,)
    pairs = []
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            if not set(names) <= row.keys():
                raise DataError(
                    f"row {number}: got {_columns(row)}; expected {names[0]!r} and {names[1]!r}."
                )
            pair = (row[names[0]], row[names[1]])
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes) and len(row) == 2:
            pair = (row[0], row[1])
        else:
            raise DataError(
                f"row {number}: got {str(row)[:60]!r}; expected a pair ({names[0]}, {names[1]})."
            )
        if any(map(_is_missing, pair)):
            raise DataError(f"row {number}: got a missing value; try to drop the row.")
        pairs.append(pair)
    return pairs


def _columns(row: Mapping[Any, Any]) -> str:
    return f"the columns {', '.join(map(str, row)) or '(none)'}"


def _is_missing(value: object) -> bool:
    """Return True for None, NaN and pandas' other missing values."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    return not isinstance(value, str) and str(value) in MISSING_MARKERS


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


WRITERS = {
    "classify": _labelled_texts,
    "forecast": _series,
    "kernel-regression": _points,
    "table": _table,
    "translate": _pairs,
}
SUFFIXES = {
    "classify": ".tsv",
    "forecast": ".csv",
    "kernel-regression": ".tsv",
    "table": ".csv",
    "translate": ".jsonl",
}
