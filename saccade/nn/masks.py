"""Attention masks: which query may attend to which key.

A mask has one meaning: *may attend*. Masks compose with `&`, `|` and `~`; no tensor is built before
it is needed; and `explain` gives the reason why a query may not attend to a key.

Queries and keys are numbered by their position in the sequence. The T queries are the last T of the
S positions, so that a causal mask means the same with and without a key/value cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from saccade.types.shapes import MaySee


class WindowSize(NamedTuple):
    """The number of positions before and after itself that a query may attend to."""

    back: int
    ahead: int


class _Span(NamedTuple):
    """The first and last position of some queries, and of some keys."""

    first_query: int
    last_query: int
    first_key: int
    last_key: int


# Each part of a mask has
#   may_see(query, key, first_query)  positions (1, ..., T, 1) and (1, ..., 1, S) to a boolean table
#                                     (1 or B, ..., 1 or T, S); `first_query` is the position of the
#                                     first query of the whole sequence, S - T
#   is_idle(span)                     True if it is known to hide no key of the span
#   why_not(row, query, key,          the reason for hiding a key, or ""
#           first_query)
#   shape                             the batch size, query and key lengths it was made for, or None
#   per_head, per_query               True if the table differs between heads, between queries


class _Shape(NamedTuple):
    batch: int | None = None
    query_length: int | None = None
    key_length: int | None = None


@dataclass(frozen=True, eq=False)
class _Lengths:
    lengths: Tensor  # (B,), or (B, T) for a length of its own for each query

    per_head = False

    @property
    def per_query(self) -> bool:
        return self.lengths.dim() == 2

    @property
    def shape(self) -> _Shape:
        return _Shape(self.lengths.shape[0], self.lengths.shape[1] if self.per_query else None)

    def may_see(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        lengths = self.lengths.to(key.device)
        if self.per_query:
            return key < _at(lengths, query - first_query)
        return key < lengths.view(-1, *(1,) * (key.dim() - 1))

    def is_idle(self, span: _Span) -> bool:
        return False  # reading the lengths would synchronise with the device

    def why_not(self, row: int, query: int, key: int, first_query: int) -> str:
        length = int(
            self.lengths[row, query - first_query] if self.per_query else self.lengths[row]
        )
        return f"row {row} is {length} long and the key is padding" if key >= length else ""


@dataclass(frozen=True)
class _Causal:
    per_head, per_query, shape = False, True, _Shape()

    def may_see(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        return key <= query

    def is_idle(self, span: _Span) -> bool:
        return span.last_key <= span.first_query

    def why_not(self, row: int, query: int, key: int, first_query: int) -> str:
        return "the key lies in the query's future" if key > query else ""


@dataclass(frozen=True)
class _Window:
    back: int
    ahead: int

    per_head, per_query, shape = False, True, _Shape()

    def may_see(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        offset = key - query
        return (offset >= -self.back) & (offset <= self.ahead)

    def is_idle(self, span: _Span) -> bool:
        behind, before = span.last_query - span.first_key, span.last_key - span.first_query
        return behind <= self.back and before <= self.ahead

    def why_not(self, row: int, query: int, key: int, first_query: int) -> str:
        offset = key - query
        if -self.back <= offset <= self.ahead:
            return ""
        side, limit = ("ahead", self.ahead) if offset > 0 else ("back", self.back)
        return f"the key is {abs(offset)} positions {side} and the window reaches {limit}"


@dataclass(frozen=True, eq=False)
class _Segments:
    query: Tensor  # (B, T)
    key: Tensor  # (B, S)

    per_head, per_query = False, True

    @property
    def shape(self) -> _Shape:
        return _Shape(self.query.shape[0], self.query.shape[1], self.key.shape[1])

    @property
    def cached(self) -> int:
        """The number of positions before the first query."""
        return self.key.shape[1] - self.query.shape[1]

    def may_see(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        return _at(self.query, query - self.cached) == _at(self.key, key)

    def is_idle(self, span: _Span) -> bool:
        return False

    def why_not(self, row: int, query: int, key: int, first_query: int) -> str:
        mine, theirs = int(self.query[row, query - self.cached]), int(self.key[row, key])
        return f"the query is in segment {mine}, the key in {theirs}" if mine != theirs else ""


@dataclass(frozen=True, eq=False)
class _Table:
    allowed: Tensor  # (1 or B, 1 or H, T, S)

    per_query = True

    @property
    def per_head(self) -> bool:
        return self.allowed.shape[1] > 1

    @property
    def shape(self) -> _Shape:
        B, _, T, S = self.allowed.shape
        return _Shape(None if B == 1 else B, T, S)

    def may_see(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        _, _, T, S = self.allowed.shape
        rows, columns = (query - first_query).clamp(0, T - 1), key.clamp(0, S - 1)
        allowed = self.allowed.to(key.device)
        if self.per_head:  # query (1, 1, T, 1): axis 1 is the heads'
            return allowed[:, :, rows[0, 0], columns[0, 0]]
        return allowed[:, 0][:, rows[0], columns[0]]

    def is_idle(self, span: _Span) -> bool:
        return False

    def why_not(self, row: int, query: int, key: int, first_query: int) -> str:
        B, _, T, S = self.allowed.shape
        table = self.allowed[row if B > 1 else 0].any(dim=0)
        return "" if bool(table[query - (S - T), key]) else "the tensor is False there"


@dataclass(frozen=True, eq=False)
class _AnyOf:
    masks: tuple["Mask", ...]

    @property
    def per_head(self) -> bool:
        return any(mask.per_head for mask in self.masks)

    @property
    def per_query(self) -> bool:
        return any(mask.depends_on_position for mask in self.masks)

    @property
    def shape(self) -> _Shape:
        shapes = [part.shape for mask in self.masks for part in mask.parts]
        axes = zip(*shapes, strict=True)
        return _Shape(*(next((n for n in axis if n is not None), None) for axis in axes))

    def may_see(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        table = self.masks[0].table(query, key, first_query)
        for mask in self.masks[1:]:
            table = table | mask.table(query, key, first_query)
        return table

    def is_idle(self, span: _Span) -> bool:
        return any(all(part.is_idle(span) for part in mask.parts) for mask in self.masks)

    def why_not(self, row: int, query: int, key: int, first_query: int) -> str:
        reasons = [", and ".join(mask.reasons(row, query, key, first_query)) for mask in self.masks]
        return f"no alternative allows it ({'; '.join(reasons)})" if all(reasons) else ""


@dataclass(frozen=True, eq=False)
class _Not:
    mask: "Mask"

    @property
    def per_head(self) -> bool:
        return self.mask.per_head

    @property
    def per_query(self) -> bool:
        return self.mask.depends_on_position

    @property
    def shape(self) -> _Shape:
        return _AnyOf((self.mask,)).shape

    def may_see(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        return ~self.mask.table(query, key, first_query)

    def is_idle(self, span: _Span) -> bool:
        return False

    def why_not(self, row: int, query: int, key: int, first_query: int) -> str:
        hidden = self.mask.reasons(row, query, key, first_query)
        return "" if hidden else "the inverted mask allows it"


def _at(ids: Tensor, positions: Tensor) -> Tensor:
    """Return ids (B, N) at positions (1, ...) as (B, ...); those outside are clamped."""
    return ids[:, positions[0].clamp(0, ids.shape[1] - 1)]


def _length_tensor(lengths: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    sizes = {len(row) if isinstance(row, Sequence) else 0 for row in lengths}
    if len(sizes) > 1:
        raise ValueError(
            "got lengths whose rows differ in size; expected (B,), one for each row, or (B, T), "
            "one for each query; try Mask.lengths([5, 3]) or Mask.lengths([[1, 2], [3, 3]])."
        )
    return torch.tensor(lengths) if lengths else torch.zeros(0, dtype=torch.long)


_Part = _Lengths | _Causal | _Window | _Segments | _Table | _AnyOf | _Not


@dataclass(frozen=True, eq=False)
class Mask:
    """A conjunction of conditions; an empty one lets every query attend to every key."""

    parts: tuple[_Part, ...] = ()

    @staticmethod
    def lengths(lengths: Tensor | Sequence[int] | Sequence[Sequence[int]] | None) -> "Mask":
        """Hide the keys at or beyond a row's length (padding).

        Args:
            lengths: (B,), one for each row; (B, T), one for each query; a list of either; or None
                where no row is padded. A length of 0 or less hides every key, one above S none.
        """
        if lengths is None:
            return Mask()
        tensor = lengths if isinstance(lengths, Tensor) else _length_tensor(lengths)
        if tensor.is_floating_point() or tensor.dtype == torch.bool:
            raise ValueError(
                f"got lengths of type {tensor.dtype}; expected integers; try "
                "Mask.from_tensor(table) for a boolean table of (T, S)."
            )
        if tensor.dim() not in (1, 2):
            raise ValueError(
                f"got lengths of shape {tuple(tensor.shape)}; expected (B,), one for each row, or "
                "(B, T), one for each query; try Mask.lengths([5, 3])."
            )
        return Mask((_Lengths(tensor),))

    @staticmethod
    def from_tensor(allowed: Tensor) -> "Mask":
        """Take a boolean table, True where a query may attend to a key.

        The meaning is that of `F.scaled_dot_product_attention`; `nn.MultiheadAttention` has the
        opposite (True hides), for which `~Mask.from_tensor(hidden)` is the mask.

        Args:
            allowed: (T, S), (B, T, S) or (B, H, T, S), where B and H may be 1.
        """
        if allowed.dtype != torch.bool:
            raise ValueError(
                f"got a mask of type {allowed.dtype}; expected a boolean tensor, True where a "
                "query may attend; try Mask.from_tensor(mask == 0) for an additive mask of 0 and "
                "-inf."
            )
        if allowed.dim() not in (2, 3, 4):
            raise ValueError(
                f"got a mask of shape {tuple(allowed.shape)}; expected (T, S), (B, T, S) or "
                "(B, H, T, S); try mask[:, None, :] for a table of (B, S)."
            )
        if allowed.dim() < 4:
            allowed = allowed[None, None] if allowed.dim() == 2 else allowed[:, None]
        return Mask((_Table(allowed),))

    @staticmethod
    def causal() -> "Mask":
        """Hide the keys after the query."""
        return Mask((_Causal(),))

    @staticmethod
    def window(back: int, ahead: int | None = None) -> "Mask":
        """Allow keys at most `back` positions before the query and `ahead` after it.

        `ahead` is `back` if it is None. Over a long sequence attention is computed in blocks
        (`saccade.nn.kernels.sliding_window`): the cost grows with T times the window, not with T².
        """
        return Mask((_Window(back, back if ahead is None else ahead),))

    @staticmethod
    def causal_window(back: int) -> "Mask":
        """Allow the query's own position and `back` positions before it.

        The "local" pattern of Child et al. 2019, which GPT-3 has in every other layer.
        """
        return Mask.window(back, 0)

    @staticmethod
    def segments(query: Tensor, key: Tensor | None = None) -> "Mask":
        """Allow the keys of the query's own segment; segment ids are (B, T) and (B, S)."""
        return Mask((_Segments(query, query if key is None else key),))

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(self.parts + other.parts)

    def __or__(self, other: "Mask") -> "Mask":
        return Mask((_AnyOf((self, other)),))

    def __invert__(self) -> "Mask":
        return Mask((_Not(self),))

    @property
    def is_causal_only(self) -> bool:
        """True for the case that the fused kernel computes without a table."""
        return bool(self.parts) and all(isinstance(part, _Causal) for part in self.parts)

    @property
    def window_size(self) -> WindowSize | None:
        """The largest distance to both sides; None if a side has no limit."""
        windows = [part for part in self.parts if isinstance(part, _Window)]
        if not windows or self.per_head:
            return None
        causal = any(isinstance(part, _Causal) for part in self.parts)
        ahead = min(part.ahead for part in windows)
        return WindowSize(min(part.back for part in windows), min(ahead, 0) if causal else ahead)

    @property
    def depends_on_position(self) -> bool:
        """True if two queries of a row may attend to different keys."""
        return any(part.per_query for part in self.parts)

    @property
    def per_head(self) -> bool:
        """True if the mask has a table of its own for each head."""
        return any(part.per_head for part in self.parts)

    def check_shape(self, batch: int, query_length: int, key_length: int) -> None:
        """Raise a `ValueError` if the mask was made for a batch of another shape."""
        expected = {"rows": batch, "queries": query_length, "keys": key_length}
        for part in self.parts:
            for (axis, size), got in zip(expected.items(), part.shape, strict=True):
                if got is not None and got != size:
                    raise ValueError(
                        f"got a mask for {got} {axis}; expected {size} (batch {batch}, "
                        f"{query_length} queries, {key_length} keys); try a mask made from this "
                        "batch."
                    )

    def may_see(
        self,
        query_length: int,
        key_length: int,
        device: torch.device | None = None,
        first_key: int = 0,
    ) -> MaySee | None:
        """Return the table of queries by keys, or None if every query may attend to every key.

        The keys before `first_key` are left out.
        """
        first_query = key_length - query_length
        span = _Span(first_query, key_length - 1, first_key, key_length - 1)
        # the last position may attend to all: the common case of one step with a cache
        parts = tuple(part for part in self.parts if not part.is_idle(span))
        if not parts:
            return None
        key = torch.arange(first_key, key_length, device=device).view(1, 1, 1, -1)
        query = torch.arange(first_query, key_length, device=device).view(1, 1, -1, 1)
        return Mask(parts).table(query, key, first_query)

    def table(self, query: Tensor, key: Tensor, first_query: int) -> Tensor:
        """Evaluate the mask at positions (1, ..., T, 1) and (1, ..., 1, S) as (B, ..., T, S).

        An axis along which the mask does not vary may be 1. `first_query` is the position of the
        first query of the sequence.
        """
        if not self.parts:
            return torch.ones_like(key, dtype=torch.bool)
        table = self.parts[0].may_see(query, key, first_query)
        for part in self.parts[1:]:
            table = table & part.may_see(query, key, first_query)
        return table

    def reasons(self, row: int, query: int, key: int, first_query: int = 0) -> list[str]:
        """List the conditions that hide a key from a query; empty if it may attend."""
        found = (part.why_not(row, query, key, first_query) for part in self.parts)
        return [reason for reason in found if reason]

    def explain(self, query: int, key: int, row: int = 0, first_query: int = 0) -> str:
        """Explain why the query at one position may or may not attend to the key at another.

        `first_query` is the position of the first query, S - T: not 0 with a key/value cache.
        """
        reasons = self.reasons(row, query, key, first_query)
        if not reasons:
            return f"query {query} may attend to key {key}"
        return f"query {query} may not attend to key {key}: {', and '.join(reasons)}"


MaskLike = Mask | Tensor | Sequence[int] | Sequence[Sequence[int]] | None


def as_mask(mask: MaskLike) -> Mask:
    """Convert what a caller may give as a mask.

    Args:
        mask: None (attend to everything), a `Mask`, a boolean tensor (True = may attend) of (T, S),
            (B, T, S) or (B, H, T, S), or lengths: a list, or an integer tensor of (B,) or (B, T).
    """
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor):
        if mask.is_floating_point():
            raise ValueError(
                f"got a {mask.dtype} tensor of shape {tuple(mask.shape)} as the mask; expected a "
                "Mask, a boolean tensor (True = may attend) or integer lengths; try "
                "mask=(additive == 0) for an additive mask, or attention(x, memory) for "
                "query, key, value: keys and values are both projected from `memory`."
            )
        return Mask.from_tensor(mask) if mask.dtype == torch.bool else Mask.lengths(mask)
    return Mask.lengths(mask)
