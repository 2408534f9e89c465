r"""Causal attention for training on a CPU: blocks of queries, matrix products by BLAS.

Each block of queries is compared with the keys up to its own end, so that with n blocks only
(1 + 1/n) / 2 of the T² scores are computed. The weights are saved for the backward pass, where
SDPA recomputes them. That is faster while they are small (`MAX_BLOCKWISE_LENGTH`), and gives the
same numbers. With AVX-512, SDPA is faster for short sequences (`MIN_BLOCKWISE_LENGTH`);
`benchmarks/kernels.py` measures both.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

QUERY_BLOCK = 64  # queries in a block
MAX_BLOCKWISE_LENGTH = 512  # positions; beyond, the saved weights are large
# positions up to which SDPA is faster
MIN_BLOCKWISE_LENGTH = 256 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 0


def causal_attention_reference(
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B H T Q"],
    values: Float[Tensor, "B H T K"],
) -> Float[Tensor, "B H T K"]:
    r"""softmax(Q Kᵀ / √Q) V, where no query attends to a later key."""
    T = query.shape[-2]
    future = query.new_full((T, T), -torch.inf).triu(1)
    scores = query @ keys.transpose(-2, -1) / math.sqrt(query.shape[-1]) + future
    return scores.softmax(dim=-1) @ values


def is_blockwise_faster(query: Tensor, keys: Tensor) -> bool:
    """Return True where `blockwise_causal_attention` is faster than SDPA."""
    is_training = torch.is_grad_enabled() and query.requires_grad
    return (
        is_training
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
    """Compute `causal_attention_reference` a block of queries at a time."""
    result: Tensor = _BlockwiseCausalAttention.apply(query, keys, values)
    return result


class _BlockwiseCausalAttention(torch.autograd.Function):
    r"""Forward and backward of one block Q, with keys K and values V up to its end, gradient G:

    P = softmax(Q Kᵀ),  O = P V,  ∂V = Pᵀ G,  ∂S = P ∘ (∂P - Σ_row P ∘ ∂P) with ∂P = G Vᵀ,
    ∂Q = ∂S K,  ∂K = ∂Sᵀ Q.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Compute each block and save its weights for the backward pass."""
        B, H, T, Q = query.shape
        q, k, v = (part.reshape(B * H, T, -1) for part in (query * Q**-0.5, keys, values))
        longest = max(end - start for start, end in _blocks(T))
        future = q.new_full((longest, longest), -torch.inf).triu_(1)
        tables, outputs = [], []
        for start, end in _blocks(T):
            scores = torch.bmm(q[:, start:end], k[:, :end].transpose(1, 2))
            scores[:, :, start:].add_(future[: end - start, : end - start])
            tables.append(scores.softmax(dim=-1))
            outputs.append(torch.bmm(tables[-1], v[:, :end]))
        ctx.save_for_backward(q, k, v, *tables)
        return _joined(outputs).view(B, H, T, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        """Go from the last block, which attends to all keys, to the first."""
        q, k, v, *tables = ctx.saved_tensors
        B, H, T, _ = gradient.shape
        g = gradient.reshape(B * H, T, -1)
        to_q: list[Tensor] = []
        to_k, to_v = torch.zeros_like(k), torch.zeros_like(v)
        for (start, end), table in zip(reversed(_blocks(T)), reversed(tables), strict=True):
            block = g[:, start:end]
            to_table = torch.bmm(block, v[:, :end].transpose(1, 2))
            to_scores = torch._softmax_backward_data(to_table, table, -1, table.dtype)
            to_q.append(torch.bmm(to_scores, k[:, :end]))
            _add(to_v, torch.bmm(table.transpose(1, 2), block))
            _add(to_k, torch.bmm(to_scores.transpose(1, 2), q[:, start:end]))
        scaled = _joined(to_q[::-1]).mul_(q.shape[-1] ** -0.5)
        return tuple(part.view(B, H, T, -1) for part in (scaled, to_k, to_v))


def _blocks(length: int) -> list[tuple[int, int]]:
    """Return the ends of the blocks; a short last block is merged into the one before it."""
    starts = range(0, max(1, length - QUERY_BLOCK // 2), QUERY_BLOCK)
    return [(start, min(start + QUERY_BLOCK, length)) for start in starts[:-1]] + [
        (starts[-1], length)
    ]


def _joined(blocks: list[Tensor]) -> Tensor:
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)


def _add(whole: Tensor, part: Tensor) -> None:
    whole[:, : part.shape[1]] += part
