"""Settings: frozen pydantic models that are changed only by dotted paths to existing fields.

A setting that was not set explicitly has its default, and sizing a recipe by its data may change
it. A setting that was set explicitly is never changed. TOML has no null, so a value of None is left
out of a file.

A string under a field is its description, which the settings reference prints:

    class TrainConfig(Config):
        steps: int = Field(1000, ge=1)
        "Number of optimizer steps."
"""

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType, UnionType
from typing import (
    Any,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    runtime_checkable,
)

import tomli_w
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from saccade.errors import ConfigError, bullet_list
from saccade.registry import SETTING_SYNONYMS, did_you_mean, nearest_name

ConfigT = TypeVar("ConfigT", bound="Config")


class Config(BaseModel):
    """Base class of all settings: frozen, and unknown settings are refused."""

    # without `use_attribute_docstrings`, which would parse every class when it is imported
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    def with_values(self: ConfigT, **values: Any) -> ConfigT:
        """Return a validated copy with some settings changed."""
        return build_config(type(self), {**self.model_dump(exclude_unset=True), **values})

    def model_post_init(self, context: Any) -> None:
        """Mark the discriminators `name` and `task` as set, so that every file contains them."""
        self.model_fields_set.update({"name", "task"} & type(self).model_fields.keys())


def field_descriptions(config_class: type[Config]) -> dict[str, str]:
    """Return the descriptions of settings: the strings under the fields, in the source."""
    found: dict[str, str] = {}
    for owner in reversed(config_class.__mro__):
        if issubclass(owner, Config):
            described = _class_descriptions(sys.modules[owner.__module__]).get(owner.__name__, {})
            found.update({name: described.get(name, "") for name in owner.__annotations__})
    return found


@cache
def _class_descriptions(module: ModuleType) -> dict[str, dict[str, str]]:
    """Return the strings under the fields of each class of a module, by class and field."""
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                field.target.id: " ".join(inspect.cleandoc(text.value.value).split())
                for field, text in pairwise(node.body)
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            }
    return found


@runtime_checkable
class ConfigChoice(Protocol):
    """Metadata of a field that accepts any of several config classes (`models.choice`)."""

    @property
    def config_classes(self) -> tuple[type[Config], ...]:
        """The config classes that the field accepts."""
        ...


def build_config(config_class: type[ConfigT], values: dict[str, Any], origin: str = "") -> ConfigT:
    """Return settings from plain values, or raise one ConfigError with all that is wrong.

    Args:
        config_class: the settings class.
        values: plain values, nested like the settings.
        origin: name of the file that the values came from, for the message.
    """
    return _validated(config_class, values, [], origin)


def _validated(
    config_class: type[ConfigT], values: dict[str, Any], complaints: list[str], origin: str = ""
) -> ConfigT:
    """Return the settings, or raise one error with `complaints` and those of the validation."""
    # before pydantic, whose own messages fail on integers that Python does not write
    if unwritable := list(_unwritable_values(values)):
        raise ConfigError(bullet_list(unwritable, "these settings are invalid:"))
    try:
        settings = config_class.model_validate(values)
    except ValidationError as error:
        complaints = complaints + _complaints(config_class, error)
    if complaints:
        prefix = f"{origin}: " if origin else ""
        raise ConfigError(prefix + bullet_list(complaints, "these settings are invalid:"))
    return settings


def _unwritable_values(value: Any, path: str = "") -> Iterator[str]:
    """Yield a complaint for each value that a file of settings cannot have."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _unwritable_values(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _unwritable_values(inner, path)
    elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        yield f"{path}: got an integer of hundreds of digits"
    elif isinstance(value, str) and _SURROGATE.search(value):
        yield (
            f"{path}: got {short_repr(value)}, which is not UTF-8; expected UTF-8; for a file, try "
            "another name or a link to it"
        )


# --- complaints about values ----------------------------------------------------------------------

MAX_INTEGER_BITS = 1024
_SURROGATE = re.compile("[\ud800-\udfff]")  # stands for a byte that is not UTF-8
MAX_VALUE_CHARS = 200  # characters of a wrong value
EXPECTED = {  # pydantic's error types and our words for the expected value
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table of settings",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "a value greater than {gt}",
    "greater_than_equal": "a value of at least {ge}",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "a smaller integer",
    "int_type": "an integer",
    "less_than": "a value less than {lt}",
    "less_than_equal": "a value of at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_attributes_type": "a table of settings",
    "model_type": "a table of settings",
    "string_type": "text",
    "tuple_type": "a list",
}


def _complaints(config_class: type[Config], error: ValidationError) -> list[str]:
    """Return a complaint for each wrong setting; alternatives of one field are joined by "or"."""
    complaints: list[str] = []
    alternatives: dict[str, tuple[int, Any, list[str]]] = {}
    for problem in error.errors():
        path, owners = _locate(config_class, problem["loc"])
        expected = _expected(problem)
        if expected is None:
            complaints.append(_complaint(config_class, path, owners, problem))
        elif path in alternatives:
            alternatives[path][2].append(expected)
        else:
            alternatives[path] = (len(complaints), problem["input"], [expected])
            complaints.append("")
    for path, (index, value, choices) in alternatives.items():
        names = re.findall(r"'([^']*)'", " ".join(choices))
        near = did_you_mean(value, names) if isinstance(value, str) else ""
        subject = path or config_class.__name__
        complaints[index] = (
            f"{subject} is {short_repr(value)}: expected {' or '.join(choices)}.{near}"
        )
    return complaints


def short_repr(value: Any) -> str:
    """Return a value as a message shows it; of a long one the start."""
    text = repr(value)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def _expected(problem: Any) -> str | None:
    """Return the expected value in words, or None if the complaint is of another form."""
    if problem["type"] in EXPECTED:
        return EXPECTED[problem["type"]].format(**problem.get("ctx", {}))
    message = str(problem["msg"])
    if message.startswith("Input should be "):
        return message.removeprefix("Input should be ").rstrip(".")
    return None


def _complaint(
    config_class: type[Config], path: str, owners: list[type[Config]], problem: Any
) -> str:
    if problem["type"] == "extra_forbidden":
        owner, _, name = path.rpartition(".")
        known = sorted({name for member in owners for name in member.model_fields})
        near, listed = did_you_mean(name, known), ", ".join(known)
        if not owner:
            return f"there is no setting {name!r}.{near} There are: {listed}."
        return f"{owner} has no setting {name!r}.{near} It has: {listed}."
    if problem["type"] == "missing":
        return f"{path} must be given."
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        key = problem["ctx"]["discriminator"].strip("'")
        names = sorted(tag for member in owners for tag in _tags(member, key))
        tag = problem["ctx"].get("tag")
        got = f"{path}.{key} is missing" if tag is None else f"{path}.{key} is {short_repr(tag)}"
        near = "" if tag is None else did_you_mean(str(tag), names)
        return f"{got}: expected one of {', '.join(names)}.{near}"
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    value = problem["input"]
    if isinstance(value, dict | Config):  # a rule about several settings, which names them itself
        return f"{path}: {message}." if path else f"{message}."
    return f"{path or config_class.__name__} is {short_repr(value)}: {message}."


def _locate(
    config_class: type[Config], loc: tuple[int | str, ...]
) -> tuple[str, list[type[Config]]]:
    """Return the dotted path as a user writes it, and the settings classes at its end.

    In pydantic's path the tag of a chosen union member follows the field ("model", "gpt", "width"),
    and so does the type tried of a plain union ("steps", "int"); both are left out.
    """
    path: list[str] = []
    owners = [config_class]
    annotation: Any = None
    is_choice = False  # of one registry row or more, whose tag is the next part
    for part in loc:
        fields = [m.model_fields[part] for m in owners if part in m.model_fields]
        is_choice |= len(owners) > 1
        chosen = [m for m in owners if is_choice and part in _tags(m, "name")]
        is_choice = False
        if chosen:
            owners = chosen
        elif fields:
            annotation = fields[0].annotation
            path.append(str(part))
            owners = config_members(fields[0])
            is_choice = any(isinstance(given, ConfigChoice) for given in fields[0].metadata)
        elif owners or isinstance(part, int) or not _is_union(annotation):
            path.append(str(part))
    return ".".join(path), owners


def _tags(config_class: type[Config], key: str) -> list[str]:
    """Return the values of a settings class's discriminator."""
    field = config_class.model_fields.get(key)
    return [] if field is None else list(getattr(field.annotation, "__args__", ()))


def _is_union(annotation: Any) -> bool:
    return len(getattr(annotation, "__args__", ())) > 1 and get_origin(annotation) in (
        Union,
        UnionType,
    )


def config_members(field: FieldInfo) -> list[type[Config]]:
    """Return the settings classes that a field accepts."""
    for part in field.metadata:
        if isinstance(part, ConfigChoice):
            return list(part.config_classes)
    return _config_classes_of(field.annotation)


def _config_classes_of(annotation: Any) -> list[type[Config]]:
    """Return the settings classes of an annotation: itself, or the members of a union."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [c for part in getattr(annotation, "__args__", ()) for c in _config_classes_of(part)]


# --- dotted paths ---------------------------------------------------------------------------------


def override_setting(config: ConfigT, path: str, value: Any) -> ConfigT:
    """Return a copy of `config` with the setting at a dotted path changed.

    `value` may be text as typed on a command line; it is parsed to the type of the field.
    """
    return override_settings(config, {path: value})


def override_settings(config: ConfigT, changes: dict[str, Any]) -> ConfigT:
    """Return a copy with several settings changed, or raise one error with all that is wrong."""
    values = config.model_dump(exclude_unset=True)
    complaints = []
    for path, value in changes.items():
        found = _setting_at(config, values, path)
        if found is None:
            complaints.append(_unknown_path(config, path))
        else:
            found.group[found.name] = _parse_as(found.annotation, value)
    return _validated(type(config), values, complaints)


class _Setting(NamedTuple):
    """Where a setting is within plain values, and its type."""

    group: dict[str, Any]
    name: str
    annotation: Any


def _setting_at(config: Config, values: dict[str, Any], path: str) -> _Setting | None:
    """Return the setting, or entry of a table of settings, at a dotted path; None: there is none.

    Groups on the way that `values` does not have are added to it.
    """
    owner: Any = config
    group, annotation = values, None
    *parents, name = path.split(".")
    for parent in parents:
        if not isinstance(owner, Config) or parent not in type(owner).model_fields:
            return None
        annotation = type(owner).model_fields[parent].annotation
        owner = getattr(owner, parent)
        # a group left at its default needs its discriminator
        start = owner.model_dump(exclude_unset=True) if isinstance(owner, Config) else owner
        if not isinstance(start, dict):
            return None
        group = group.setdefault(parent, dict(start))
    if get_origin(annotation) is dict and isinstance(owner, dict):  # the names are free
        return _Setting(group, name, get_args(annotation)[1]) if name else None
    if not isinstance(owner, Config) or name not in type(owner).model_fields:
        return None
    return _Setting(group, name, type(owner).model_fields[name].annotation)


def _unknown_path(config: Config, path: str) -> str:
    known = sorted(flatten(config))
    group, _, name = path.rpartition(".")
    siblings = [other for other in known if other.rpartition(".")[0] == group]
    listed = siblings if group and siblings else known
    task = getattr(config, "task", None)
    more = f" saccade settings {task} lists all with their meaning." if task else ""
    near = _nearest_path(name, group, known)
    meant = f" Did you mean {near!r}?" if near else ""
    return f"there is no setting {path!r}.{meant} There are: {', '.join(listed)}.{more}"


def _nearest_path(name: str, group: str, known: list[str]) -> str | None:
    """Return the path that was meant: in another group, by another tool's name, or misspelt."""
    own = [path for path in known if path.rpartition(".")[0] == group]
    named = {path.rpartition(".")[2]: path for path in (*reversed(known), *own)}
    synonyms = SETTING_SYNONYMS.get(name.lower().replace("-", "_"), ())
    for candidate in (name, *(synonym.rpartition(".")[2] for synonym in synonyms)):
        if candidate in named:
            return named[candidate]
    near = nearest_name(name, named)
    return None if near is None else named[near]


def _parse_as(annotation: Any, value: Any) -> Any:
    """Parse text from a command line to a field's type; a name may be spelt `none` or `2024`."""
    if not isinstance(value, str):
        return value
    parsed = _parse_toml_value(value)
    if next(_unwritable_values(parsed), None) is not None:
        return value
    adapter = TypeAdapter(annotation)
    for candidate in (parsed, value):
        try:
            adapter.validate_python(candidate)
            return candidate
        except ValidationError:
            continue
    return parsed


def _parse_toml_value(text: str) -> Any:
    """Return None for `none` and `auto`, else the text as a TOML value, else the text itself."""
    if text.lower() in ("none", "auto"):
        return None
    try:
        parsed = tomllib.loads(f"x = {text}")
    except (ValueError, RecursionError):  # also an integer of too many digits
        return text
    return parsed["x"] if len(parsed) == 1 else text


def flatten(config: Config, exclude_unset: bool = False) -> dict[str, Any]:
    """Return settings by dotted path: all, or only those that were set explicitly."""
    flat: dict[str, Any] = {}
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, Config):
            inside = flatten(value, exclude_unset)
            flat.update({f"{name}.{inner}": v for inner, v in inside.items()})
        elif not exclude_unset or name in config.model_fields_set:
            flat[name] = value
    return flat


def diff_settings(old: Config, new: Config) -> list[str]:
    """Describe the settings explicitly set in `new` that differ from `old`."""
    before, after = flatten(old), flatten(new, exclude_unset=True)
    return [
        f"{path}: {before.get(path)!r} → {value!r}"
        for path, value in sorted(after.items())
        if before.get(path) != value
    ]


def to_toml(config: Config, exclude_unset: bool = False) -> str:
    """Return settings as TOML text: all, or only those that were set explicitly."""
    return tomli_w.dumps(
        config.model_dump(exclude_none=True, exclude_unset=exclude_unset, mode="json")
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file; a ConfigError names the line that cannot be parsed."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ConfigError(f"{path}: got a pipe or a device; expected a .toml file.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; expected a .toml file.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"{path} could not be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from None
