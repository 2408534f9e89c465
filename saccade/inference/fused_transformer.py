"""Fused decoder of a Transformer; computes the same as `Transformer.encode` and `Transformer.step`.

A step of one token is little arithmetic: its time is call overhead, and reading the weights from
memory with one core. So queries, keys and values are one product, the caches of all layers are one
tensor, masks are made once, no module is called, and matrices are stored in blocks that the cores
share. A test binds the result to the model's.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.inference.fused_layers import (
    INITIAL_CACHE_LENGTH,
    BlockedLinear,
    FusedCrossAttention,
    FusedDecoder,
    FusedFeedForward,
    FusedSelfAttention,
)
from saccade.models.transformer import Transformer
from saccade.nn.positional_encoding import LearnedPositions
from saccade.types.shapes import DecoderState, Lengths, Logits, TokenIds


class FusedCrossCache(NamedTuple):
    """Keys and values of the source for all decoder layers, and the additive padding mask."""

    keys_values: Float[Tensor, "B 2*L H S K"]
    mask: Float[Tensor, "B 1 1 S"] | None


class FusedSelfCache(NamedTuple):
    """Keys and values of `length` generated positions, of all layers; S may be larger."""

    keys_values: Float[Tensor, "R L 2*H S K"]
    length: int


class FusedTransformerDecoder(FusedDecoder):
    """The encoder and one-token decoder steps of a Transformer."""

    def __init__(self, model: Transformer):
        super().__init__(model)
        self.heads = int(model.decoder[0].self_attention.heads)  # type: ignore[union-attr, arg-type]
        self.table, self.width = model.target.table.weight, model.target.table.embedding_dim
        self.output_layer = BlockedLinear(self.table)
        self.positions = model.target.positions
        self.position_codes: Tensor | None = None
        encoder: Iterable[Any] = model.encoder
        decoder: Iterable[Any] = model.decoder
        self.encoder = [(FusedSelfAttention(block), FusedFeedForward(block)) for block in encoder]
        self.decoder = [
            (FusedSelfAttention(block), FusedCrossAttention(block), FusedFeedForward(block))
            for block in decoder
        ]
        projections = [block.source_attention.key_value for block in decoder]
        self.memory_projection = BlockedLinear(
            torch.cat([linear.weight for linear in projections]),
            torch.cat([linear.bias for linear in projections]),
        )

    def encode(self, source: TokenIds, lengths: Lengths | None) -> FusedCrossCache:
        """Encode the source and project the keys and values of every decoder layer."""
        B, S = source.shape
        mask = None
        if lengths is not None:
            is_padding = torch.arange(S, device=source.device) >= lengths[:, None, None, None]
            mask = torch.zeros(is_padding.shape, dtype=self.table.dtype, device=source.device)
            mask.masked_fill_(is_padding, -torch.inf)
        x = self.model.source(source).view(B * S, self.width)
        for self_attention, feed_forward in self.encoder:
            projected = self_attention.inputs(self_attention.residual.before(x)).view(
                B, S, 3, self.heads, -1
            )
            query, keys, values = projected.permute(2, 0, 3, 1, 4)
            context = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            context = context.transpose(1, 2).reshape(B * S, self.width)
            x = feed_forward(self_attention.residual.after(x, self_attention.out(context)))
        keys_values = self.memory_projection(self.model.encoder_norm(x))
        keys_values = keys_values.view(B, S, 2 * len(self.decoder), self.heads, -1).permute(
            0, 2, 3, 1, 4
        )
        return FusedCrossCache(keys_values.contiguous(), mask)

    def init_state(self, memory: FusedCrossCache) -> DecoderState:
        """Return the state with an empty cache."""
        B, L, H, _, K = memory.keys_values.shape
        return DecoderState(
            memory,
            FusedSelfCache(
                memory.keys_values.new_empty(B, L // 2, 2 * H, INITIAL_CACHE_LENGTH, K), 0
            ),
        )

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Read one token per row; returns the logits of the next one."""
        (source, mask), (keys_values, t) = state
        if t == keys_values.shape[3]:
            keys_values = torch.cat([keys_values, torch.empty_like(keys_values)], dim=3)
        R, H = keys_values.shape[0], self.heads
        x = self._embed(ids[:, 0], t)
        # views of all layers are made with one call each
        newest = keys_values.narrow(3, t, 1).unbind(1)
        cache = keys_values.view(R, -1, H, *keys_values.shape[3:]).narrow(3, 0, t + 1).unbind(1)
        memory = source.unbind(1)
        for layer, (self_attention, cross_attention, feed_forward) in enumerate(self.decoder):
            keys, values = 2 * layer, 2 * layer + 1
            projected = self_attention.inputs(self_attention.residual.before(x))
            query, key_value = projected.view(R, 3 * H, 1, -1).split_with_sizes([H, 2 * H], 1)
            newest[layer].copy_(key_value)
            context = F.scaled_dot_product_attention(query, cache[keys], cache[values])
            x = self_attention.residual.after(x, self_attention.out(context.view(R, -1)))
            query = cross_attention.query(cross_attention.residual.before(x))
            context = _cross_attention(query, memory[keys], memory[values], mask)
            x = feed_forward(cross_attention.residual.after(x, cross_attention.out(context)))
        logits = self.output_layer(self.model.decoder_norm(x))
        return logits[:, None], DecoderState(state.memory, FusedSelfCache(keys_values, t + 1))

    def _embed(self, ids: Tensor, t: int) -> Float[Tensor, "R D"]:
        """Return the embeddings of tokens at position t."""
        x = torch.embedding(self.table, ids)
        if self.positions is None:
            return x * self.width**0.5
        return torch.add(self._position_code(t), x, alpha=self.width**0.5)

    def _position_code(self, t: int) -> Tensor:
        """Return the position vector that is added at position t."""
        if isinstance(self.positions, LearnedPositions):
            return self.positions(t, 1)
        codes = self.position_codes  # another thread may replace them by fewer
        if codes is None or t >= len(codes):
            assert self.positions is not None
            codes = self.position_codes = self.positions(0, max(INITIAL_CACHE_LENGTH, 2 * t))
        return codes[t]


def _cross_attention(
    query: Float[Tensor, "R D"],
    keys: Float[Tensor, "B H S K"],
    values: Float[Tensor, "B H S K"],
    mask: Float[Tensor, "B 1 1 S"] | None,
) -> Float[Tensor, "R D"]:
    """Attend to the source; the hypotheses of an example are query positions of one product."""
    (R, D), (B, H, _, K) = query.shape, keys.shape
    if R == B:
        context = F.scaled_dot_product_attention(
            query.view(B, H, 1, K), keys, values, attn_mask=mask
        )
        return context.view(R, D)
    queries = query.view(B, R // B, H, K).transpose(1, 2)
    context = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return context.transpose(1, 2).reshape(R, D)
