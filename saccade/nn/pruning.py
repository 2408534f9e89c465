r"""Attention head pruning: mask heads to measure their importance, or remove them.

With ξ_h in front of each head (Michel et al. 2019, eq. 1),

    Concat(ξ_1 head_1 … ξ_H head_H) W_o

is the full attention where every ξ_h is 1, and the attention without head h where ξ_h is 0.
Removing the columns of the head from W_o and its rows from W_q, W_k and W_v has the same result,
which the tests prove. Heads are numbered from 0, in the order of the matrices, and an attention is
identified by its name in the model.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.kv_cache import KVCache
from saccade.nn.positional_encoding import AttentionPositions, RelativePositions
from saccade.nn.transformer import MultiHeadAttention

HeadIndices = Mapping[str, Collection[int]]  # heads by the name of their attention


def count_heads(model: nn.Module) -> dict[str, int]:
    """Return the number of heads of each multi-head attention of a model."""
    return {
        name: module.heads
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }


@contextmanager
def masked_heads(model: nn.Module, heads: HeadIndices) -> Iterator[None]:
    """Set ξ_h = 0 for these heads inside a `with` block."""
    with ExitStack() as stack:
        for name, indices in heads.items():
            attention = _attention(model, name, indices)
            factors = torch.ones(attention.heads)
            factors[list(indices)] = 0.0

            def scale(module: Any, inputs: Any, factors: Tensor = factors) -> Tensor:
                (heads_output,) = inputs
                gates = factors.to(heads_output).expand(heads_output.shape[0], -1)
                return _scale_heads(heads_output, gates)

            stack.callback(attention.out.register_forward_pre_hook(scale).remove)
        yield


class HeadGates:
    """The ξ of every call inside `gated_heads`, by the name of the attention."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Float[Tensor, "B H"]]] = {}

    def gradients(self, loss: Tensor) -> dict[str, Float[Tensor, "B H"]]:
        """Return ∂loss/∂ξ at ξ = 1 of every example and head."""
        gates = [factors for calls in self.calls.values() for factors in calls]
        gradients = iter(torch.autograd.grad(loss, gates))
        return {
            name: torch.stack([next(gradients) for _ in calls]).sum(dim=0)
            for name, calls in self.calls.items()
        }


@contextmanager
def gated_heads(model: nn.Module) -> Iterator[HeadGates]:
    r"""Insert ξ = 1 in front of every head of every example, so that a loss has a gradient there.

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
                (heads_output,) = inputs
                ones = heads_output.new_ones(heads_output.shape[0], heads, requires_grad=True)
                factors.calls.setdefault(name, []).append(ones)
                return _scale_heads(heads_output, ones)

            stack.callback(attention.out.register_forward_pre_hook(scale).remove)
        yield factors


def _scale_heads(
    heads_output: Float[Tensor, "B T E"], factors: Float[Tensor, "B H"]
) -> Float[Tensor, "B T E"]:
    """Multiply the outputs of the heads, concatenated along E, by their factors."""
    by_head = heads_output.unflatten(-1, (factors.shape[1], -1))
    return (by_head * factors[:, None, :, None]).flatten(-2)


def prune_heads(model: nn.Module, heads: HeadIndices) -> None:
    """Remove these heads from a model, in place; its matrices become smaller."""
    for name, indices in heads.items():
        attention = _attention(model, name, indices)
        kept = [head for head in range(attention.heads) if head not in set(indices)]
        if not kept:
            raise ValueError(
                f"got all {attention.heads} heads of {name} to remove; expected one to stay."
            )
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, PrunedAttention(attention, kept))


class PrunedAttention(MultiHeadAttention):
    """An attention with only some heads of another one, each as wide as before.

    Of grouped key and value heads, those that still serve a query head are kept. If they then serve
    unequal numbers of query heads, they are repeated at every call, which copies them: the fused
    kernel supports equal groups only.
    """

    def __init__(self, whole: MultiHeadAttention, kept: Sequence[int]):
        nn.Module.__init__(self)
        before = _served_by(whole)
        kv_heads = sorted({before[head] for head in kept})
        width = whole.query.out_features // whole.heads
        self.heads, self.kv_heads = len(kept), len(kv_heads)
        queries, keys = _head_rows(kept, width), _head_rows(kv_heads, width)
        self.query = _select_rows(whole.query, queries)
        self.key_value = _select_rows(
            whole.key_value, torch.cat([keys, whole.kv_heads * width + keys])
        )
        self.out = _select_columns(whole.out, queries)
        self.attention = whole.attention
        self.attention.positions = _positions(whole.attention.positions, kept, queries)
        self.kv_head_of = [kv_heads.index(before[head]) for head in kept]
        self.has_equal_groups = self.kv_head_of == [
            n * self.kv_heads // self.heads for n in range(self.heads)
        ]
        self.has_equal_groups = self.has_equal_groups and self.heads % self.kv_heads == 0
        self.train(whole.training)

    def _kv_of_heads(self, memory: KVCache) -> KVCache:
        if self.has_equal_groups:
            return memory
        keys, values = memory.filled()
        return memory._replace(keys=keys[:, self.kv_head_of], values=values[:, self.kv_head_of])


def _attention(model: nn.Module, name: str, heads: Collection[int]) -> MultiHeadAttention:
    counts = count_heads(model)
    if name not in counts:
        raise ValueError(
            f"got {name!r} as the name of an attention; expected one of "
            f"{', '.join(counts) or 'a model with multi-head attention'}."
        )
    attention: Any = model.get_submodule(name)
    unknown = [head for head in heads if not 0 <= head < attention.heads]
    if unknown:
        raise ValueError(f"got head {unknown[0]} of {name}; expected 0 to {attention.heads - 1}.")
    return attention


def _served_by(attention: MultiHeadAttention) -> list[int]:
    """Return the key and value head of each query head."""
    if isinstance(attention, PrunedAttention):
        return attention.kv_head_of
    return [head * attention.kv_heads // attention.heads for head in range(attention.heads)]


def _head_rows(heads: Sequence[int], width: int) -> Tensor:
    """Return the rows of a matrix that belong to these heads."""
    return (torch.tensor(list(heads))[:, None] * width + torch.arange(width)).flatten()


def _select_rows(linear: nn.Linear, rows: Tensor) -> nn.Linear:
    return _linear(linear.weight[rows], None if linear.bias is None else linear.bias[rows])


def _select_columns(linear: nn.Linear, columns: Tensor) -> nn.Linear:
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
    """Keep the per-head weights of the heads that stay."""
    if isinstance(positions, RelativePositions):
        positions.project = _select_rows(positions.project, rows)
        positions.content = nn.Parameter(positions.content.detach()[list(kept)])
        positions.distance = nn.Parameter(positions.distance.detach()[list(kept)])
    return positions
