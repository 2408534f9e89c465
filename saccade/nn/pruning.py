r"""Heads of attention switched off to see what they are worth, and taken out for good.

With ξ_h in front of each head (Michel et al. 2019, eq. 1),

    Concat(ξ_1 head_1 … ξ_H head_H) W_o

is the attention as it is where every ξ_h is 1, and without head h where ξ_h is 0. The same is
had by taking the head's columns out of W_o and its rows out of W_q, W_k and W_v: a law binds the
two. Heads are counted from 0 here, in the order in which they stand in the matrices, and an
attention goes by its name in the model.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.attention import MultiHeadAttention, attend_shared_memory
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import AttentionPositions, RelativePositions
from saccade.types.shapes import Hidden

HeadIndices = Mapping[str, Collection[int]]  # of each attention that is spoken of


def count_heads(model: nn.Module) -> dict[str, int]:
    """How many heads each multi-head attention of a model has."""
    return {
        name: module.heads
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }


@contextmanager
def masked_heads(model: nn.Module, heads: HeadIndices) -> Iterator[None]:
    """ξ_h = 0 for these heads while the block is open; all else is computed as before."""
    with ExitStack() as stack:
        for name, some in heads.items():
            attention = _attention(model, name, some)
            factors = torch.ones(attention.heads)
            factors[list(some)] = 0.0

            def scale(module: Any, inputs: Any, factors: Tensor = factors) -> Tensor:
                (seen,) = inputs
                return _times(seen, factors.to(seen).expand(seen.shape[0], -1))

            stack.callback(attention.out.register_forward_pre_hook(scale).remove)
        yield


class HeadGates:
    """The ξ of every call while `measured` was open, by the attention's name."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Float[Tensor, "B H"]]] = {}

    def gradients(self, loss: Tensor) -> dict[str, Float[Tensor, "B H"]]:
        """∂loss/∂ξ of every example and head, at ξ = 1."""
        every = [factors for calls in self.calls.values() for factors in calls]
        found = iter(torch.autograd.grad(loss, every))
        return {
            name: torch.stack([next(found) for _ in calls]).sum(dim=0)
            for name, calls in self.calls.items()
        }


@contextmanager
def gated_heads(model: nn.Module) -> Iterator[HeadGates]:
    r"""Put ξ = 1 before every head of every example, so that a loss has a slope there.

    |∂L(x)/∂ξ_h| = |⟨head_h, ∂L(x)/∂head_h⟩|, whose mean over examples is the head's importance
    (Michel et al. 2019, eq. 2).
    """
    factors = HeadGates()
    with ExitStack() as stack:
        for name in count_heads(model):
            attention: Any = model.get_submodule(name)

            def scale(
                module: Any, inputs: Any, name: str = name, heads: int = attention.heads
            ) -> Tensor:
                (seen,) = inputs
                ones = seen.new_ones(seen.shape[0], heads, requires_grad=True)
                factors.calls.setdefault(name, []).append(ones)
                return _times(seen, ones)

            stack.callback(attention.out.register_forward_pre_hook(scale).remove)
        yield factors


def _times(seen: Float[Tensor, "B T E"], factors: Float[Tensor, "B H"]) -> Float[Tensor, "B T E"]:
    """The heads' results, side by side along E, each by its factor."""
    by_head = seen.unflatten(-1, (factors.shape[1], -1))
    return (by_head * factors[:, None, :, None]).flatten(-2)


def prune_heads(model: nn.Module, heads: HeadIndices) -> None:
    """Take these heads out of a model, in place: its matrices become smaller."""
    for name, some in heads.items():
        attention = _attention(model, name, some)
        kept = [head for head in range(attention.heads) if head not in set(some)]
        if not kept:
            raise ValueError(
                f"all {attention.heads} heads of {name} were to be taken out; leave at least one."
            )
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, PrunedAttention(attention, kept))


class PrunedAttention(MultiHeadAttention):
    """Another attention with only some of its heads, each of them as wide as it was.

    Where key and value heads serve several queries, those that still serve one are kept. If they
    then serve unequal numbers of queries, each is handed out anew at every call, which copies it:
    the fused kernel knows equal numbers only.
    """

    def __init__(self, whole: MultiHeadAttention, kept: Sequence[int]):
        nn.Module.__init__(self)
        before = _served_by(whole)
        kv_heads = sorted({before[head] for head in kept})
        width = whole.query.out_features // whole.heads
        self.heads, self.kv_heads = len(kept), len(kv_heads)
        queries, keys = _head_rows(kept, width), _head_rows(kv_heads, width)
        self.query = _rows(whole.query, queries)
        self.key_value = _rows(whole.key_value, torch.cat([keys, whole.kv_heads * width + keys]))
        self.out = _columns(whole.out, queries)
        self.attention = whole.attention
        self.attention.positions = _positions(whole.attention.positions, kept, queries)
        self.kv_head_of = [kv_heads.index(before[head]) for head in kept]
        self.has_equal_groups = self.kv_head_of == [
            n * self.kv_heads // self.heads for n in range(self.heads)
        ]
        self.has_equal_groups = self.has_equal_groups and self.heads % self.kv_heads == 0
        self.train(whole.training)

    def forward(self, x: Hidden, memory: KVCache, mask: Mask) -> Hidden:
        """Attend from x to what is remembered."""
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        query = self.attention.positions.rotate(query, memory.end - x.shape[1])
        seen = attend_shared_memory(self.attention, query, self._for_all(memory), mask)
        return self.out(seen.transpose(1, 2).flatten(2))

    def _for_all(self, memory: KVCache) -> KVCache:
        if self.has_equal_groups:
            return memory
        keys, values = memory.filled()
        return memory._replace(keys=keys[:, self.kv_head_of], values=values[:, self.kv_head_of])


def _attention(model: nn.Module, name: str, heads: Collection[int]) -> MultiHeadAttention:
    there = count_heads(model)
    if name not in there:
        raise ValueError(
            f"there is no attention with heads called {name!r}; there are "
            f"{', '.join(there) or 'none in this model'}."
        )
    attention: Any = model.get_submodule(name)
    strange = [head for head in heads if not 0 <= head < attention.heads]
    if strange:
        raise ValueError(
            f"{name} has no head {strange[0]}; its {attention.heads} heads are counted from 0 to "
            f"{attention.heads - 1}."
        )
    return attention


def _served_by(attention: MultiHeadAttention) -> list[int]:
    """The key and value head of each head."""
    if isinstance(attention, PrunedAttention):
        return attention.kv_head_of
    return [head * attention.kv_heads // attention.heads for head in range(attention.heads)]


def _head_rows(heads: Sequence[int], width: int) -> Tensor:
    """Where these heads stand among the rows of a matrix."""
    return (torch.tensor(list(heads))[:, None] * width + torch.arange(width)).flatten()


def _rows(linear: nn.Linear, rows: Tensor) -> nn.Linear:
    return _linear(linear.weight[rows], None if linear.bias is None else linear.bias[rows])


def _columns(linear: nn.Linear, columns: Tensor) -> nn.Linear:
    return _linear(linear.weight[:, columns], linear.bias)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    made.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone())
    return made


def _positions(
    positions: AttentionPositions, kept: Sequence[int], rows: Tensor
) -> AttentionPositions:
    """Positions with weights for each head keep those of the heads that stay."""
    if isinstance(positions, RelativePositions):
        positions.project = _rows(positions.project, rows)
        positions.content = nn.Parameter(positions.content.detach()[list(kept)])
        positions.distance = nn.Parameter(positions.distance.detach()[list(kept)])
    return positions
