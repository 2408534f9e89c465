r"""Attention: weights from scores, a mean of values by those weights, and many heads of it.

The equation is a pure function, the modules only hold weights. The fused path and the clear path
stand side by side; a law in `look.laws` binds them.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.masks import Mask
from saccade.nn.scores import ScaledDot, Score
from saccade.nn.state import KeyValue
from saccade.types import Hidden, MaySee


def weights(
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

    Keys are given as `score.prepare` gave them. With `ScaledDot` the fused kernel computes the
    result and the table of weights is never built; any other score takes the clear path.
    Unlike most others' version there is no dropout on the weights: the fused kernel of the CPU
    takes none, and the residual branches have theirs.
    """

    def __init__(self, score: Score):
        super().__init__()
        self.score = score

    def forward(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B H S P"],
        values: Float[Tensor, "B H S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """The fused path where there is one."""
        if not isinstance(self.score, ScaledDot):
            return self.clear(query, keys, values, mask)
        steps, places = query.shape[-2], keys.shape[-2]
        if mask.is_causal_only and steps == places:
            return F.scaled_dot_product_attention(query, keys, values, is_causal=True)
        may_see = mask.may_see(steps, places, query.device)
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=may_see)

    def clear(
        self,
        query: Float[Tensor, "B H T Q"],
        keys: Float[Tensor, "B H S P"],
        values: Float[Tensor, "B H S K"],
        mask: Mask,
    ) -> Float[Tensor, "B H T K"]:
        """The same by the equation, table and all."""
        return self.weights(query, keys, mask) @ values

    def weights(
        self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S P"], mask: Mask
    ) -> Float[Tensor, "B H T S"]:
        """The table of weights itself, for those who want to see it."""
        may_see = mask.may_see(query.shape[-2], keys.shape[-2], query.device)
        return weights(self.score.compare(query, keys), may_see)


def share_memory(
    attention: Attention, query: Float[Tensor, "R H T Q"], memory: KeyValue, mask: Mask
) -> Float[Tensor, "R H T K"]:
    """Attend to a memory that has a row for each sentence, from G hypotheses of each.

    The G·T queries of a sentence are asked at once, so that its memory is not copied G times.
    The mask may not depend on the place of the query.
    """
    keys, values = memory.used()
    R, H, T, Q = query.shape
    B = keys.shape[0]
    if R == B:
        return attention(query, keys, values, mask)
    G = R // B
    together = query.view(B, G, H, T, Q).transpose(1, 2).reshape(B, H, G * T, Q)
    seen = attention(together, keys, values, mask)
    return seen.view(B, H, G, T, -1).transpose(1, 2).reshape(R, H, T, -1)


class MultiHeadAttention(nn.Module):
    r"""Concat(head_1 … head_H) W_o with head_h = attention(x W_q^h, m W_k^h, m W_v^h).

    Vaswani et al. 2017, section 3.2.2. `remember` turns a memory into keys and values once;
    calling the module attends to them. So self-attention, attention with a remembered past and
    attention to an encoder are one thing with three memories. Any score will do in place of the
    scaled dot; an additive one shares its weights among the heads.
    """

    def __init__(
        self, width: int, heads: int, memory_width: int | None = None, score: Score | None = None
    ):
        super().__init__()
        if width % heads:
            below = width - width % heads
            near = f"{below} or {below + heads}" if below else f"{heads}"
            raise ValueError(f"width {width} does not divide into {heads} heads; try {near}.")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(memory_width or width, 2 * width)
        self.out = nn.Linear(width, width)
        self.attention = Attention(score or ScaledDot())
        for linear in (self.query, self.key_value, self.out):
            nn.init.zeros_(linear.bias)
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key_value.weight[:width])
        nn.init.xavier_uniform_(self.key_value.weight[width:])
        nn.init.xavier_uniform_(self.out.weight)

    def remember(self, memory: Float[Tensor, "B S M"]) -> KeyValue:
        """Keys and values of every place, split into heads."""
        B, S, _ = memory.shape
        both = self.key_value(memory).view(B, S, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        keys, values = both.unbind(0)  # (B, H, S, K) each
        return KeyValue(self.attention.score.prepare(keys), values, S)

    def forward(self, x: Hidden, memory: KeyValue, mask: Mask) -> Hidden:
        """Attend from x to what is remembered."""
        B, T, D = x.shape
        query = self.query(x).view(B, T, self.heads, -1).transpose(1, 2)
        seen = share_memory(self.attention, query, memory, mask)
        return self.out(seen.transpose(1, 2).reshape(B, T, D))
