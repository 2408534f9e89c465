"""Summary of a data set: format, columns, roles, the task that suits it, and what is doubtful."""

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.open import open_records
from saccade.data.records.parallel import open_parallel, parallel_paths
from saccade.data.records.profile import (
    ColumnProfile,
    RecordsProfile,
    profile_chunks,
    profile_records,
)
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.records.roles import RoleChoice, assign_roles, check_header, find_column
from saccade.data.records.suggest import (
    TaskSuggestion,
    class_columns,
    names_splits,
    suggest_task,
    suggested_command,
    text_columns,
)
from saccade.errors import DataError

RARE_CLASS_COUNT = 5  # examples; fewer are too few to train and score a class
MAJORITY_SHARE = 0.9  # of the largest class; beyond, a constant prediction scores well
MISSING_SHARE = 0.2  # of the cells of a column
DUPLICATE_SHARE = 0.05  # of the rows
CONTROL_SHARE = 0.05  # control characters of a binary file, of all characters
MAX_LISTED_NAMES = 4
DIVIDED_TASKS = ("classify", "table", "translate")  # that take `data.split_column`
JSON_VALUES = 100  # most frequent values of a column in `to_dict`


class DataSummary(NamedTuple):
    """A data set as it was understood."""

    records: Records
    size: int | None  # bytes on disk, compressed if the file is
    profile: RecordsProfile
    suggestion: TaskSuggestion | None
    roles: list[RoleChoice]  # of the task
    doubts: list[str]  # for the user, before training

    def role_of(self, column: str) -> str:
        """Return the role of a column, or ""."""
        return next((choice.role for choice in self.roles if choice.column == column), "")

    @property
    def label(self) -> ColumnProfile | None:
        """The column of classes, if the task has one."""
        for choice in self.roles:
            profile = self.profile.columns[choice.column]
            if choice.role == "label" or (choice.role == "target" and profile.is_class):
                return profile
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        records, profile = self.records, self.profile
        return {
            "name": records.name,
            "format": records.format,
            "encoding": records.encoding,
            "delimiter": records.delimiter,
            "header": records.has_header,
            "bytes": self.size,
            "rows": profile.rows,
            "duplicates": profile.duplicates,
            "duplicates_exact": profile.is_exact,
            "columns": [
                {**_column_dict(column), "role": self.role_of(name) or None}
                for name, column in profile.columns.items()
            ],
            "task": None if self.suggestion is None else self.suggestion.task,
            "reason": None if self.suggestion is None else self.suggestion.reason,
            "roles": {choice.role: choice._asdict() for choice in self.roles},
            "command": None if self.suggestion is None else self.suggestion.command,
            "notes": list(records.notes),
            "doubts": self.doubts,
        }


def _column_dict(column: ColumnProfile) -> dict[str, Any]:
    values = column._asdict()
    del values["length_counts"]
    counts = list((column.counts or {}).items())[:JSON_VALUES]
    return values | {
        "distinct_exact": values.pop("is_exact"),
        "examples": list(column.examples),
        "counts": dict(counts) if column.kind not in ("text", "id") else None,
        "characters": column.characters._asdict(),
        "words": column.words._asdict(),
    }


def summarise_data(
    data: object,
    options: ReadOptions | None = None,
    given: Mapping[str, str | None] | None = None,
    on_rows: Callable[[int], None] = lambda count: None,
) -> DataSummary:
    """Read a data set to its end and describe it.

    Args:
        data: a file, or anything else that `open_records` takes.
        options: encoding, delimiter and header, where they cannot be detected.
        given: column by role, where the user named one; they decide the task.
        on_rows: receives the number of rows of each chunk that was read.
    """
    paths = parallel_paths(data) if isinstance(data, str) else None
    if isinstance(data, str) and paths is not None:
        records = open_parallel(data, paths, options or ReadOptions())
    else:
        records = open_records(data, options)
    chosen = {role: find_column(records, name) for role, name in (given or {}).items() if name}
    profile = profile_chunks(records.chunks(), on_rows)
    doubts = []
    try:
        head = records.head()
        check_header(records, head, profile_records(head))
    except DataError as error:
        doubts.append(str(error))
    suggestion = suggest_task(profile.columns, records)
    roles: list[RoleChoice] = []
    if (task := _task_of(chosen, profile)) is not None:
        try:
            roles = assign_roles(records, profile.columns, TASK_ROLES[task], chosen, task)
            suggestion = _given_task(task, roles, records, profile)
        except DataError as error:
            doubts.append(str(error))
    if not roles and suggestion is not None:
        roles = _suggested_roles(suggestion, records, profile)
        suggestion = _with_roles(suggestion, roles, records, profile)
    summary = DataSummary(records, _size_of(records.name), profile, suggestion, roles, doubts)
    return summary._replace(doubts=doubts + _doubts(summary))


def _given_task(
    task: str, roles: list[RoleChoice], records: Records, profile: RecordsProfile
) -> TaskSuggestion:
    """Return the task whose roles the user gave."""
    reason = " and ".join(f"{choice.column!r} is the {choice.role}" for choice in roles)
    return _with_roles(TaskSuggestion(task, {}, reason, ""), roles, records, profile)


def _split_column(profile: RecordsProfile) -> str | None:
    """Return the column that names the split of each row, if there is one."""
    return next((name for name, c in profile.columns.items() if names_splits(c)), None)


def _with_roles(
    suggestion: TaskSuggestion, roles: list[RoleChoice], records: Records, profile: RecordsProfile
) -> TaskSuggestion:
    """Return the suggestion with these roles, and its command."""
    columns = {choice.role: choice.column for choice in roles}
    command = suggested_command(suggestion.task, records, columns)
    if suggestion.task in DIVIDED_TASKS and (named := _split_column(profile)) is not None:
        command += f" --set {shlex.quote(f'data.split_column={named}')}"
    return suggestion._replace(roles=columns, command=command)


def _suggested_roles(
    suggestion: TaskSuggestion, records: Records, profile: RecordsProfile
) -> list[RoleChoice]:
    """Return the roles that training would choose; where it would ask, those suggested."""
    roles = TASK_ROLES[suggestion.task]
    try:
        return assign_roles(records, profile.columns, roles, {}, suggestion.task)
    except DataError:
        return [RoleChoice(role, column, "suggested") for role, column in suggestion.roles.items()]


def _task_of(given: Mapping[str, str], profile: RecordsProfile) -> str | None:
    """Return the task that the given roles belong to."""
    if "source" in given:
        return "translate"
    if "label" in given:
        return "classify"
    if "text" in given:
        return "classify" if class_columns(profile.columns) else "language"
    if "target" in given:
        return "translate" if profile.columns[given["target"]].kind == "text" else "table"
    return None


def _size_of(name: str) -> int | None:
    """Return the bytes of the files of a name, which may be two with a comma between."""
    paths = [Path(name)] if os.path.exists(name) else [Path(part) for part in name.split(",")]
    files = [f for path in paths for f in (path.rglob("*") if path.is_dir() else [path])]
    sizes = [file.stat().st_size for file in files if file.is_file()]
    return sum(sizes) if sizes else None


def _doubts(summary: DataSummary) -> list[str]:
    """Return what a user should look at before training."""
    profile, found = summary.profile, []
    for name, column in profile.columns.items():
        if column.kind == "empty":
            found.append(f"The column {name!r} has no value.")
        elif column.kind == "constant":
            found.append(f"The column {name!r} has one value ({column.examples[0][:40]}).")
    if any(map(_is_binary, profile.columns.values())):
        found.append("The cells have control characters: this looks like a binary file.")
    gaps = [name for name, c in profile.columns.items() if c.missing > MISSING_SHARE * c.rows]
    gaps = [name for name in gaps if profile.columns[name].kind != "empty"]
    if gaps and summary.records.format != "text":  # a text has empty lines
        found.append(f"More than {MISSING_SHARE:.0%} of the values are missing in {_listed(gaps)}.")
    texts = [column for column in text_columns(profile.columns) if summary.role_of(column) == ""]
    if texts and summary.suggestion is not None and summary.suggestion.task == "classify":
        found.append(f"classify takes one text; {_listed(texts)} would be left out.")
    if profile.duplicates > DUPLICATE_SHARE * profile.rows:
        about = "" if profile.is_exact else "about "
        found.append(
            f"{about}{profile.duplicates:,} of {profile.rows:,} rows repeat an earlier row: they "
            "count more than others in training."
        )
    return found + _class_doubts(summary.label)


def _is_binary(column: ColumnProfile) -> bool:
    letters = "".join(column.examples)
    controls = sum(not (letter.isprintable() or letter.isspace()) for letter in letters)
    return controls > CONTROL_SHARE * len(letters)


def _class_doubts(label: ColumnProfile | None) -> list[str]:
    if label is None or not label.counts or not label.is_class:
        return []
    found = []
    (value, count), *_ = label.counts.items()
    if count > MAJORITY_SHARE * label.known:
        found.append(
            f"{count / label.known:.1%} of {label.name!r} is {value!r}: predicting it always would "
            "score as well; compare with that baseline."
        )
    rare = [value for value, count in label.counts.items() if count < RARE_CLASS_COUNT]
    if rare:
        found.append(
            f"{len(rare):,} of {label.distinct:,} classes have fewer than {RARE_CLASS_COUNT} rows "
            f"({_listed(rare)}): too few to train and score them."
        )
    return found


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_LISTED_NAMES
    listed = ", ".join(map(repr, names[:MAX_LISTED_NAMES]))
    return f"{listed} and {more:,} more" if more > 0 else listed
