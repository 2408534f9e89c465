"""Names to things: tables that can be read, and a kind word when a name is not in one."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Generic, TypeVar

from saccade.errors import ConfigError

Value = TypeVar("Value")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """' Did you mean …?' when something is close, else nothing."""
    spelt = {known.lower(): known for known in names}  # GRU and gru share no letter otherwise
    near = get_close_matches(name.lower(), list(spelt), n=1)
    return f" Did you mean {spelt[near[0]]!r}?" if near else ""


def lookup(table: Mapping[str, Value], name: str, what: str = "name") -> Value:
    """Return `table[name]`, or say which `what` there is no such one of, and which there are."""
    if name in table:
        return table[name]
    raise ConfigError(
        f"There is no {what} {name!r}.{did_you_mean(name, table)} "
        f"There are: {', '.join(sorted(table))}."
    )


class LazyRegistry(Mapping[str, Value], Generic[Value]):
    """Names to things that are loaded when they are first asked for: "module:attribute"."""

    def __init__(self, import_paths: dict[str, str]):
        self.import_paths = import_paths

    def __getitem__(self, name: str) -> Value:
        module, attribute = self.import_paths[name].split(":")
        thing: Value = getattr(import_module(module), attribute)
        return thing

    def __iter__(self) -> Iterator[str]:
        return iter(self.import_paths)

    def __len__(self) -> int:
        return len(self.import_paths)

    def __contains__(self, name: object) -> bool:  # without loading it
        return name in self.import_paths
