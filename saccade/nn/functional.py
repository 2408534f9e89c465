r"""Attention: the equation, the table of cases with a faster path, and the module `Attention`.

    attend(q, k, v) = softmax(score(q, k) + bias, over the keys that the mask allows) v

Every attention of the library is computed by `attend`; `Attention` binds it to a score and
positions, and the layers around that only hold weights. `attend` tries the cases in this order and
ends with the equation itself:

    case                                                     path
    -------------------------------------------------------  ----------------------------------
    the mask has a window                                    kernels.sliding_window, which calls
                                                             the two last rows on blocks or slices
    causal only, T = S, `ScaledDotScore`, no bias:
        training on a CPU, short sequence, H = G             kernels.causal_attention
        else                                                 SDPA, is_causal
    `ScaledDotScore`, no bias or one without a gradient      SDPA with a table as attn_mask
    any other score, a bias that needs a gradient            `attention_weights` @ values

In training with dropout of the weights, `Attention` computes the equation: none of the fast paths
has the table of weights to drop from.

SDPA is `F.scaled_dot_product_attention`, which never builds the (T, S) table of weights. Facts of
its CPU kernel: no bias that needs a gradient, and `is_causal` with a cache attends to the wrong
keys. `attend_shared_memory` adds one case in front of these: several hypotheses of a beam that
share the encoder memory of their sentence.
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.attention_scores import ScaledDotScore, Score
from saccade.nn.dropout import Dropout
from saccade.nn.kernels.causal_attention import blockwise_causal_attention, is_blockwise_faster
from saccade.nn.kernels.sliding_window import sliding_window_attention
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import AttentionPositions
from saccade.types.shapes import MaySee

# --- the equation ---------------------------------------------------------------------------------


def attention_weights(
    scores: Float[Tensor, "B H T S"], may_see: MaySee | None = None
) -> Float[Tensor, "B H T S"]:
    r"""α_j = exp(s_j) / Σ_i exp(s_i) over the keys that a query may attend to.

    A query that may attend to no key gets zeros, forward and backward.
    """
    if may_see is None:
        return scores.softmax(dim=-1)
    # -inf would make a row without keys NaN, and its gradient too
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~may_see, lowest).softmax(dim=-1) * may_see


def allowed_keys(
    query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S P"], mask: Mask
) -> MaySee | None:
    """Return the table of a mask for these queries and keys, or None if it hides no key."""
    B, _, T, _ = query.shape
    mask.check_shape(B, T, keys.shape[-2])
    return mask.may_see(T, keys.shape[-2], query.device)


def attention_scores(
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    score: Score,
    positions: AttentionPositions,
) -> Float[Tensor, "B H T S"]:
    """Return score(q, k) plus the bias of the positions, for prepared keys."""
    first_query = keys.shape[-2] - query.shape[-2]
    return _scores(
        query, keys, score, positions, positions.bias(query, keys.shape[-2], first_query)
    )


def attend_reference(
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    mask: Mask,
    score: Score,
    positions: AttentionPositions,
) -> Float[Tensor, "B H T K"]:
    """Compute `attend` by the equation, with the whole table of weights."""
    may_see = allowed_keys(query, keys, mask)
    weights = attention_weights(attention_scores(query, keys, score, positions), may_see)
    return weights @ repeat_kv(values, query)


# --- the fast cases -------------------------------------------------------------------------------


def attend(
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    mask: Mask,
    score: Score,
    positions: AttentionPositions,
) -> Float[Tensor, "B H T K"]:
    r"""Return Σ_j α_j v_j by the fastest path that computes it (the table is in the module's text).

    Args:
        query: the queries, the last T of the S positions.
        keys: as `score.prepare` returned them. There may be fewer heads of keys and values than of
            queries, G for H, each of which serves H / G queries (Ainslie et al. 2023).
        values: one for each key.
        mask: which query may attend to which key.
        score: compares queries and keys.
        positions: may add a bias to the scores.
    """
    dense = partial(attend_dense, score=score, positions=positions)
    T, S = query.shape[-2], keys.shape[-2]
    mask.check_shape(query.shape[0], T, S)
    if mask.window_size is not None:
        return sliding_window_attention(dense, query, keys, values, mask, mask.window_size)
    is_plain = isinstance(score, ScaledDotScore) and not positions.depends_on_position
    if mask.is_causal_only and T == S and is_plain:
        if is_blockwise_faster(query, keys):
            return blockwise_causal_attention(query, keys, values)
        return _sdpa(query, keys, values, is_causal=True)
    return dense(query, keys, values, mask.may_see(T, S, query.device), S - T)


def attend_dense(
    query: Float[Tensor, "B H T Q"],
    keys: Float[Tensor, "B G S P"],
    values: Float[Tensor, "B G S K"],
    may_see: MaySee | None,
    first_query: int,
    *,
    score: Score,
    positions: AttentionPositions,
) -> Float[Tensor, "B H T K"]:
    """Attend with a table of who may attend to whom: by SDPA if it can, else by the equation.

    `first_query` is the position of the first query among the keys.
    """
    bias = positions.bias(query, keys.shape[-2], first_query)
    if not isinstance(score, ScaledDotScore) or (bias is not None and bias.requires_grad):
        weights = attention_weights(_scores(query, keys, score, positions, bias), may_see)
        return weights @ repeat_kv(values, query)
    if bias is None:
        return _sdpa(query, keys, values, attn_mask=may_see)
    bias = bias if may_see is None else bias.masked_fill(~may_see, -torch.inf)
    return _sdpa(positions.add_content_bias(query), keys, values, attn_mask=bias)


# --- the module ----------------------------------------------------------------------------------


class Attention(nn.Module):
    r"""Σ_j α_j v_j with α = softmax(score(q, k)): a score and positions, ready to attend.

    The fused kernel computes the result wherever it can (`attend`). `weights` returns α,
    `reference` the same result by the equation.

    With `dropout`, weights are dropped in training, Σ_j m_j α_j v_j / (1 - p), and the equation
    replaces the fused kernel there, which supports none on a CPU.
    """

    def __init__(
        self, score: Score, positions: AttentionPositions | None = None, dropout: float = 0.0
    ):
        super().__init__()
        self.score = score
        self.positions = positions or AttentionPositions()
        self.dropout = Dropout(dropout)

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B G S P"],
        values: Float[Tensor, "B G S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """Attend from the queries to the keys, which `score.prepare` returned."""
        if self.training and self.dropout.p:
            return self.dropout(self.weights(query, keys, mask)) @ repeat_kv(values, query)
        return attend(query, keys, values, mask, self.score, self.positions)

    def reference(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B G S P"],
        values: Float[Tensor, "B G S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """Compute the result by the equation, with the whole table of weights."""
        return self.weights(query, keys, mask) @ repeat_kv(values, query)

    def weights(
        self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S P"], mask: Mask
    ) -> Float[Tensor, "B H T S"]:
        """Return the table of attention weights."""
        scores = attention_scores(query, keys, self.score, self.positions)
        return attention_weights(scores, allowed_keys(query, keys, mask))


def attend_shared_memory(
    attention: Attention, query: Float[Tensor, "R H T Q"], memory: KVCache, mask: Mask
) -> Float[Tensor, "R H T K"]:
    """Attend from N hypotheses of each sentence to a memory with one row for each sentence.

    The memory is not copied N times: the hypotheses become N·T queries of their sentence or, where
    the position of a query matters, N times as many heads.

    Args:
        attention: computes the attention.
        query: R = B·N rows, the N hypotheses of a sentence next to each other.
        memory: keys and values with B rows.
        mask: for the B rows of the memory.
    """
    keys, values = memory.filled()
    R, H, T, Q = query.shape
    B = keys.shape[0]
    if R == B:
        return attention(query, keys, values, mask)
    N = R // B
    grouped = query.view(B, N, H, T, Q).transpose(1, 2)  # (B, H, N, T, Q)
    if mask.per_head:
        raise ValueError(
            f"got a mask with a table for each head and {N} hypotheses of each row of the memory; "
            "expected a table of (B, 1, T, S); try one row of memory for each query row."
        )
    if mask.depends_on_position or attention.positions.depends_on_position:
        attended = attention(grouped.reshape(B, H * N, T, Q), keys, values, mask)
    else:
        attended = attention(grouped.reshape(B, H, N * T, Q), keys, values, mask)
    return attended.reshape(B, H, N, T, -1).transpose(1, 2).reshape(R, H, T, -1)


# --- parts ----------------------------------------------------------------------------------------


def repeat_kv(
    memory: Float[Tensor, "B G S K"], query: Float[Tensor, "B H T Q"]
) -> Float[Tensor, "B H S K"]:
    """Repeat keys or values so that each head of the queries has its own."""
    times = query.shape[1] // memory.shape[1]
    return memory if times == 1 else memory.repeat_interleave(times, dim=1)


def _scores(
    query: Tensor, keys: Tensor, score: Score, positions: AttentionPositions, bias: Tensor | None
) -> Tensor:
    scores = score.compare(positions.add_content_bias(query), repeat_kv(keys, query))
    return scores if bias is None else scores + bias


def _sdpa(query: Tensor, keys: Tensor, values: Tensor, **mask: Any) -> Tensor:
    # with enable_gqa the kernel reads one key head for several query heads without copying it
    is_grouped = keys.shape[1] != query.shape[1]
    return F.scaled_dot_product_attention(query, keys, values, enable_gqa=is_grouped, **mask)
