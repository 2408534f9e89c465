"""Settings: frozen, known in advance, changed only by dotted paths into what exists.

A setting that nobody set is open: it has its default, and whoever sizes a recipe by its data may
change it. A setting that somebody set is never changed. TOML has no null, so a value of None is
left out of a file.
"""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from saccade.errors import ConfigError, bullet_list
from saccade.registry import did_you_mean

ConfigT = TypeVar("ConfigT", bound="Config")


class Config(BaseModel):
    """The base of every settings class: frozen, and unknown settings are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def with_values(self: ConfigT, **values: Any) -> ConfigT:
        """A copy with some settings changed, checked like a new one."""
        return build_config(type(self), {**self.model_dump(exclude_unset=True), **values})

    def model_post_init(self, context: Any) -> None:
        """Which kind of settings these are is always said, so that a file can be read back."""
        self.model_fields_set.update({"name", "task"} & type(self).model_fields.keys())


def build_config(config_class: type[ConfigT], values: dict[str, Any], origin: str = "") -> ConfigT:
    """Make settings from plain values; all that is wrong is said at once.

    `where` names the file the values came from, for the message.
    """
    return _checked(config_class, values, [], origin)


def _checked(
    config_class: type[ConfigT], values: dict[str, Any], complaints: list[str], origin: str = ""
) -> ConfigT:
    """The settings, or one error with `complaints` and all that pydantic adds to them."""
    try:
        settings = config_class.model_validate(values)
    except ValidationError as error:
        complaints = complaints + [_complaint(config_class, problem) for problem in error.errors()]
    if complaints:
        prefix = f"{origin}: " if origin else ""
        raise ConfigError(prefix + bullet_list(complaints, "these settings do not fit:"))
    return settings


def _complaint(config_class: type[Config], problem: Any) -> str:
    path = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        owner, _, name = path.rpartition(".")
        known = _fields_at(config_class, owner)
        title = owner or config_class.__name__
        return (
            f"{title} has no setting {name!r}.{did_you_mean(name, known)} "
            f"It has: {', '.join(known)}."
        )
    if problem["type"] == "missing":
        return f"{path} must be given."
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{path or config_class.__name__} is {problem['input']!r}: {message}."


def _fields_at(config_class: type[Config], path: str) -> list[str]:
    """The names that may stand under a dotted path of a settings class."""
    fields = config_class.model_fields
    for part in filter(None, path.split(".")):
        # pydantic names the chosen member of a union in the path; it is no field of ours
        if part not in fields:
            continue
        members = _config_members(fields[part].annotation)
        fields = {name: field for member in members for name, field in member.model_fields.items()}
    return sorted(fields)


def _config_members(annotation: Any) -> list[type[Config]]:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [m for part in getattr(annotation, "__args__", ()) for m in _config_members(part)]


def override_setting(config: ConfigT, path: str, value: Any) -> ConfigT:
    """A copy of `config` with the setting at a dotted path changed.

    `value` may be text, as typed on a command line: it is read as what the field holds.
    """
    return override_settings(config, {path: value})


def override_settings(config: ConfigT, changes: dict[str, Any]) -> ConfigT:
    """`set_path` for many at once; all that is wrong is said at once."""
    values = config.model_dump(exclude_unset=True)
    complaints = []
    for path, value in changes.items():
        owner: Any = config
        place = values
        *parents, name = path.split(".")
        for parent in parents:
            if isinstance(owner, Config) and parent in type(owner).model_fields:
                owner = getattr(owner, parent)
                # a group left at its default still has to say which kind of settings it is
                start = owner.model_dump(exclude_unset=True) if isinstance(owner, Config) else {}
                place = place.setdefault(parent, start)
            else:
                owner = None
                break
        if not isinstance(owner, Config) or name not in type(owner).model_fields:
            complaints.append(_no_such_path(config, path))
            continue
        place[name] = _read_as(type(owner).model_fields[name].annotation, value)
    return _checked(type(config), values, complaints)


def _no_such_path(config: Config, path: str) -> str:
    known = flatten(config)
    return (
        f"there is no setting {path!r}.{did_you_mean(path, known)} "
        f"There are: {', '.join(sorted(known))}."
    )


def _read_as(annotation: Any, value: Any) -> Any:
    """What text from a command line stands for in a field: a name may be spelt `none` or `2024`."""
    if not isinstance(value, str):
        return value
    plain = _plain(value)
    fits = TypeAdapter(annotation)
    for reading in (plain, value):
        try:
            fits.validate_python(reading)
            return reading
        except ValidationError:
            continue
    return plain


def _plain(text: str) -> Any:
    """None for `none` and `auto`, else TOML's reading if the text has one, else the text."""
    if text.lower() in ("none", "auto"):
        return None
    try:
        read = tomllib.loads(f"x = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return read["x"] if len(read) == 1 else text


def flatten(config: Config, exclude_unset: bool = False) -> dict[str, Any]:
    """Every setting by its dotted path; `only_set` leaves out those that nobody set."""
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
    """What `new` sets otherwise than `old` has it, in words; what it leaves open does not count."""
    before, after = flatten(old), flatten(new, exclude_unset=True)
    return [
        f"{path}: {before.get(path)!r} → {value!r}"
        for path, value in sorted(after.items())
        if before.get(path) != value
    ]


def to_toml(config: Config, exclude_unset: bool = False) -> str:
    """The settings as TOML text, all of them or those that somebody set."""
    return tomli_w.dumps(
        config.model_dump(exclude_none=True, exclude_unset=exclude_unset, mode="json")
    )


def read_toml(path: Path) -> dict[str, Any]:
    """The plain values of a TOML file, or a message with the place where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; a .toml file was wanted.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"{path} could not be read: {error.strerror or error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from None
