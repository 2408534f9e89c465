"""The settings of a recipe as a reference: path, type, limits, default, description.

Everything is read from the settings classes: the string under a field is its description, pydantic
holds the limits. Does not import torch.
"""

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from saccade.config import Config, field_descriptions
from saccade.registry import SETTING_SYNONYMS, lookup
from saccade.tasks.base import Recipe
from saccade.tasks.registry import TASKS

DISCRIMINATORS = {
    "task": "Task of the recipe.",
    "name": "Model of the task, also chosen with --model; it decides the settings of this group.",
}
TYPE_NAMES = {bool: "true or false", int: "integer", float: "number", str: "text"}
LIMITS = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}


class Setting(NamedTuple):
    """One setting of a recipe."""

    path: str  # train.learning_rate
    type: str  # "integer", "number or none", "a, b or c"
    limits: str  # "> 0", "≥ 0, < 1"; empty: none
    default: Any
    description: str
    choices: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The part of the recipe that it belongs to: data, model or train."""
        return self.path.split(".")[0]

    @property
    def name(self) -> str:
        """The path without its group."""
        return self.path.partition(".")[2]


def default_recipe(task: str, model: str | None = None) -> Recipe:
    """Return the recipe of a task with all defaults, for one of its models."""
    spec = lookup(TASKS, task, "task")
    if model is None:
        recipe: Recipe = spec.recipe()
        return recipe
    lookup(spec.models, model, f"model of {task}")
    recipe = spec.recipe(model={"name": model})
    return recipe


def recipe_settings(recipe: Recipe) -> list[Setting]:
    """Return the settings of a recipe, with its own values as defaults."""
    return [setting for setting in describe_settings(recipe) if setting.path != "task"]


def describe_settings(config: Config, prefix: str = "") -> list[Setting]:
    """Return every setting of a config by dotted path, those of nested configs included."""
    found = []
    descriptions = field_descriptions(type(config))
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        path = f"{prefix}{name}"
        if isinstance(value, Config):
            found += describe_settings(value, f"{path}.")
        else:
            description = descriptions[name] or DISCRIMINATORS.get(name, "")
            found.append(_describe(path, field, value, description))
    return found


def _describe(path: str, field: FieldInfo, value: Any, description: str) -> Setting:
    choices = choices_of(field.annotation)
    default = ",".join(map(str, value)) if isinstance(value, tuple | list) else value
    return Setting(path, type_name(field.annotation), limits(field), default, description, choices)


def choices_of(annotation: Any) -> tuple[str, ...]:
    """Return the names that a field accepts; none if it accepts any value."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    if annotation is bool:
        return ("true", "false")
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    return tuple(choice for part in parts for choice in choices_of(part))


def type_name(annotation: Any) -> str:
    """Return the type of a field in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in (Union, UnionType):
        names = [type_name(part) for part in arguments if part is not NoneType]
        return " or ".join([*names, *(["none"] if NoneType in arguments else [])])
    if origin is Literal:
        return _alternatives(map(str, arguments))
    if origin in (tuple, list):
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return "table"
    return TYPE_NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _alternatives(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def limits(field: FieldInfo) -> str:
    """Return the limits of a number in signs, such as "≥ 0, < 1"."""
    parts = [*field.metadata]
    for argument in get_args(field.annotation):  # Annotated[int, Ge(1)] | None
        if get_origin(argument) is Annotated:
            parts += get_args(argument)[1:]
    return ", ".join(
        f"{sign} {_number(getattr(part, attribute))}"
        for part in parts
        for kind, (attribute, sign) in LIMITS.items()
        if isinstance(part, kind)
    )


def _number(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


# --- search ---------------------------------------------------------------------------------------


def find_settings(settings: Iterable[Setting], word: str) -> list[Setting]:
    """Return the settings that a word names, best first.

    The word may be a path, a part of a name, another tool's name (lr, batch_size) or a word of a
    description.
    """
    name = _normalised(word)
    meant = SETTING_SYNONYMS.get(name, ())

    def rank(setting: Setting) -> int | None:
        if name in (setting.path, setting.name, setting.path.split(".")[-1]):
            return 0
        if setting.name in meant:
            return 1 + meant.index(setting.name)
        if name in setting.path:
            return 10
        words = _normalised(setting.description).replace(",", " ").replace(".", " ")
        return 11 if name in words or word.lower() in words else None

    ranked = [(rank(setting), setting) for setting in settings]
    found = sorted(((r, s) for r, s in ranked if r is not None), key=lambda pair: pair[0])
    return [setting for _, setting in found]


def setting_named(settings: Iterable[Setting], word: str) -> Setting | None:
    """Return the setting that has this name, or that other tools call by it; None: there is none.

    Of several with the name the first is meant, which is that of the model before that of training.
    """
    name = _normalised(word)
    listed = list(settings)
    for candidate in (name, *SETTING_SYNONYMS.get(name, ())):
        for setting in listed:
            if candidate in (setting.path, setting.name, setting.path.split(".")[-1]):
                return setting
    return None


# lengths in passes over the data, and batches in rows: a number would mean something else here
OTHER_UNITS = ("batch", "batch_size", "epoch", "epochs", "num_epochs")


def has_same_unit(setting: Setting, word: str) -> bool:
    """Return True if a value given under another tool's name is a value of the setting."""
    return setting.path.endswith(f".{word}") or word not in OTHER_UNITS


def _normalised(word: str) -> str:
    return word.strip().lstrip("-").lower().replace("-", "_").replace(" ", "_")
