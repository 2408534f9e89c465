r"""The blocks of a Transformer (Vaswani et al. 2017), norm before or after each sublayer.

pre-norm:   x + dropout(sublayer(norm(x)))       Xiong et al. 2020; trains without care
post-norm:  norm(x + dropout(sublayer(x)))       the paper's; needs a warm-up
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from saccade.nn.attention import MultiHeadAttention
from saccade.nn.attention_scores import Score
from saccade.nn.dropout import Dropout
from saccade.nn.feedforward import FeedForward
from saccade.nn.kv_cache import KVCache, extend_cache
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import AttentionPositions
from saccade.types.shapes import Hidden


class Residual(nn.Module):
    """The way around a sublayer, with its norm and its dropout."""

    def __init__(self, width: int, dropout: float, norm_first: bool):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def sublayer_input(self, x: Hidden) -> Hidden:
        """What the sublayer reads."""
        return self.norm(x) if self.norm_first else x

    def forward(self, x: Hidden, sublayer: Callable[[Tensor], Tensor]) -> Hidden:
        """Around and through."""
        y = x + self.dropout(sublayer(self.sublayer_input(x)))
        return y if self.norm_first else self.norm(y)


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.0,
        norm_first: bool = True,
        score: Score | None = None,
        kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
        activation: str = "relu",
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(
            width, heads, score=score, kv_heads=kv_heads, positions=positions
        )
        self.feed_forward = FeedForward(width, hidden, activation)
        self.around_attention = Residual(width, dropout, norm_first)
        self.around_feed_forward = Residual(width, dropout, norm_first)

    def forward(self, x: Hidden, mask: Mask) -> Hidden:
        """Every place looks at the places it may see, then thinks by itself."""

        def self_attend(y: Tensor) -> Tensor:
            return self.self_attention(y, self.self_attention.project_kv(y), mask)

        x = self.around_attention(x, self_attend)
        return self.around_feed_forward(x, self.feed_forward)


class BlockOutput(NamedTuple):
    """A block's output and what it has to remember for the next step."""

    x: Hidden
    cache: KVCache


class DecoderBlock(nn.Module):
    """Self-attention to what has been written, attention to the source, feed-forward.

    With a `window`, only that many of the places before are seen of what has been written. The
    `positions` are those of the self-attention: the source's places are in what the encoder said.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.0,
        norm_first: bool = True,
        score: Score | None = None,
        cross_score: Score | None = None,
        kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
        window: int | None = None,
        activation: str = "relu",
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(
            width, heads, score=score, kv_heads=kv_heads, positions=positions
        )
        self.source_attention = MultiHeadAttention(
            width, heads, score=cross_score, kv_heads=kv_heads
        )
        self.window = window
        self.feed_forward = FeedForward(width, hidden, activation)
        self.around_attention = Residual(width, dropout, norm_first)
        self.around_source = Residual(width, dropout, norm_first)
        self.around_feed_forward = Residual(width, dropout, norm_first)

    def forward(
        self, x: Hidden, cache: KVCache | None, source: KVCache, source_mask: Mask
    ) -> BlockOutput:
        """T more steps after those in `past`."""

        def cross_attend(y: Tensor) -> Tensor:
            return self.source_attention(y, source, source_mask)

        x, now = causal_self_attention(self, x, cache)
        x = self.around_source(x, cross_attend)
        return BlockOutput(self.around_feed_forward(x, self.feed_forward), now)


class CausalBlock(nn.Module):
    """Self-attention to what has been read, feed-forward: a block of a model of text.

    With a `window`, only that many of the places before are seen.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.0,
        norm_first: bool = True,
        activation: str = "gelu",
        positions: AttentionPositions | None = None,
        window: int | None = None,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(width, heads, positions=positions)
        self.window = window
        self.feed_forward = FeedForward(width, hidden, activation)
        self.around_attention = Residual(width, dropout, norm_first)
        self.around_feed_forward = Residual(width, dropout, norm_first)

    def forward(self, x: Hidden, cache: KVCache | None) -> BlockOutput:
        """T more steps after those in `past`."""
        x, now = causal_self_attention(self, x, cache)
        return BlockOutput(self.around_feed_forward(x, self.feed_forward), now)

    def project_memory(self, x: Hidden) -> KVCache:
        """The keys and values of what this block has been handed before."""
        return self.self_attention.project_kv(self.around_attention.sublayer_input(x))


def residual_projections(block: EncoderBlock | DecoderBlock | CausalBlock) -> list[nn.Linear]:
    """The layer that each residual branch of a block ends with, what it looks with first."""
    projections = [block.self_attention.out]
    if isinstance(block, DecoderBlock):
        projections.append(block.source_attention.out)
    return [*projections, block.feed_forward.outer]


def causal_self_attention(
    block: DecoderBlock | CausalBlock, x: Hidden, cache: KVCache | None
) -> BlockOutput:
    """The block's self-attention: T more places look at themselves and at those in `past`."""
    now = cache
    mask = Mask.causal() if block.window is None else Mask.causal_window(block.window)

    def attend(y: Tensor) -> Tensor:
        nonlocal now
        now = extend_cache(
            cache, block.self_attention.project_kv(y, 0 if cache is None else cache.end)
        )
        return block.self_attention(y, now, mask)

    x = block.around_attention(x, attend)
    assert now is not None
    return BlockOutput(x, now)
