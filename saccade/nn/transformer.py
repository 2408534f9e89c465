r"""Transformer blocks (Vaswani et al. 2017), with the norm before or after each sublayer.

pre-norm:   x + dropout(sublayer(norm(x)))       Xiong et al. 2020; trains without a warm-up
post-norm:  norm(x + dropout(sublayer(x)))       the paper's; needs a warm-up

A block is given its sublayers, so that every option of an attention stays with the attention:

    EncoderBlock(MultiHeadAttention(64, heads=4), FeedForward(64, 256), dropout=0.1)
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from saccade.nn.attention import MultiHeadAttention
from saccade.nn.dropout import Dropout
from saccade.nn.feedforward import FeedForward
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask, MaskLike
from saccade.types.shapes import Hidden


class Residual(nn.Module):
    """A residual connection around a sublayer, with its norm and dropout."""

    def __init__(self, width: int, dropout: float, norm_first: bool):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def sublayer_input(self, x: Hidden) -> Hidden:
        """Return norm(x) for pre-norm, x for post-norm."""
        return self.norm(x) if self.norm_first else x

    def forward(self, x: Hidden, sublayer: Callable[[Tensor], Tensor]) -> Hidden:
        """Apply the sublayer and add its output to x."""
        return self.add(x, sublayer(self.sublayer_input(x)))

    def add(self, x: Hidden, y: Hidden) -> Hidden:
        """Add the output y of the sublayer to x."""
        x = x + self.dropout(y)
        return x if self.norm_first else self.norm(x)


class EncoderBlock(nn.Module):
    """Self-attention followed by a position-wise feed-forward network."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        dropout: float = 0.0,
        norm_first: bool = True,
    ):
        super().__init__()
        width = self_attention.query.in_features
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_attention = Residual(width, dropout, norm_first)
        self.around_feed_forward = Residual(width, dropout, norm_first)

    def forward(self, x: Hidden, mask: MaskLike = None) -> Hidden:
        """Apply the block to all positions."""
        x = self.around_attention(x, lambda y: self.self_attention(y, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)


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
    ):
        super().__init__()
        width = self_attention.query.in_features
        self.self_attention = self_attention
        self.source_attention = source_attention
        self.window = window
        self.feed_forward = feed_forward
        self.around_attention = Residual(width, dropout, norm_first)
        self.around_source = Residual(width, dropout, norm_first)
        self.around_feed_forward = Residual(width, dropout, norm_first)

    def forward(
        self,
        x: Hidden,
        cache: KVCache | None,
        source: KVCache | Tensor,
        source_mask: MaskLike = None,
    ) -> BlockOutput:
        """Apply the block to T further positions after those in `cache`."""
        x, cache = causal_self_attention(self, x, cache)
        x = self.around_source(x, lambda y: self.source_attention(y, source, source_mask))
        return BlockOutput(self.around_feed_forward(x, self.feed_forward), cache)


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
    block: DecoderBlock | CausalBlock, x: Hidden, cache: KVCache | None
) -> BlockOutput:
    """Apply the self-attention of a block to T further positions after those in `cache`."""
    mask = Mask.causal() if block.window is None else Mask.causal_window(block.window)
    y = block.around_attention.sublayer_input(x)
    cache = block.self_attention.extend(y, cache)
    return BlockOutput(block.around_attention.add(x, block.self_attention(y, cache, mask)), cache)
