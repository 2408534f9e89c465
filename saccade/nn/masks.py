"""Who may see what.

A mask has one meaning: *may see*. Parts compose with `&`, nothing is made into a tensor until
someone needs it, and a mask can say in words why a query may not see a key.

Queries and keys are counted by their place in the sequence. The T queries are the last T of the
S places, so that a causal mask means the same with a remembered past and without one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from saccade.types import MaySee


@dataclass(frozen=True, eq=False)
class _Lengths:
    lengths: Tensor  # (B,)

    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        return (key < self.lengths[:, None, None]).unsqueeze(1)  # (B, 1, 1, S)

    def why_not(self, row: int, query: int, key: int) -> str:
        length = int(self.lengths[row])
        return f"row {row} is {length} long and the key is padding" if key >= length else ""


@dataclass(frozen=True)
class _Causal:
    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        return key <= query

    def why_not(self, row: int, query: int, key: int) -> str:
        return "the key lies in the query's future" if key > query else ""


@dataclass(frozen=True)
class _Window:
    back: int
    ahead: int

    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        offset = key - query
        return (offset >= -self.back) & (offset <= self.ahead)

    def why_not(self, row: int, query: int, key: int) -> str:
        offset = key - query
        if -self.back <= offset <= self.ahead:
            return ""
        side, limit = ("ahead", self.ahead) if offset > 0 else ("back", self.back)
        return f"the key is {abs(offset)} places {side} and the window reaches {limit}"


@dataclass(frozen=True, eq=False)
class _Segments:
    query: Tensor  # (B, T)
    key: Tensor  # (B, S)

    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        return (self.query[:, :, None] == self.key[:, None, :]).unsqueeze(1)  # (B, 1, T, S)

    def why_not(self, row: int, query: int, key: int) -> str:
        # the queries are the last of the places, as everywhere in this file
        past = self.key.shape[1] - self.query.shape[1]
        mine, theirs = int(self.query[row, query - past]), int(self.key[row, key])
        return f"the query is in segment {mine}, the key in {theirs}" if mine != theirs else ""


_Part = _Lengths | _Causal | _Window | _Segments


@dataclass(frozen=True, eq=False)
class Mask:
    """A conjunction of parts; with none, everything may be seen."""

    parts: tuple[_Part, ...] = ()

    @staticmethod
    def lengths(lengths: Tensor | None) -> "Mask":
        """Keys at or beyond a row's length are padding; None says that no row is padded."""
        return Mask() if lengths is None else Mask((_Lengths(lengths),))

    @staticmethod
    def causal() -> "Mask":
        """No query sees a later key."""
        return Mask((_Causal(),))

    @staticmethod
    def window(back: int, ahead: int | None = None) -> "Mask":
        """Keys at most `back` places before the query and `ahead` after it (None: as `back`)."""
        return Mask((_Window(back, back if ahead is None else ahead),))

    @staticmethod
    def segments(query: Tensor, key: Tensor | None = None) -> "Mask":
        """Only keys of the query's own segment; ids are (B, T) and (B, S)."""
        return Mask((_Segments(query, query if key is None else key),))

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(self.parts + other.parts)

    @property
    def is_causal_only(self) -> bool:
        """True for the case that the fused kernel does without a table."""
        return bool(self.parts) and all(isinstance(part, _Causal) for part in self.parts)

    def may_see(self, steps: int, places: int, device: torch.device | None = None) -> MaySee | None:
        """The table of `steps` queries by `places` keys, or None if everything may be seen."""
        # the newest of all places sees them all: the common case of one step with a past
        parts = [p for p in self.parts if not (isinstance(p, _Causal) and steps == 1)]
        if not parts:
            return None
        key = torch.arange(places, device=device)[None, :]
        query = torch.arange(places - steps, places, device=device)[:, None]
        table = parts[0].may_see(query, key)
        for part in parts[1:]:
            table = table & part.may_see(query, key)
        return table.reshape((1,) * (4 - table.dim()) + table.shape)

    def explain(self, query: int, key: int, row: int = 0) -> str:
        """Why the query at one place may or may not see the key at another, in words."""
        reasons = [reason for part in self.parts if (reason := part.why_not(row, query, key))]
        if not reasons:
            return f"query {query} may see key {key}"
        return f"query {query} may not see key {key}: {', and '.join(reasons)}"
