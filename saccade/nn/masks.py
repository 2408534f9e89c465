"""Who may see what.

A mask has one meaning: *may see*. Parts compose with `&`, nothing is made into a tensor until
someone needs it, and a mask can say in words why a query may not see a key.

Queries and keys are counted by their place in the sequence. The T queries are the last T of the
S places, so that a causal mask means the same with a remembered past and without one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from saccade.types.shapes import MaySee


class WindowSize(NamedTuple):
    """How many places before and after itself a query sees at most."""

    back: int
    ahead: int


class _Span(NamedTuple):
    """The first and last place of some queries, and of some keys."""

    first_query: int
    last_query: int
    first_key: int
    last_key: int


# `may_see(query, key)` is asked with places of queries (1, ..., T, 1) and of keys (1, ..., 1, S)
# and answers with a table (1 or B, ..., 1 or T, S). `is_idle` says that it hides none of a span.


@dataclass(frozen=True, eq=False)
class _Lengths:
    lengths: Tensor  # (B,)

    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        return key < self.lengths.view(-1, *(1,) * (key.dim() - 1))

    def is_idle(self, span: _Span) -> bool:
        return False  # the lengths are numbers on the device: asking would wait for it

    def why_not(self, row: int, query: int, key: int) -> str:
        length = int(self.lengths[row])
        return f"row {row} is {length} long and the key is padding" if key >= length else ""


@dataclass(frozen=True)
class _Causal:
    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        return key <= query

    def is_idle(self, span: _Span) -> bool:
        return span.last_key <= span.first_query

    def why_not(self, row: int, query: int, key: int) -> str:
        return "the key lies in the query's future" if key > query else ""


@dataclass(frozen=True)
class _Window:
    back: int
    ahead: int

    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        offset = key - query
        return (offset >= -self.back) & (offset <= self.ahead)

    def is_idle(self, span: _Span) -> bool:
        behind, before = span.last_query - span.first_key, span.last_key - span.first_query
        return behind <= self.back and before <= self.ahead

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

    @property
    def past(self) -> int:
        """Places before the first query: the queries are the last, as everywhere in this file."""
        return self.key.shape[1] - self.query.shape[1]

    def may_see(self, query: Tensor, key: Tensor) -> Tensor:
        return _at(self.query, query - self.past) == _at(self.key, key)

    def is_idle(self, span: _Span) -> bool:
        return False

    def why_not(self, row: int, query: int, key: int) -> str:
        mine, theirs = int(self.query[row, query - self.past]), int(self.key[row, key])
        return f"the query is in segment {mine}, the key in {theirs}" if mine != theirs else ""


def _at(ids: Tensor, key_length: Tensor) -> Tensor:
    """The ids at (1, ...) places, as (B, ...); a place outside gets some id or other."""
    return ids[:, key_length[0].clamp(0, ids.shape[1] - 1)]


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
        """Keys at most `back` places before the query and `ahead` after it (None: as `back`).

        Over a long sequence the attention is computed in blocks (`saccade.nn.kernels.sliding_window`): its cost
        grows with the window, and not with the length times the length.
        """
        return Mask((_Window(back, back if ahead is None else ahead),))

    @staticmethod
    def causal_window(back: int) -> "Mask":
        """The query itself and `back` places before it: a causal window.

        The "local" pattern of Child et al. 2019, which GPT-3 has in every other layer.
        """
        return Mask.window(back, 0)

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

    @property
    def window_size(self) -> WindowSize | None:
        """How far a query sees to both sides at most; None if a side has no limit."""
        windows = [part for part in self.parts if isinstance(part, _Window)]
        if not windows:
            return None
        causal = any(isinstance(part, _Causal) for part in self.parts)
        ahead = min(part.ahead for part in windows)
        return WindowSize(min(part.back for part in windows), min(ahead, 0) if causal else ahead)

    @property
    def depends_on_position(self) -> bool:
        """Whether what a query may see depends on which query it is."""
        return any(not isinstance(part, _Lengths) for part in self.parts)

    def may_see(
        self,
        query_length: int,
        key_length: int,
        device: torch.device | None = None,
        first_key: int = 0,
    ) -> MaySee | None:
        """The table of `steps` queries by `places` keys, or None if everything may be seen.

        `first_key` leaves out the keys before it.
        """
        span = _Span(key_length - query_length, key_length - 1, first_key, key_length - 1)
        # the newest of all places sees them all: the common case of one step with a past
        parts = tuple(part for part in self.parts if not part.is_idle(span))
        if not parts:
            return None
        key = torch.arange(first_key, key_length, device=device)[None, :]
        query = torch.arange(key_length - query_length, key_length, device=device)[:, None]
        return Mask(parts).table(query[None], key[None]).unsqueeze(1)

    def table(self, query: Tensor, key: Tensor) -> Tensor:
        """Who of these may see whom: places (1, ..., T, 1) and (1, ..., 1, S) give (B, ..., T, S).

        An axis along which the answer is the same may be 1. For a mask with at least one part.
        """
        table = self.parts[0].may_see(query, key)
        for part in self.parts[1:]:
            table = table & part.may_see(query, key)
        return table

    def explain(self, query: int, key: int, row: int = 0) -> str:
        """Why the query at one place may or may not see the key at another, in words."""
        reasons = [reason for part in self.parts if (reason := part.why_not(row, query, key))]
        if not reasons:
            return f"query {query} may see key {key}"
        return f"query {query} may not see key {key}: {', and '.join(reasons)}"
