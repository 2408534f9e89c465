r"""Causal attention that is to learn on a processor: blocks of queries, products by BLAS.

A block of queries is compared with the keys up to its own end, so that of the table of T² weights
little more than the half that is not hidden is computed: (1 + 1/n) / 2 of it with n blocks. The
weights are kept for the way back, where the framework's fused kernel makes them again. That is
quicker as long as they are few (`MOST`), and gives the same numbers. Where there is AVX-512 the
fused kernel is the quicker one for short sequences (`FEWEST`); `benchmarks/kernels.py` shows it.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

QUERY_BLOCK = 64  # queries
MAX_BLOCKWISE_LENGTH = 512  # places; beyond, the tables of weights are large
MIN_BLOCKWISE_LENGTH = (
    256 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 0
)  # up to there, fused


def is_blockwise_faster(query: Tensor, keys: Tensor) -> bool:
    """Whether `attend_back` is the quicker way."""
    learning = torch.is_grad_enabled() and query.requires_grad
    return (
        learning
        and query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.float64)
        and query.shape == keys.shape
        and MIN_BLOCKWISE_LENGTH < query.shape[-2] <= MAX_BLOCKWISE_LENGTH
    )


def blockwise_causal_attention(
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B H T Q"],
    values: Float[Tensor, "B H T K"],
) -> Float[Tensor, "B H T K"]:
    r"""softmax(Q Kᵀ / √Q) V, where no query sees a later key."""
    found: Tensor = _BlockwiseCausalAttention.apply(query, keys, values)
    return found


class _BlockwiseCausalAttention(torch.autograd.Function):
    r"""Of a block Q with the keys K and values V up to its end and the gradient G of its result:

    P = softmax(Q Kᵀ),  O = P V,  ∂V = Pᵀ G,  ∂S = P ∘ (∂P - Σ_row P ∘ ∂P) with ∂P = G Vᵀ,
    ∂Q = ∂S K,  ∂K = ∂Sᵀ Q.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Each block, and its weights for the way back."""
        B, H, T, Q = query.shape
        q, k, v = (part.reshape(B * H, T, -1) for part in (query * Q**-0.5, keys, values))
        longest = max(end - start for start, end in _blocks(T))
        future = q.new_full((longest, longest), -torch.inf).triu_(1)
        tables, seen = [], []
        for start, end in _blocks(T):
            scores = torch.bmm(q[:, start:end], k[:, :end].transpose(1, 2))
            scores[:, :, start:].add_(future[: end - start, : end - start])
            tables.append(scores.softmax(dim=-1))
            seen.append(torch.bmm(tables[-1], v[:, :end]))
        ctx.save_for_backward(q, k, v, *tables)
        return _joined(seen).view(B, H, T, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        """From the last block, which sees all keys, to the first."""
        q, k, v, *tables = ctx.saved_tensors
        B, H, T, _ = gradient.shape
        g = gradient.reshape(B * H, T, -1)
        to_q: list[Tensor] = []
        to_k, to_v = torch.zeros_like(k), torch.zeros_like(v)
        for (start, end), table in zip(reversed(_blocks(T)), reversed(tables), strict=True):
            some = g[:, start:end]
            to_table = torch.bmm(some, v[:, :end].transpose(1, 2))
            to_scores = torch._softmax_backward_data(to_table, table, -1, table.dtype)
            to_q.append(torch.bmm(to_scores, k[:, :end]))
            _add(to_v, torch.bmm(table.transpose(1, 2), some))
            _add(to_k, torch.bmm(to_scores.transpose(1, 2), q[:, start:end]))
        scaled = _joined(to_q[::-1]).mul_(q.shape[-1] ** -0.5)
        return tuple(found.view(B, H, T, -1) for found in (scaled, to_k, to_v))


def _blocks(steps: int) -> list[tuple[int, int]]:
    """A last block that would be short is part of the one before it."""
    starts = range(0, max(1, steps - QUERY_BLOCK // 2), QUERY_BLOCK)
    return [(start, min(start + QUERY_BLOCK, steps)) for start in starts[:-1]] + [
        (starts[-1], steps)
    ]


def _joined(blocks: list[Tensor]) -> Tensor:
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)


def _add(whole: Tensor, part: Tensor) -> None:
    whole[:, : part.shape[1]] += part
