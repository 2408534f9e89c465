"""Task, format and columns of a training file. Does not import torch."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from saccade.config import Config, override_settings
from saccade.data.images.captions import open_captions
from saccade.data.images.readers import find_image_table, has_images, open_images
from saccade.data.parallel.readers import open_pairs
from saccade.data.records.base import Records
from saccade.data.records.open import open_records
from saccade.data.records.profile import profile_records
from saccade.data.records.role_names import TABLE_TARGET_ROLE, TASK_ROLES, match_names
from saccade.data.records.roles import ROLE_SAMPLE_ROWS, AskColumn, RoleChoice
from saccade.data.records.suggest import suggest_task, train_command_line
from saccade.data.tagging.config import CONLL_SUFFIXES
from saccade.data.task_records import RoleOptions, TaskRecords, describe_records, open_task_records
from saccade.data.text.corpus import open_text_corpus
from saccade.data.text.labelled import open_labelled_texts
from saccade.data.text.labels import LABEL_PREFIX
from saccade.data.text.sentences import open_sentences
from saccade.errors import ConfigError
from saccade.io.byte_source import plain_suffix
from saccade.io.text_files import STANDARD_INPUT
from saccade.tasks.base import Recipe

MAX_LISTED_TARGETS = 3  # columns that a message proposes as the target of a table


class TaskChoice(NamedTuple):
    """A task and the reason for it."""

    task: str
    reason: str


class OpenedData(Protocol):
    """Data opened by the reader of a task."""

    @property
    def columns(self) -> dict[str, str]:
        """Column of each role."""
        ...

    @property
    def choices(self) -> list[RoleChoice]:
        """Columns that were inferred."""
        ...

    @property
    def notes(self) -> list[str]:
        """Format, encoding and columns, for the user."""
        ...


class DataPreview(NamedTuple):
    """A task and its data: settings, and what is shown to the user."""

    task: str
    data: str
    settings: dict[str, Any]  # the column of each role
    choices: list[RoleChoice]
    notes: list[str]


def preview_data(
    what: str, data: str | None, changes: Mapping[str, Any], ask: AskColumn | None = None
) -> DataPreview | None:
    """Open the data of a command and find its columns; None if the command names no file.

    Args:
        what: first argument of a command: a task, a recipe, a .toml file or a data file.
        data: value of --data.
        changes: settings by dotted path.
        ask: function that asks the user which column has a role.
    """
    notes: list[str] = []
    if what in TASK_ROLES:
        task, path = what, data
    elif data is None and not what.endswith(".toml") and _is_file(what):
        path = what
        task, reason = choose_task(path, changes)
        notes.append(f"{path}: the task is {task}: {reason}.")
    else:
        return None
    if path is None or path == STANDARD_INPUT or not _is_file(path):
        return None
    opened = OPENERS[task](path, role_options(changes), ask, False)
    settings = {f"data.{role}": column for role, column in opened.columns.items()}
    return DataPreview(task, path, settings, opened.choices, [*notes, *opened.notes])


def preview_other_data(recipe: Recipe, data: str, changes: Mapping[str, Any]) -> DataPreview | None:
    """Open other data for the model of a recipe; None if it is not a file that the task reads.

    `changes` are settings by dotted path. The columns are those of the recipe, by name or position.
    """
    task = recipe.task
    if task not in OPENERS or task == "vectors" or data == STANDARD_INPUT or not _is_file(data):
        return None
    known = {f"data.{name}": value for name, value in recipe.data.model_dump().items()}
    opened = OPENERS[task](data, role_options(known | dict(changes)), None, True)
    given = {path.removeprefix("data."): "given" for path in changes}
    inferred = {choice.role: choice.reason for choice in opened.choices}
    choices = [
        RoleChoice(role, column, inferred.get(role) or given.get(role, "as in the run"))
        for role, column in opened.columns.items()
    ]
    settings = {f"data.{role}": column for role, column in opened.columns.items()}
    return DataPreview(task, data, settings, choices, opened.notes)


class _DataSettings(Config):
    """The settings of a recipe that describe how a file is read."""

    data: RoleOptions = RoleOptions()


def role_options(changes: Mapping[str, Any]) -> RoleOptions:
    """Return how a file is read from settings by dotted path."""
    known = {f"data.{name}" for name in RoleOptions.model_fields}
    given = {path: value for path, value in changes.items() if path in known}
    return override_settings(_DataSettings(), given).data


def _is_file(data: str) -> bool:
    """Return True for a file, a folder or an address, there or not; False for a name."""
    return (
        os.path.exists(data)
        or any(letter in data for letter in "/\\,#*?")
        or Path(data).suffix != ""
    )


# --- tasks ----------------------------------------------------------------------------------------


def choose_task(data: str, changes: Mapping[str, Any]) -> TaskChoice:
    """Return the task that suits a file, by the columns that are named or by its contents.

    Raises:
        ConfigError: with the commands to choose from, if the contents do not decide it.
    """
    options = role_options(changes)
    given = {role for role in RoleOptions.model_fields if f"data.{role}" in changes}
    given &= {role.name for roles in TASK_ROLES.values() for role in roles}
    if given == {"target"}:
        return TaskChoice("table", "a target column is given")
    for task in ("classify", "translate", "table", "forecast", "language", "image", "caption"):
        if given and given <= {role.name for role in TASK_ROLES[task]}:
            return TaskChoice(task, f"{_and(sorted(given))} given")
    if "," in data and not os.path.exists(data):
        return TaskChoice("translate", "there are two parallel files")
    if plain_suffix(data) in CONLL_SUFFIXES:
        return TaskChoice("tag", f"its name ends with {plain_suffix(data)}")
    if has_images(data):
        if (table := find_image_table(data)) is None:
            return TaskChoice("image", "it has images")
        data = table
    records = open_records(data, options)
    sample = records.head(ROLE_SAMPLE_ROWS)
    first = next(iter(sample.columns.values()), [])
    if records.format == "text":
        if first and (first[0] or "").startswith(LABEL_PREFIX):
            return TaskChoice("classify", f"lines start with {LABEL_PREFIX}")
        return TaskChoice("language", "it has lines of text without columns")
    profiles = profile_records(sample)
    suggestion = suggest_task(profiles, records)
    is_pair = _is_plain_pair(records)
    if is_pair and (suggestion is None or suggestion.task in ("language", "table")):
        return TaskChoice("translate", "it has two columns, source TAB target")
    if suggestion is None:
        raise ConfigError(
            f"{data}: got no column from which a task follows (columns: "
            f"{', '.join(records.columns)}); try saccade data {data}, or name a task: saccade "
            f"train TASK --data {data}"
        )
    if suggestion.task == "table" and not match_names(TABLE_TARGET_ROLE, records.columns):
        columns = list(reversed(records.columns))[:MAX_LISTED_TARGETS]
        commands = [train_command_line("table", data, {"target": name}) for name in columns]
        raise ConfigError(
            f"{data}: got a table of numbers and categories; expected the column to predict; try "
            "one of:" + "".join(f"\n  {command}" for command in commands)
        )
    return TaskChoice(suggestion.task, suggestion.reason)


def _is_plain_pair(records: Records) -> bool:
    return records.format == "tsv" and not records.has_header and len(records.columns) == 2


def _and(names: list[str]) -> str:
    listed = " and ".join(f"data.{name}" for name in names)
    return f"{listed} {'is' if len(names) == 1 else 'are'}"


# --- readers --------------------------------------------------------------------------------------


class _OpenedTable(NamedTuple):
    columns: dict[str, str]
    choices: list[RoleChoice]
    notes: list[str]


def _open_table(
    task: str, data: str, options: RoleOptions, ask: AskColumn | None, is_other: bool
) -> OpenedData:
    opened: TaskRecords = open_task_records(data, options, task, is_other=is_other, ask=ask)
    return _OpenedTable(opened.columns, opened.choices, describe_records(opened.records))


OpenFunction = Callable[[str, RoleOptions, AskColumn | None, bool], OpenedData]

OPENERS: dict[str, OpenFunction] = {  # by task; the last argument: data of another run
    "answer": lambda data, options, ask, is_other: _OpenedTable({}, [], []),
    "bert": lambda data, options, ask, is_other: open_text_corpus(
        data, options, "bert", is_other, ask
    ),
    "caption": lambda data, options, ask, is_other: (
        open_captions(data, options, is_other=is_other, ask=ask).images
    ),
    "classify": lambda data, options, ask, is_other: open_labelled_texts(
        data, options, is_other=is_other, ask=ask
    ),
    "contrastive": lambda data, options, ask, is_other: open_images(
        data, options, is_other=is_other, ask=ask, task="contrastive"
    ),
    "embed": lambda data, options, ask, is_other: open_sentences(
        data, options, is_other=is_other, ask=ask
    ),
    "forecast": lambda *arguments: _open_table("forecast", *arguments),
    "image": lambda data, options, ask, is_other: open_images(
        data, options, is_other=is_other, ask=ask
    ),
    "kernel-regression": lambda data, options, ask, is_other: _OpenedTable(
        {}, [], describe_records(open_records(data, options))
    ),
    "language": lambda data, options, ask, is_other: open_text_corpus(
        data, options, "language", is_other, ask
    ),
    "table": lambda *arguments: _open_table("table", *arguments),
    "tag": lambda data, options, ask, is_other: _OpenedTable({}, [], []),
    "translate": lambda data, options, ask, is_other: open_pairs(
        data, options, is_other=is_other, ask=ask
    ),
    "vectors": lambda data, options, ask, is_other: open_text_corpus(
        data, options, "vectors", is_other, ask
    ),
}
