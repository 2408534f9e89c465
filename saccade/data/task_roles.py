"""Columns given by role, as settings of a task. Imports neither torch nor NumPy."""

from collections.abc import Mapping
from typing import Any

from saccade.data.records.role_names import TASK_ROLES
from saccade.errors import ConfigError

# the role of a task that is predicted from
INPUT_ROLES = {
    "bert": "text",
    "caption": "image",
    "classify": "text",
    "contrastive": "image",
    "embed": "text",
    "image": "image",
    "language": "text",
    "translate": "source",
}
RESERVED_ROLES = ("query", "user", "item")  # of ranking
COLUMN_ROLES = (
    "source",
    "target",
    "text",
    "pair",
    "image",
    "caption",
    "label",
    "positive",
    "negative",
    "score",
    "time",
    "weight",
)
ROLE_NAMES = (*COLUMN_ROLES, *RESERVED_ROLES)


def takes_paths(task: str) -> bool:
    """Return True for a task whose inputs are paths of files, those of images."""
    return any(r.kind == "path" for r in TASK_ROLES[task] if r.name == INPUT_ROLES.get(task))


def data_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that describe data; ConfigError if one belongs to the model or training."""
    if other := [path for path in settings if not path.startswith("data.")]:
        raise ConfigError(
            f"got {', '.join(other)}; expected settings of the data (data.…): the model stays as "
            "it was trained."
        )
    return dict(settings)


def role_settings(task: str, columns: Mapping[str, str | None]) -> dict[str, str]:
    """Return the settings of columns given by role; ConfigError if the task has no such role.

    The target of a classifier is its label, that of a captioner its caption.
    """
    given = {name: column for name, column in columns.items() if column is not None}
    if task in ("classify", "contrastive", "image") and "target" in given:
        given.setdefault("label", given.pop("target"))
    if task == "caption" and "target" in given:
        given.setdefault("caption", given.pop("target"))
    roles = [role.name for role in TASK_ROLES.get(task, ())]
    if unknown := [name for name in given if name not in roles]:
        has = ", ".join(f"--{name}" for name in roles) or "none"
        refused = ", ".join(f"--{name} {given[name]}" for name in unknown)
        raise ConfigError(f"got {refused}; the columns that {task} takes are: {has}.")
    return {f"data.{name}": column for name, column in given.items()}
