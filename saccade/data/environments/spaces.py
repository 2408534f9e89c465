"""Observations and actions of an environment, as vectors and as JSON."""

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from saccade.errors import ConfigError, DataError
from saccade.io.documents import parse_structure

ObservationKind = Literal["numbers", "categories"]
ActionKind = Literal["discrete", "continuous"]
Vector = NDArray[np.floating[Any]]  # an encoded observation, or a continuous action


class Spaces(NamedTuple):
    """The form of observations and actions: the preprocessor of a run.

    An observation of numbers is flattened; one of categories is encoded one-hot, category by
    category (a position of a grid, the cards of a hand).
    """

    world: str
    observation: ObservationKind
    sizes: tuple[int, ...]  # shape of numbers, or number of values of each category
    starts: tuple[int, ...]  # first value of each category
    action: ActionKind
    actions: int  # number of discrete actions, or of continuous components
    first_action: int  # value of the first discrete action
    low: tuple[FiniteFloat | None, ...]  # of each continuous component; None: unbounded
    high: tuple[FiniteFloat | None, ...]
    max_steps: int  # of an episode

    @property
    def width(self) -> int:
        """Number of components of an encoded observation."""
        return prod(self.sizes) if self.observation == "numbers" else sum(self.sizes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self._asdict()

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Spaces":
        """Rebuild the spaces from plain values."""
        found: Spaces = parse_structure(Spaces, values)
        return found

    def encode(self, observation: Any) -> Vector:
        """Return an observation as a vector."""
        if self.observation == "numbers":
            return np.asarray(observation, np.float32).reshape(-1)
        parts = observation if isinstance(observation, tuple) else (observation,)
        return self.encode_categories(np.concatenate([np.ravel(part) for part in parts]))

    def encode_categories(self, values: Any) -> Vector:
        """Return category values as one-hot vectors, one after another."""
        vector = np.zeros(self.width, np.float32)
        offset = 0
        for value, size, start in zip(values, self.sizes, self.starts, strict=True):
            vector[offset + int(value) - start] = 1.0
            offset += size
        return vector

    def decode_categories(self, vector: Vector) -> tuple[int, ...]:
        """Return the category values of an encoded observation."""
        ends = np.cumsum(self.sizes).tolist()
        return tuple(
            int(vector[end - size : end].argmax()) + start
            for end, size, start in zip(ends, self.sizes, self.starts, strict=True)
        )

    def parse(self, raw: object, where: str) -> Vector:
        """Encode an observation that a user gives, as nested lists of numbers."""
        try:
            values = np.asarray(raw, np.float64).reshape(-1)
        except (TypeError, ValueError, OverflowError):
            raise DataError(
                f"{where}: got {str(raw)[:60]!r}; expected {self.describe()}."
            ) from None
        if self.observation == "numbers":
            if len(values) != self.width or not np.isfinite(values).all():
                raise DataError(
                    f"{where}: got {_describe_values(values)}; expected {self.describe()}."
                )
            return values.astype(np.float32)
        ranges = zip(values.tolist(), self.starts, self.sizes, strict=False)
        if len(values) != len(self.sizes) or not all(
            value in range(start, start + size) for value, start, size in ranges
        ):
            raise DataError(f"{where}: got {_describe_values(values)}; expected {self.describe()}.")
        return self.encode_categories(values)

    def describe(self) -> str:
        """Describe what an observation is, for messages."""
        if self.observation == "numbers":
            return f"{self.width} finite numbers, an observation of {self.world}"
        ranges = [
            f"{start} to {start + size - 1}"
            for start, size in zip(self.starts, self.sizes, strict=True)
        ]
        return f"whole numbers ({', '.join(ranges)}), an observation of {self.world}"

    def clip_action(self, action: Vector) -> Vector:
        """Return a continuous action within its limits."""
        low = [-np.inf if limit is None else limit for limit in self.low]
        high = [np.inf if limit is None else limit for limit in self.high]
        return np.clip(action, low, high).astype(np.float32)


def _describe_values(values: Vector) -> str:
    first = " ".join(f"{value:g}" for value in values[:6].tolist())
    return f"{len(values)} numbers ({first}{' …' if len(values) > 6 else ''})"


def read_spaces(environment: Any, world: str, max_steps: int) -> Spaces:
    """Return the spaces of a Gymnasium environment; ConfigError for those that no model takes."""
    kind, sizes, starts = _read_observation(environment.observation_space, world)
    action, count, first, low, high = _read_action(environment.action_space, world)
    return Spaces(world, kind, sizes, starts, action, count, first, low, high, max_steps)


def _read_observation(
    space: Any, world: str
) -> tuple[ObservationKind, tuple[int, ...], tuple[int, ...]]:
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        return "numbers", tuple(space.shape) or (1,), ()
    parts = _categories([space])
    if parts is None:
        names = f" with the keys {', '.join(space)}" if isinstance(space, spaces.Dict) else ""
        raise ConfigError(
            f"{world}: got observations of the type {type(space).__name__}{names}; expected "
            "numbers (Box) or categories (Discrete, MultiDiscrete, or a Tuple of them); try to "
            "wrap the environment in gymnasium.wrappers.FlattenObservation."
        )
    sizes, starts = zip(*parts, strict=True)
    return "categories", sizes, starts


def _categories(parts: Sequence[Any]) -> list[tuple[int, int]] | None:
    """Return number of values and first value of each category; None: not categories."""
    from gymnasium import spaces

    found: list[tuple[int, int]] = []
    for part in parts:
        if isinstance(part, spaces.Discrete):
            found.append((int(part.n), int(part.start)))
        elif isinstance(part, spaces.MultiDiscrete):
            found += zip(
                part.nvec.reshape(-1).tolist(), part.start.reshape(-1).tolist(), strict=True
            )
        elif isinstance(part, spaces.MultiBinary):
            found += [(2, 0)] * int(np.prod(part.shape))
        elif isinstance(part, spaces.Tuple):
            inner = _categories(part.spaces)
            if inner is None:
                return None
            found += inner
        else:
            return None
    return found or None


Limits = tuple[float | None, ...]


def _read_action(space: Any, world: str) -> tuple[ActionKind, int, int, Limits, Limits]:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return "discrete", int(space.n), int(space.start), (), ()
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        low, high = (
            tuple(float(limit) if np.isfinite(limit) else None for limit in limits)
            for limits in (space.low, space.high)
        )
        return "continuous", int(space.shape[0]), 0, low, high
    raise ConfigError(
        f"{world}: got actions of the type {type(space).__name__}; expected one discrete action "
        "(Discrete) or a vector of numbers (Box); try to wrap the environment so that it takes one "
        "of them."
    )
