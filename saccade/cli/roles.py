"""Options that name columns, one for each role of the tasks: --source, --target, --text, …."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from saccade.data.records.role_names import TASK_ROLES
from saccade.data.task_roles import ROLE_NAMES, role_settings
from saccade.io.run_folder import read_run_settings

COLUMNS_SECTION = "Columns (by name, or by position from 1)"


def with_role_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option for each role.

    The command receives the columns that were given as `columns`, a mapping from role to column.
    """
    signature = inspect.signature(command)
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in ((name, _role_option(name)) for name in ROLE_NAMES)
    ]
    own = [parameter for name, parameter in signature.parameters.items() if name != "columns"]

    @wraps(command)
    def call(**given: Any) -> None:
        columns = {name: given.pop(name, None) for name in ROLE_NAMES}
        known = {name: column for name, column in columns.items() if column is not None}
        command(**given, columns=known)

    call.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *options]}
    return call


def column_settings(what: str, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of columns given for a task or recipe; refuse those a task has not."""
    if what in TASK_ROLES:
        return role_settings(what, columns)
    return {f"data.{role}": column for role, column in columns.items()}


def run_role_settings(run: Path, columns: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of columns given for the task of a run."""
    task = read_run_settings(run)["recipe"].get("task", "translate") if columns else ""
    return role_settings(task, columns) if columns else {}


def _role_option(name: str) -> Any:
    option = typer.Option(
        f"--{name}", metavar="COLUMN", help=describe_role(name), rich_help_panel=COLUMNS_SECTION
    )
    return Annotated[str | None, option]


def describe_role(name: str) -> str:
    """Return the help of a role: what the column has, and for which tasks."""
    tasks: dict[str, list[str]] = {}
    for task, roles in TASK_ROLES.items():
        for role in roles:
            if role.name == name:
                tasks.setdefault(role.help.rstrip("."), []).append(task)
    if not tasks:
        return "Reserved for ranking."
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in tasks.items()) + "."


class SectionedCommand(TyperCommand):
    """A command whose help has a section for each group of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options and groups of options, each under its heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
                heading = getattr(parameter, "rich_help_panel", None) or kind
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
