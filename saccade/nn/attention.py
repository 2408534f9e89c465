r"""Attention: weights from scores, a mean of values by those weights, and many heads of it.

The equation is a pure function, the modules only hold weights. The fused path and the clear path
stand side by side; a law in `look.laws` binds them.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.attention_scores import ScaledDotScore, Score
from saccade.nn.kernels.causal_attention import blockwise_causal_attention, is_blockwise_faster
from saccade.nn.kernels.sliding_window import sliding_window_attention
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import AttentionPositions
from saccade.types.shapes import Hidden, MaySee


def attention_weights(
    scores: Float[Tensor, "B H T S"], may_see: MaySee | None = None
) -> Float[Tensor, "B H T S"]:
    r"""softmax over the keys that may be seen; a query that may see nothing gets all zeros.

    α_j = exp(s_j) / Σ_i exp(s_i)
    """
    if may_see is None:
        return scores.softmax(dim=-1)
    # -inf would make a blind row NaN, and its gradient too
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~may_see, lowest).softmax(dim=-1) * may_see


class Attention(nn.Module):
    r"""Σ_j α_j v_j with α = weights(score(q, k)): the mean of the values, by relevance.

    Keys are given as `score.prepare` gave them. They may have fewer heads than the queries, G for
    H, of which each serves H / G in turn (Ainslie et al. 2023). `positions` may add to the scores.

    The fused kernel computes the result, and the table of weights is never built, for every mask:
    a purely causal one without a table of who may see whom, one with a window in blocks where the
    sequence is long (`saccade.nn.kernels.sliding_window`), any other with such a table. It is not used

    - for a short causal sequence that is to learn, which blocks are quicker for
      (`saccade.nn.kernels.causal_attention`);
    - with any score but `ScaledDot`, the only one it knows;
    - with `Relative` positions in training: the kernel of the CPU passes no gradient to a bias.

    Unlike most others' version there is no dropout on the weights: the fused kernel of the CPU
    takes none, and the residual branches have theirs.
    """

    def __init__(self, score: Score, positions: AttentionPositions | None = None):
        super().__init__()
        self.score = score
        self.positions = positions or AttentionPositions()

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B G S P"],
        values: Float[Tensor, "B G S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """The fused path where there is one."""
        query_length, key_length = query.shape[-2], keys.shape[-2]
        window_size = mask.window_size
        if window_size is not None:
            return sliding_window_attention(self._attend, query, keys, values, mask, window_size)
        if mask.is_causal_only and query_length == key_length and self._is_sdpa:
            if is_blockwise_faster(query, keys):
                return blockwise_causal_attention(query, keys, values)
            return _fused(query, keys, values, is_causal=True)
        may_see = mask.may_see(query_length, key_length, query.device)
        return self._attend(query, keys, values, may_see, key_length - query_length)

    def reference(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B G S P"],
        values: Float[Tensor, "B G S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """The same by the equation, table and all."""
        return self.weights(query, keys, mask) @ _repeat_kv(values, query)

    def weights(
        self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S P"], mask: Mask
    ) -> Float[Tensor, "B H T S"]:
        """The table of weights itself, for those who want to see it."""
        query_length, key_length = query.shape[-2], keys.shape[-2]
        bias = self.positions.bias(query, key_length, key_length - query_length)
        may_see = mask.may_see(query_length, key_length, query.device)
        return attention_weights(self._scores(query, keys, bias), may_see)

    @property
    def _is_sdpa(self) -> bool:
        """Whether the fused kernel computes this with nothing added."""
        return isinstance(self.score, ScaledDotScore) and not self.positions.depends_on_position

    def _scores(self, query: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
        scores = self.score.compare(self.positions.add_content_bias(query), _repeat_kv(keys, query))
        return scores if bias is None else scores + bias

    def _attend(
        self, query: Tensor, keys: Tensor, values: Tensor, may_see: MaySee | None, first_query: int
    ) -> Tensor:
        """Fused if it can be, for queries of which the first stands at the place `first`."""
        bias = self.positions.bias(query, keys.shape[-2], first_query)
        if not isinstance(self.score, ScaledDotScore) or (bias is not None and bias.requires_grad):
            table = attention_weights(self._scores(query, keys, bias), may_see)
            return table @ _repeat_kv(values, query)
        if bias is None:
            return _fused(query, keys, values, attn_mask=may_see)
        hidden = bias if may_see is None else bias.masked_fill(~may_see, -torch.inf)
        return _fused(self.positions.add_content_bias(query), keys, values, attn_mask=hidden)


def _fused(query: Tensor, keys: Tensor, values: Tensor, **mask: Any) -> Tensor:
    # the kernel reads a key for each of its queries' heads: none is copied
    fewer = keys.shape[1] != query.shape[1]
    return F.scaled_dot_product_attention(query, keys, values, enable_gqa=fewer, **mask)


def _repeat_kv(
    memory: Float[Tensor, "B G S K"], query: Float[Tensor, "B H T Q"]
) -> Float[Tensor, "B H S K"]:
    """Keys or values for each head of the queries."""
    times = query.shape[1] // memory.shape[1]
    return memory if times == 1 else memory.repeat_interleave(times, dim=1)


def attend_shared_memory(
    attention: Attention, query: Float[Tensor, "R H T Q"], memory: KVCache, mask: Mask
) -> Float[Tensor, "R H T K"]:
    """Attend to a memory that has a row for each sentence, from N hypotheses of each.

    The queries of a sentence are asked at once, so that its memory is not copied N times: as N·T
    steps, or, where it matters at which place a query stands, as N times as many heads.
    """
    keys, values = memory.filled()
    R, H, T, Q = query.shape
    B = keys.shape[0]
    if R == B:
        return attention(query, keys, values, mask)
    N = R // B
    together = query.view(B, N, H, T, Q).transpose(1, 2)  # (B, H, N, T, Q)
    if mask.depends_on_position or attention.positions.depends_on_position:
        seen = attention(together.reshape(B, H * N, T, Q), keys, values, mask)
    else:
        seen = attention(together.reshape(B, H, N * T, Q), keys, values, mask)
    return seen.reshape(B, H, N, T, -1).transpose(1, 2).reshape(R, H, T, -1)


class MultiHeadAttention(nn.Module):
    r"""Concat(head_1 … head_H) W_o with head_h = attention(x W_q^h, m W_k^h, m W_v^h).

    Vaswani et al. 2017, section 3.2.2. `remember` turns a memory into keys and values once;
    calling the module attends to them. So self-attention, attention with a remembered past and
    attention to an encoder are one thing with three memories. Any score will do in place of the
    scaled dot; one with weights shares them among the heads.

    With `groups` below `heads`, that many key and value heads each serve heads / groups queries
    (Ainslie et al. 2023), and only they are remembered: 1 is multi-query attention (Shazeer 2019).
    `positions` are for self-attention, whose queries are the last of the places remembered.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_width: int | None = None,
        score: Score | None = None,
        kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
    ):
        super().__init__()
        if width % heads:
            below = width - width % heads
            near = f"{below} or {below + heads}" if below else f"{heads}"
            raise ValueError(f"width {width} does not divide into {heads} heads; try {near}.")
        self.heads, self.kv_heads = heads, heads if kv_heads is None else kv_heads
        if self.kv_heads < 1 or heads % self.kv_heads:
            divisors = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
            raise ValueError(
                f"{heads} heads do not divide into {kv_heads} groups; the groups may be {divisors}."
            )
        shared = width // heads * self.kv_heads  # of keys, and of values
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(kv_width or width, 2 * shared)
        self.out = nn.Linear(width, width)
        self.attention = Attention(score or ScaledDotScore(), positions)
        for linear in (self.query, self.key_value, self.out):
            nn.init.zeros_(linear.bias)
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key_value.weight[:shared])
        nn.init.xavier_uniform_(self.key_value.weight[shared:])
        nn.init.xavier_uniform_(self.out.weight)

    def project_kv(self, memory: Float[Tensor, "B S M"], start: int = 0) -> KVCache:
        """Keys and values of the places from `start` on, split into heads."""
        B, S, _ = memory.shape
        both = self.key_value(memory).view(B, S, 2, self.kv_heads, -1).permute(2, 0, 3, 1, 4)
        keys, values = both.unbind(0)  # (B, G, S, K) each
        keys = self.attention.positions.rotate(keys, start)
        return KVCache(self.attention.score.prepare(keys), values, S)

    def forward(self, x: Hidden, memory: KVCache, mask: Mask) -> Hidden:
        """Attend from x to what is remembered."""
        B, T, D = x.shape
        query = self.query(x).view(B, T, self.heads, -1).transpose(1, 2)
        query = self.attention.positions.rotate(query, memory.end - T)
        seen = attend_shared_memory(self.attention, query, memory, mask)
        return self.out(seen.transpose(1, 2).reshape(B, T, D))


class AttentionLayer(nn.Module):
    r"""softmax(X W_q (M W_k)ᵀ / √D) M W_v: one attention with its three matrices, over any inputs.

    Vaswani et al. 2017, eq. 1, of which self-attention is the case M = X and cross-attention any
    other: X (B, T, query_width) and M (B, S, memory_width) need neither one width nor one length.
    `MultiHeadAttention` is several of these side by side, with biases and a matrix over the
    heads' results. Any score will do in place of the scaled dot.
    """

    def __init__(self, query_width: int, kv_width: int, width: int, score: Score | None = None):
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(kv_width, width, bias=False)
        self.value = nn.Linear(kv_width, width, bias=False)
        self.attention = Attention(score or ScaledDotScore())
        for linear in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)

    def forward(
        self,
        x: Float[Tensor, "B T Q"],
        memory: Float[Tensor, "B S M"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B T D"]:
        """From x to the memory, or without one to itself."""
        memory = x if memory is None else memory
        query, key, value = self.query(x), self.key(memory), self.value(memory)
        keys = self.attention.score.prepare(key[:, None])
        return self.attention(query[:, None], keys, value[:, None], mask or Mask())[:, 0]
