"""The source of a task's data: exactly one of a file, a published dataset and a synthetic set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import model_validator

from saccade.config import Config
from saccade.data.datasets import DatasetInfo
from saccade.data.records.base import ReadOptions
from saccade.errors import ConfigError
from saccade.registry import lookup

GeneratorFunction = TypeVar("GeneratorFunction", bound=Callable[..., Any])

SOURCE_SETTINGS = {
    "synthetic": "a built-in set",
    "dataset": "a published dataset",
    "path": "a file",
    "world": "an environment",
}


class DataConfig(Config):
    """Base of the settings of data, whatever its source."""

    RENAMED: ClassVar[Mapping[str, str]] = {}  # settings of earlier versions → of this one

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, values: Any) -> Any:
        """Accept the names that earlier versions wrote into run folders."""
        if not isinstance(values, dict):
            return values
        return {cls.RENAMED.get(name, name): value for name, value in values.items()}


class SourceConfig(DataConfig, ReadOptions):
    """Settings of data that is synthetic or in a file, and how the file is read."""

    synthetic: str | None = None
    """Name of a built-in set; see saccade list data."""
    path: str | None = None
    """File or folder with the data."""


class DatasetSourceConfig(SourceConfig):
    """Settings of data that is synthetic, published or in a file."""

    dataset: str | None = None
    """Name of a published dataset; see saccade list data."""


@dataclass(frozen=True)
class SyntheticSource(Generic[GeneratorFunction]):
    """A built-in set: its name and the function that returns it."""

    name: str
    generate: GeneratorFunction


@dataclass(frozen=True)
class DatasetSource:
    """A published dataset: its name and its entry in the catalogue."""

    name: str
    dataset: DatasetInfo


@dataclass(frozen=True)
class PathSource:
    """A file, a folder, or two parallel files with a comma between."""

    path: str

    @property
    def name(self) -> str:
        """The path as the user gave it."""
        return self.path


DataSource = SyntheticSource[GeneratorFunction] | DatasetSource | PathSource


def resolve_source(
    config: SourceConfig,
    synthetic: Mapping[str, GeneratorFunction],
    datasets: Mapping[str, DatasetInfo] | None = None,
    what: str = "data",
) -> SyntheticSource[GeneratorFunction] | DatasetSource | PathSource:
    """Return the one source that the settings name, looked up in its table.

    Args:
        config: settings, of which exactly one source must be set.
        synthetic: built-in sets by name.
        datasets: published datasets by name; None if this kind of data has none.
        what: kind of data for the messages, in the singular: "table", "text", "curve".

    Raises:
        ConfigError: if no source or more than one is set, or a name is not in its table.
    """
    given = {name: value for name, value in _sources(config).items() if value is not None}
    if len(given) != 1:
        raise ConfigError(_wrong_count(config, given, [*synthetic, *(datasets or {})], what))
    [(setting, name)] = given.items()
    if setting == "synthetic":
        return SyntheticSource(name, lookup(synthetic, name, f"built-in {what}"))
    if setting == "dataset":
        return DatasetSource(name, lookup(datasets or {}, name, f"published {what}"))
    return PathSource(name)


def source_name(config: DataConfig) -> str:
    """Return the name of the path, dataset, built-in set or environment, for messages."""
    given = [value for value in _sources(config).values() if value is not None]
    return given[-1] if given else "no data"


def _sources(config: DataConfig) -> dict[str, str | None]:
    fields = type(config).model_fields
    return {name: getattr(config, name) for name in SOURCE_SETTINGS if name in fields}


def _wrong_count(
    config: SourceConfig, given: Mapping[str, str], names: list[str], what: str
) -> str:
    got = " and ".join(f"data.{name}={value!r}" for name, value in given.items())
    possible = [f"data.{name} ({SOURCE_SETTINGS[name]})" for name in _sources(config)]
    expected = f"{', '.join(possible[:-1])} and {possible[-1]}"
    return (
        f"got {got or 'no data source'} for a {what}; expected exactly one of {expected}; "
        f"try --data FILE, or --data NAME with one of: {', '.join(sorted(names))}."
    )
