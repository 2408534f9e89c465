"""Records of a task: its data as rows, and the column of each role.

A role that the settings leave open is inferred (`saccade.data.records.roles`); its column becomes a
setting of the run, so that later files are read by the same names.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.delimited import DELIMITED_SUFFIXES
from saccade.data.records.files import DATA_SUFFIXES
from saccade.data.records.open import open_records
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.records.roles import AskColumn, RoleChoice, find_column, resolve_roles
from saccade.data.task_roles import INPUT_ROLES
from saccade.errors import DataError
from saccade.io.atomic import write_atomically
from saccade.io.byte_source import plain_suffix
from saccade.registry import did_you_mean

RECORD_SUFFIXES = frozenset(  # of files that have columns, and of archives
    (suffix for suffix, kind in DATA_SUFFIXES.items() if kind != "text")
) | {*DELIMITED_SUFFIXES, ".tar", ".tbz2", ".tgz", ".txz", ".zip"}
LINE_FORMATS = ("csv", "text", "tsv")  # formats of `Records` that are lines of text

_UNNAMED = re.compile(r"column (\d+)")


class RoleOptions(ReadOptions):
    """Reading options, and the column of each role, by name or by position from 1."""

    source: str | int | None = None
    target: str | int | None = None
    text: str | int | None = None
    pair: str | int | None = None
    image: str | int | None = None
    caption: str | int | None = None
    label: str | int | None = None
    positive: str | int | None = None
    negative: str | int | None = None
    score: str | int | None = None
    time: str | int | None = None
    weight: str | int | None = None


class TaskRecords(NamedTuple):
    """Rows, the column of each role, and the choices that the settings left open."""

    records: Records
    columns: dict[str, str]
    choices: list[RoleChoice]


def open_task_records(
    data: str | Path | object,
    config: ReadOptions,
    task: str,
    *,
    is_other: bool = False,
    ask: AskColumn | None = None,
) -> TaskRecords:
    """Open data of a task, and find the column of each role.

    Args:
        data: a path, or an object in memory.
        config: settings of the data, with a field for each role.
        task: name of the task.
        is_other: True for other data than that of the settings, whose columns are found by name,
            or by position if one of the two has no header.
        ask: function that asks the user which column has a role.
    """
    return find_roles(open_records(data, config), config, task, is_other=is_other, ask=ask)


def find_roles(
    records: Records,
    config: ReadOptions,
    task: str,
    *,
    is_other: bool = False,
    ask: AskColumn | None = None,
) -> TaskRecords:
    """Return opened data of a task with the column of each role; see `open_task_records`."""
    given = given_columns(config, task)
    if is_other:
        given = _as_in(records, given)
    check_given(records, given)
    choices = resolve_roles(records, TASK_ROLES[task], given, task, ask, is_other)
    left_open = [choice for choice in choices if given.get(choice.role) is None]
    return TaskRecords(records, {choice.role: choice.column for choice in choices}, left_open)


def given_columns(config: ReadOptions | Mapping[str, object], task: str) -> dict[str, str | None]:
    """Return the column that the settings name for each role of a task."""
    values = config if isinstance(config, Mapping) else vars(config)
    names = {role.name: values.get(role.name) for role in TASK_ROLES.get(task, ())}
    return {role: None if name is None else str(name) for role, name in names.items()}


def check_given(records: Records, given: Mapping[str, str | None]) -> None:
    """Raise a DataError if a named column does not exist."""
    for role, name in given.items():
        if name is not None and not _has_column(records, name):
            other = ""
            if len(records.columns) == 1 and records.text_source is not None:
                other = ", or --set data.delimiter=… for another separator"
            raise DataError(
                f"{records.name}: got no column {name!r}, the {role}."
                f"{did_you_mean(name, records.columns)} Columns: {', '.join(records.columns)}; try "
                f"--{role} NAME{other}."
            )


def _has_column(records: Records, name: str) -> bool:
    return name in records.columns or records.column_at(name) is not None


def _as_in(records: Records, given: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the columns of other data that have the roles of the given names.

    "column 2" is the second column of a file with a header; without a header, names are left to be
    inferred.
    """
    found: dict[str, str | None] = {}
    for role, name in given.items():
        unnamed = _UNNAMED.fullmatch(name or "")
        if name is None or _has_column(records, name):
            found[role] = name
        elif unnamed and int(unnamed[1]) <= len(records.columns):
            found[role] = records.columns[int(unnamed[1]) - 1]
        else:
            found[role] = name if records.has_header else None
    return found


def is_record_file(path: str | Path) -> bool:
    """Return True if data has columns by its name: a table, an archive, a folder or an address.

    Other files are plain text, also if commas divide every line into the same number of cells.
    """
    name = str(path)
    if not os.path.isfile(name):
        return True
    return plain_suffix(name) in RECORD_SUFFIXES


# --- inputs of predictions ------------------------------------------------------------------------


class PredictedColumn(NamedTuple):
    """The column that a model predicts from, and those that are not used."""

    name: str
    unused: tuple[str, ...]


def find_input_column(
    records: Records, task: str, given: Mapping[str, str | None]
) -> PredictedColumn:
    """Return the column of a file or frame that a model of the task predicts from, never a target.

    Args:
        records: data like that of the training, with or without the targets.
        task: name of the task.
        given: column of each role, by name or position, of the training or given by the user.
    """
    role = INPUT_ROLES[task]
    known = _as_in(records, given)
    name = known[role]
    if name is not None:
        check_given(records, {role: name})
        name = find_column(records, name)
    elif len(records.columns) == 1:
        [name] = records.columns
    else:
        name = _infer_input(records, task, known)
    return PredictedColumn(name, tuple(column for column in records.columns if column != name))


def find_input_columns(
    records: Records, task: str, given: Mapping[str, str | None]
) -> tuple[str, str | None]:
    """Return the column that a model predicts from, and for pairs that of the second texts."""
    trained = given.get("pair")
    if trained is None:
        return find_input_column(records, task, given).name, None
    if not records.has_header and len(records.columns) == 2:
        first, second = records.columns
        return first, second
    name = _as_in(records, given)["pair"] or trained
    check_given(records, {"pair": name})
    return find_input_column(records, task, given).name, find_column(records, name)


def _infer_input(records: Records, task: str, given: Mapping[str, str | None]) -> str:
    role = INPUT_ROLES[task]
    roles = TASK_ROLES[task]
    present = {n: c for n, c in given.items() if c is not None and _has_column(records, c)}
    try:
        choices = resolve_roles(records, roles, present, task)
    except DataError as error:  # a file without targets
        try:
            choices = resolve_roles(records, [r for r in roles if r.name == role], {}, task)
        except DataError:
            raise error from None
    return next(choice.column for choice in choices if choice.role == role)


# --- data in memory -------------------------------------------------------------------------------


def is_in_memory(data: object) -> bool:
    """Return True for anything but a path or a name."""
    return data is not None and not isinstance(data, str | os.PathLike)


def write_records(records: Records, path: Path) -> Path:
    """Write records as JSON lines, from which the same cells are read; return the path.

    Data in memory is written to a file, so that a run can be resumed and evaluated like one that
    was trained from a file.
    """
    lines = []
    for chunk in records.chunks():
        for row in zip(*chunk.columns.values(), strict=True):
            fields = dict(zip(chunk.columns, row, strict=True))
            lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    if not lines:
        raise DataError(f"{records.name}: got no rows; expected at least one.")
    path = path.with_name(f"{path.name}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(lines).encode())
    return path


# --- messages -------------------------------------------------------------------------------------

FORMAT_NAMES = {"jsonl": "JSON lines", "parquet": "Parquet", "text": "lines of text"}
MAX_DESCRIBED_COLUMNS = 8


def describe_records(records: Records, rows: int | None = None) -> list[str]:
    """Return what was understood of a file: format, encoding, rows and columns, and notes.

    Args:
        records: the file.
        rows: number of its rows; None: not counted.
    """
    name = FORMAT_NAMES.get(records.format, records.format.upper())
    parts = [name, *([records.encoding.upper()] if records.encoding else [])]
    if rows is not None:
        parts.append(f"{rows:,} {'row' if rows == 1 else 'rows'}")
    if records.format != "text":
        parts.append(_list_columns(records.columns))
    return [
        f"{records.name}: {', '.join(parts)}.",
        *(f"{records.name}: {n}." for n in records.notes),
    ]


def _list_columns(columns: Sequence[str]) -> str:
    listed = ", ".join(map(repr, columns[:MAX_DESCRIBED_COLUMNS]))
    more = ", …" if len(columns) > MAX_DESCRIBED_COLUMNS else ""
    count = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
    return f"{count} ({listed}{more})"
