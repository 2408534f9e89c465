r"""The encoder-decoder Transformer (Vaswani et al. 2017).

Pre-norm by default (Xiong et al. 2020), with a final norm after each stack. The output projection
is tied to the target embedding (Press and Wolf 2017); with `shared_vocab` the source embedding is
the same table.

Options: positions added to the embeddings (sinusoidal, learned), applied in every self-attention
(rotary, relative) or none; grouped-query attention (`kv_heads`); windowed self-attention; any score
function; any activation in the feed-forward (relu in the paper); batch or RMS norm in place of
layer norm. Batch norm is here to see why not: its statistics in training are those of all real
positions of a batch, so that a position depends on other sentences and on later positions of its
own, and in inference on running averages instead, which are causal but not what the weights were
trained with.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from saccade.data.special_tokens import PAD
from saccade.models.base import EncoderDecoder
from saccade.models.config import TransformerConfig
from saccade.nn.attention_scores import make_score
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.feedforward import FeedForward
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.norm import NORMS
from saccade.nn.positional_encoding import (
    AttentionPositions,
    LearnedPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)
from saccade.nn.pruning import prune_heads
from saccade.nn.transformer import (
    DecoderBlock,
    EncoderBlock,
    MultiHeadAttention,
    RealPositions,
    apply_norm,
)
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds


class TransformerMemory(NamedTuple):
    """Keys and values of the source, one cache per decoder layer."""

    layers: tuple[KVCache, ...]
    lengths: Lengths | None


def _embedding_positions(
    config: TransformerConfig,
) -> SinusoidalPositions | LearnedPositions | None:
    """Return the positions that are added to the embeddings."""
    if config.positions == "sinusoidal":
        return SinusoidalPositions(config.width)
    return (
        LearnedPositions(config.width, config.max_positions)
        if config.positions == "learned"
        else None
    )


def _attention_positions(config: TransformerConfig) -> AttentionPositions | None:
    """Return the positions of one self-attention."""
    if config.positions == "rotary":
        return RotaryPositions(config.width // config.heads)
    return RelativePositions(config.width, config.heads) if config.positions == "relative" else None


def _encoder_block(config: TransformerConfig) -> EncoderBlock:
    width, heads, kv_heads = config.width, config.heads, config.kv_heads
    score, positions = make_score(config.score, width // heads), _attention_positions(config)
    p = config.attention_dropout
    return EncoderBlock(
        MultiHeadAttention(width, heads, None, score, kv_heads, positions, dropout=p),
        FeedForward(width, config.hidden or 4 * width, config.activation, config.activation_alpha),
        config.dropout,
        config.norm_first,
        config.norm,
    )


def make_decoder_block(config: TransformerConfig) -> DecoderBlock:
    """Return a block of the decoder."""
    width, heads, kv_heads = config.width, config.heads, config.kv_heads
    score, source_score = (make_score(config.score, width // heads) for _ in range(2))
    positions, p = _attention_positions(config), config.attention_dropout
    return DecoderBlock(
        MultiHeadAttention(width, heads, None, score, kv_heads, positions, dropout=p),
        MultiHeadAttention(width, heads, None, source_score, kv_heads, dropout=p),
        FeedForward(width, config.hidden or 4 * width, config.activation, config.activation_alpha),
        config.dropout,
        config.norm_first,
        config.window,
        config.norm,
    )


def _real_positions(ids: TokenIds, lengths: Lengths | None) -> RealPositions | None:
    """Return which positions are not padding; None if none is."""
    if lengths is None:
        return None
    return torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]


class TransformerDecoder(EncoderDecoder):
    """A stack of causal decoder blocks with cross-attention to the memory that `encode` returns.

    A subclass has the embedding `target` of the tokens, the blocks `decoder`, the last norm
    `decoder_norm`, and the name `norm` of its kind.
    """

    target: TokenEmbedding
    decoder: nn.ModuleList
    decoder_norm: nn.Module
    norm: str

    def remember(self, x: Hidden, lengths: Lengths | None) -> TransformerMemory:
        """Project the keys and values of every decoder layer."""
        decoder: Iterable[Any] = self.decoder
        layers = tuple(block.source_attention.project_kv(x) for block in decoder)
        return TransformerMemory(layers, lengths)

    def init_state(self, memory: TransformerMemory) -> DecoderState:
        """Return the state with empty caches."""
        return DecoderState(memory, (None,) * len(self.decoder))

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Decode T tokens in parallel."""
        memory, cache = state
        mask = Mask.lengths(memory.lengths)
        x = self.target(ids, start=0 if cache[0] is None else cache[0].length)
        real = ids != PAD if self.training and self.norm == "batch" else None
        new_cache = []
        for block, before, source in zip(self.decoder, cache, memory.layers, strict=True):
            x, after = block(x, before, source, mask, real)
            new_cache.append(after)
        return apply_norm(self.decoder_norm, x, real), DecoderState(memory, tuple(new_cache))

    @property
    def output_layer(self) -> OutputLayer:
        """The target embeddings (tied)."""
        return OutputLayer(self.target.table.weight)


class Transformer(TransformerDecoder):
    """A stack of encoder blocks, and a stack of causal decoder blocks with cross-attention."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        width = config.width
        self.source = TokenEmbedding(
            config.source_vocab_size, width, _embedding_positions(config), config.dropout
        )
        self.target = TokenEmbedding(
            config.target_vocab_size, width, _embedding_positions(config), config.dropout
        )
        if config.shared_vocab:
            self.source.table = self.target.table
        self.encoder = nn.ModuleList(_encoder_block(config) for _ in range(config.depth))
        self.decoder = nn.ModuleList(make_decoder_block(config) for _ in range(config.depth))
        self.window, self.norm_first = config.window, config.norm_first
        # post-norm blocks end with a norm
        last = config.norm if config.norm_first else "none"
        self.encoder_norm, self.decoder_norm = (NORMS[last](width) for _ in range(2))
        self.norm = config.norm
        prune_heads(self, config.pruned_heads)

    def encode(self, source: TokenIds, lengths: Lengths | None) -> TransformerMemory:
        """Encode the source and project the keys and values of every decoder layer."""
        x = self.source(source)
        mask = Mask.lengths(lengths)
        if self.window is not None:
            mask = mask & Mask.window(self.window)
        real = _real_positions(source, lengths)
        for block in self.encoder:
            x = block(x, mask, real)
        return self.remember(apply_norm(self.encoder_norm, x, real), lengths)
