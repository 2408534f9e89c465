"""Names to things: tables that can be read, and a kind word when a name is not in one."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Generic, TypeVar

from saccade.errors import ConfigError

Thing = TypeVar("Thing")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """' Did you mean …?' when something is close, else nothing."""
    spelt = {known.lower(): known for known in names}  # GRU and gru share no letter otherwise
    near = get_close_matches(name.lower(), list(spelt), n=1)
    return f" Did you mean {spelt[near[0]]!r}?" if near else ""


def pick(table: Mapping[str, Thing], name: str, what: str = "name") -> Thing:
    """Return `table[name]`, or say which `what` there is no such one of, and which there are."""
    if name in table:
        return table[name]
    raise ConfigError(
        f"There is no {what} {name!r}.{did_you_mean(name, table)} "
        f"There are: {', '.join(sorted(table))}."
    )


class Loaded(Mapping[str, Thing], Generic[Thing]):
    """Names to things that are loaded when they are first asked for: "module:attribute"."""

    def __init__(self, places: dict[str, str]):
        self.places = places

    def __getitem__(self, name: str) -> Thing:
        module, attribute = self.places[name].split(":")
        thing: Thing = getattr(import_module(module), attribute)
        return thing

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: object) -> bool:  # without loading it
        return name in self.places
