r"""Layers of the Transformer (Vaswani et al. 2017): multi-head attention, and blocks of it.

The layers hold weights; attention itself is computed by `saccade.nn.functional.attend`. A block has
the norm before or after each sublayer:

pre-norm:   x + dropout(sublayer(norm(x)))       Xiong et al. 2020; trains without a warm-up
post-norm:  norm(x + dropout(sublayer(x)))       the paper's; needs a warm-up

A block is given its sublayers, so that every option of an attention stays with the attention:

    EncoderBlock(MultiHeadAttention(64, heads=4), FeedForward(64, 256), dropout=0.1)
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.nn.attention_scores import ScaledDotScore, Score
from saccade.nn.dropout import Dropout
from saccade.nn.feedforward import FeedForward
from saccade.nn.functional import Attention, attend_shared_memory
from saccade.nn.kv_cache import KVCache, extend_cache
from saccade.nn.masks import Mask, MaskLike, as_mask
from saccade.nn.norm import NORMS, BatchNorm
from saccade.nn.positional_encoding import AttentionPositions
from saccade.registry import lookup
from saccade.types.shapes import Hidden

# arguments of torch's module and what to use here
TORCH_ARGUMENTS = {
    "attn_mask": "mask=, where True means may attend",
    "average_attn_weights": "saccade.inspection.attention.capture_attention(module)",
    "is_causal": "mask=Mask.causal()",
    "key": "attention(x, memory): keys and values are both projected from `memory`",
    "key_padding_mask": "mask=Mask.lengths(lengths)",
    "need_weights": "with saccade.inspection.attention.capture_attention(module) as recorder: …",
    "query": "attention(x, memory)",
    "value": "attention(x, memory): keys and values are both projected from `memory`",
}


# --- attention ------------------------------------------------------------------------------------


class MultiHeadAttention(nn.Module):
    r"""Concat(head_1 … head_H) W_o with head_h = attention(x W_q^h, m W_k^h, m W_v^h).

    Vaswani et al. 2017, section 3.2.2.

        attention(x)                       self-attention
        attention(x, mask=Mask.causal())   causal self-attention
        attention(x, memory)               cross-attention to a tensor (B, S, kv_width)
        attention(x, kv)                   the same to keys and values projected once before,
                                           kv = attention.project_kv(memory)
        attention(x, cache=cache)          self-attention of further positions after those of a
                                           cache; attention.extend(x, cache) is the next cache

    With `kv_heads` below `heads`, that many key and value heads each serve heads / kv_heads queries
    (Ainslie et al. 2023), and only they are cached: 1 is multi-query attention (Shazeer 2019).

    Unlike `nn.MultiheadAttention`, keys and values come from one `memory`, True in a mask means
    may attend, and a query that may attend to nothing gets zeros, not NaN. `capture_attention` of
    `saccade.inspection.attention` returns the weights.

    Args:
        width: of x and of the result.
        heads: of queries; must divide `width`.
        kv_width: of the memory, if it is not `width`.
        score: any score of `saccade.nn.attention_scores`; one with weights shares them among the
            heads. The default is the scaled dot product.
        kv_heads: heads of keys and values; must divide `heads`.
        positions: rotary or relative positions, for self-attention.
        dropout: of the attention weights, in training, which then has no fused kernel.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_width: int | None = None,
        score: Score | None = None,
        kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        if width % heads:
            below = width - width % heads
            near = f"{below} or {below + heads}" if below else f"{heads}"
            raise ValueError(
                f"got width {width} for {heads} heads; expected a multiple of heads; try {near}."
            )
        self.heads, self.kv_heads = heads, heads if kv_heads is None else kv_heads
        if self.kv_heads < 1 or heads % self.kv_heads:
            divisors = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
            raise ValueError(
                f"got {kv_heads} kv_heads for {heads} heads; expected a divisor; try {divisors}."
            )
        kv_size = width // heads * self.kv_heads  # of the keys, and of the values
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(kv_width or width, 2 * kv_size)
        self.out = nn.Linear(width, width)
        self.attention = Attention(score or ScaledDotScore(), positions, dropout)
        for linear in (self.query, self.key_value, self.out):
            nn.init.zeros_(linear.bias)
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key_value.weight[:kv_size])
        nn.init.xavier_uniform_(self.key_value.weight[kv_size:])
        nn.init.xavier_uniform_(self.out.weight)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | KVCache | None = None,
        mask: MaskLike = None,
        cache: KVCache | None = None,
        **unsupported: object,
    ) -> Float[Tensor, "B T D"]:
        """Attend from x (B, T, width) to a memory, or without one to x itself.

        Args:
            x: the positions that attend.
            memory: a tensor (B, S, kv_width), or keys and values of `project_kv`. The latter may
                have fewer rows than x, where hypotheses of a beam share the memory of a sentence.
            mask: None, a `Mask`, a boolean tensor (True = may attend) of (T, S), (B, T, S) or
                (B, H, T, S), or lengths: a list, or an integer tensor of (B,) or (B, T).
            cache: keys and values of the positions before x, for self-attention.
            unsupported: raises a `TypeError` that names the equivalent of an argument of torch's.
        """
        _refuse_arguments(unsupported)
        self._check_inputs(x, memory, cache)
        if memory is None:
            memory = self.extend(x, cache)
        elif isinstance(memory, Tensor):
            memory = self.project_kv(memory)
        T, mask = x.shape[1], as_mask(mask)
        mask.check_shape(memory.keys.shape[0], T, memory.length)
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, K)
        query = self.attention.positions.rotate(query, memory.end - T)
        heads = attend_shared_memory(self.attention, query, self._kv_of_heads(memory), mask)
        return self.out(heads.transpose(1, 2).flatten(2))

    def project_kv(self, memory: Float[Tensor, "B S M"], start: int = 0) -> KVCache:
        """Return the keys and values of the positions from `start` on, split into heads."""
        B, S, _ = memory.shape
        both = self.key_value(memory).view(B, S, 2, self.kv_heads, -1).permute(2, 0, 3, 1, 4)
        keys, values = both.unbind(0)  # (B, G, S, K) each
        keys = self.attention.positions.rotate(keys, start)
        return KVCache(self.attention.score.prepare(keys), values, S)

    def extend(self, x: Float[Tensor, "B T D"], cache: KVCache | None = None) -> KVCache:
        """Return the cache with the keys and values of x after those that it has."""
        return extend_cache(cache, self.project_kv(x, 0 if cache is None else cache.end))

    def _kv_of_heads(self, memory: KVCache) -> KVCache:
        """Return keys and values whose heads each serve equally many heads of queries."""
        return memory

    def _check_inputs(
        self, x: Tensor, memory: Tensor | KVCache | None, cache: KVCache | None
    ) -> None:
        width, kv_width = self.query.in_features, self.key_value.in_features
        _check_sequence("x", x, width)
        if memory is not None and cache is not None:
            raise ValueError(
                "got a memory and a cache; expected one of the two; try attention(x, cache=cache) "
                "for self-attention or attention(x, memory) for cross-attention."
            )
        if memory is None and width != kv_width:
            raise ValueError(
                f"got no memory, and keys are projected from width {kv_width}, not {width}; "
                f"expected a memory of (B, S, {kv_width}); try attention(x, memory)."
            )
        if memory is None:
            return
        if isinstance(memory, Tensor):
            _check_sequence("memory", memory, kv_width)
        rows = memory.shape[0] if isinstance(memory, Tensor) else memory.keys.shape[0]
        shares = isinstance(memory, KVCache) and rows > 0 and x.shape[0] % rows == 0
        if rows != x.shape[0] and not shares:
            raise ValueError(
                f"got {x.shape[0]} rows of x and {rows} of the memory; expected as many; try "
                "project_kv(memory) where several rows of x share one row of the memory."
            )


def _check_sequence(name: str, x: Tensor, width: int) -> None:
    if x.dim() != 3:
        hint = f"; try {name}[None] for one sequence without a batch" if x.dim() == 2 else ""
        raise ValueError(
            f"got {name} of shape {tuple(x.shape)}; expected (batch, length, {width}){hint}."
        )
    if x.shape[-1] != width:
        raise ValueError(
            f"got {name} of width {x.shape[-1]}; expected {width}; try nn.Linear({x.shape[-1]}, "
            f"{width}) before the attention, or a constructor with that width."
        )


def _refuse_arguments(names: dict[str, object]) -> None:
    for name in names:
        known = TORCH_ARGUMENTS.get(name)
        hint = f"; try {known}" if known else ""
        raise TypeError(f"got the argument {name!r}; expected x, memory, mask or cache{hint}.")


class AttentionLayer(nn.Module):
    r"""softmax(X W_q (M W_k)ᵀ / √D) N W_v: attention with one head and no output matrix.

    Vaswani et al. 2017, eq. 1. The values come from the memory, N = M, or from a second input with
    as many positions: self-attention where M = N = X, else cross-attention. X (B, T, query_width),
    M (B, S, kv_width) and N (B, S, value_width) may differ in width, X and M in length.
    `MultiHeadAttention` is several of these in parallel, with biases and an output matrix. Any
    score can replace the scaled dot product.

    Without a mask that depends on positions, the layer is permutation equivariant: with the rows
    of X in another order, it returns the same rows in that order, and the order of the rows of M
    (with those of N) has no effect.
    """

    def __init__(
        self,
        query_width: int,
        kv_width: int,
        width: int,
        score: Score | None = None,
        value_width: int | None = None,
    ):
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(kv_width, width, bias=False)
        self.value = nn.Linear(kv_width if value_width is None else value_width, width, bias=False)
        self.attention = Attention(score or ScaledDotScore())
        for linear in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: MaskLike = None,
        values: Tensor | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Attend from x (B, T, query_width) to the memory, or without one to x itself.

        Args:
            x: the input of the queries.
            memory: the input of the keys, (B, S, kv_width).
            mask: as that of `MultiHeadAttention`.
            values: the input of the values, (B, S, value_width); the memory if it is None.
        """
        memory = x if memory is None else memory
        values = memory if values is None else values
        for name, given, linear in (
            ("x", x, self.query),
            ("memory", memory, self.key),
            ("values", values, self.value),
        ):
            _check_sequence(name, given, linear.in_features)
        if values.shape[:2] != memory.shape[:2]:
            raise ValueError(
                f"got values of {tuple(values.shape[:2])} rows and positions and a memory of "
                f"{tuple(memory.shape[:2])}; expected a value for each key."
            )
        mask = as_mask(mask)
        mask.check_shape(memory.shape[0], x.shape[1], memory.shape[1])
        query, key, value = self.query(x), self.key(memory), self.value(values)
        keys = self.attention.score.prepare(key[:, None])
        return self.attention(query[:, None], keys, value[:, None], mask)[:, 0]


# --- blocks ---------------------------------------------------------------------------------------


RealPositions = Bool[Tensor, "B T"]  # True: not padding


def apply_norm(norm: nn.Module, x: Hidden, real: RealPositions | None) -> Hidden:
    """Apply a norm; batch norm with the statistics of the real positions alone."""
    return norm(x, real) if isinstance(norm, BatchNorm) else norm(x)


class Residual(nn.Module):
    """A residual connection around a sublayer, with its norm and dropout.

    `real` marks the positions that are not padding; only batch norm needs it.
    """

    def __init__(self, width: int, dropout: float, norm_first: bool, norm: str = "layer"):
        super().__init__()
        self.norm = lookup(NORMS, norm, "norm")(width)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def sublayer_input(self, x: Hidden, real: RealPositions | None = None) -> Hidden:
        """Return norm(x) for pre-norm, x for post-norm."""
        return apply_norm(self.norm, x, real) if self.norm_first else x

    def forward(
        self, x: Hidden, sublayer: Callable[[Tensor], Tensor], real: RealPositions | None = None
    ) -> Hidden:
        """Apply the sublayer and add its output to x."""
        return self.add(x, sublayer(self.sublayer_input(x, real)), real)

    def add(self, x: Hidden, y: Hidden, real: RealPositions | None = None) -> Hidden:
        """Add the output y of the sublayer to x."""
        x = x + self.dropout(y)
        return x if self.norm_first else apply_norm(self.norm, x, real)


class EncoderBlock(nn.Module):
    """Self-attention followed by a position-wise feed-forward network."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float = 0.0,
        norm_first: bool = True,
        norm: str = "layer",
    ):
        super().__init__()
        width = self_attention.query.in_features
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(width, dropout, norm_first, norm)
        self.around_feed_forward = Residual(width, dropout, norm_first, norm)

    def forward(
        self, x: Hidden, mask: MaskLike = None, real: RealPositions | None = None
    ) -> Hidden:
        """Apply the block to all positions; `real` marks those that are not padding."""
        x = self.around_attention(x, lambda y: self.self_attention(y, mask=mask), real)
        return self.around_feed_forward(x, self.feed_forward, real)


class BlockOutput(NamedTuple):
    """The output of a block and its key/value cache for the next step."""

    x: Hidden
    cache: KVCache


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to the source, feed-forward network.

    With a `window`, self-attention reaches only that many positions back.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        source_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float = 0.0,
        norm_first: bool = True,
        window: int | None = None,
        norm: str = "layer",
    ):
        super().__init__()
        width = self_attention.query.in_features
        self.self_attention = self_attention
        self.source_attention = source_attention
        self.window = window
        self.feed_forward = feed_forward
        self.around_attention = Residual(width, dropout, norm_first, norm)
        self.around_source = Residual(width, dropout, norm_first, norm)
        self.around_feed_forward = Residual(width, dropout, norm_first, norm)

    def forward(
        self,
        x: Hidden,
        cache: KVCache | None,
        source: KVCache | Tensor,
        source_mask: MaskLike = None,
        real: RealPositions | None = None,
    ) -> BlockOutput:
        """Apply the block to T further positions after those in `cache`."""
        x, cache = causal_self_attention(self, x, cache, real)
        x = self.around_source(x, lambda y: self.source_attention(y, source, source_mask), real)
        return BlockOutput(self.around_feed_forward(x, self.feed_forward, real), cache)


class CausalBlock(nn.Module):
    """Causal self-attention and feed-forward network: the block of a language model.

    With a `window`, self-attention reaches only that many positions back.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float = 0.0,
        norm_first: bool = True,
        window: int | None = None,
    ):
        super().__init__()
        width = self_attention.query.in_features
        self.self_attention = self_attention
        self.window = window
        self.feed_forward = feed_forward
        self.around_attention = Residual(width, dropout, norm_first)
        self.around_feed_forward = Residual(width, dropout, norm_first)

    def forward(self, x: Hidden, cache: KVCache | None = None) -> BlockOutput:
        """Apply the block to T further positions after those in `cache`."""
        x, cache = causal_self_attention(self, x, cache)
        return BlockOutput(self.around_feed_forward(x, self.feed_forward), cache)

    def project_memory(self, x: Hidden) -> KVCache:
        """Return the keys and values of the inputs of an earlier segment (Transformer-XL)."""
        return self.self_attention.project_kv(self.around_attention.sublayer_input(x))


def residual_projections(block: EncoderBlock | DecoderBlock | CausalBlock) -> list[nn.Linear]:
    """Return the last layer of each residual branch of a block, attention first."""
    projections = [block.self_attention.out]
    if isinstance(block, DecoderBlock):
        projections.append(block.source_attention.out)
    return [*projections, block.feed_forward.outer]


def causal_self_attention(
    block: DecoderBlock | CausalBlock,
    x: Hidden,
    cache: KVCache | None,
    real: RealPositions | None = None,
) -> BlockOutput:
    """Apply the self-attention of a block to T further positions after those in `cache`."""
    mask = Mask.causal() if block.window is None else Mask.causal_window(block.window)
    y = block.around_attention.sublayer_input(x, real)
    cache = block.self_attention.extend(y, cache)
    attended = block.self_attention(y, cache, mask)
    return BlockOutput(block.around_attention.add(x, attended, real), cache)
