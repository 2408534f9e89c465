"""Fused decoder of a GPT with learned positions; computes the same as `GPT.step`."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.inference.fused_layers import (
    INITIAL_CACHE_LENGTH,
    BlockedLinear,
    FusedDecoder,
    FusedFeedForward,
    FusedSelfAttention,
)
from saccade.models.gpt import GPT
from saccade.types.shapes import DecoderState, Logits, TokenIds


class FusedGPTCache(NamedTuple):
    """The ids in the context, and the keys and values of all layers."""

    ids: TokenIds
    keys_values: Float[Tensor, "R L 2*H S K"]


class FusedGPTDecoder(FusedDecoder):
    """One-token steps of a GPT. Prompts, and a context that is full, are read by the model."""

    def __init__(self, model: GPT):
        super().__init__(model)
        self.heads = int(model.blocks[0].self_attention.heads)  # type: ignore[union-attr, arg-type]
        self.table = model.table.weight
        output_layer = model.output_layer
        self.output_layer = BlockedLinear(output_layer.weight, output_layer.bias)
        assert model.positions is not None
        self.position_table = model.positions.table
        blocks: Iterable[Any] = model.blocks
        self.blocks = [
            (FusedSelfAttention(block), FusedFeedForward(block), block.window) for block in blocks
        ]

    def init_state(self, memory: Any) -> DecoderState:
        """Return the state of empty texts, as many as `memory` has rows."""
        return DecoderState(memory, None)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """Read the prompts in the first call, and one token per row in the others."""
        cache = state.cache
        if cache is None:
            return self._read(ids, state.memory)
        ids = torch.cat([cache.ids, ids], dim=1)
        if cache.ids.shape[1] == self.model.context_length:  # encode the newest half again
            logits, after = self._read(
                ids[:, -(self.model.context_length // 2) - 1 :], state.memory
            )
            return logits[:, -1:], after
        logits, keys_values = self._read_token(ids, cache.keys_values)
        return logits[:, None], DecoderState(state.memory, FusedGPTCache(ids, keys_values))

    def _read(self, ids: TokenIds, memory: Any) -> tuple[Logits, DecoderState]:
        """Read tokens with the model, and copy its caches into one tensor."""
        logits, state = self.model.step(ids, self.model.init_state(ids))
        context, layers = state.cache
        R, H, S, K = layers[0].filled()[0].shape
        room = min(self.model.context_length, max(INITIAL_CACHE_LENGTH, 2 * S))
        keys_values = self.table.new_empty(R, len(layers), 2 * H, room, K)
        for layer, cache in enumerate(layers):
            keys, values = cache.filled()
            keys_values[:, layer, :H, :S] = keys
            keys_values[:, layer, H:, :S] = values
        return logits, DecoderState(memory, FusedGPTCache(context, keys_values))

    def _read_token(
        self, ids: TokenIds, keys_values: Tensor
    ) -> tuple[Float[Tensor, "R V"], Tensor]:
        """Read the last of the ids; returns its logits and the cache."""
        t = ids.shape[1] - 1
        if t == keys_values.shape[3]:
            keys_values = torch.cat([keys_values, torch.empty_like(keys_values)], dim=3)
        R, H = keys_values.shape[0], self.heads
        x = torch.embedding(self.table, ids[:, t]) + self.position_table[t]
        newest = keys_values.narrow(3, t, 1).unbind(1)
        cache = keys_values.view(R, -1, H, *keys_values.shape[3:]).narrow(3, 0, t + 1).unbind(1)
        for layer, (self_attention, feed_forward, window) in enumerate(self.blocks):
            projected = self_attention.inputs(self_attention.residual.before(x))
            query, key_value = projected.view(R, 3 * H, 1, -1).split_with_sizes([H, 2 * H], 1)
            newest[layer].copy_(key_value)
            keys, values = cache[2 * layer], cache[2 * layer + 1]
            if window is not None and t > window:
                keys, values = keys[:, :, t - window :], values[:, :, t - window :]
            context = F.scaled_dot_product_attention(query, keys, values).view(R, -1)
            x = feed_forward(self_attention.residual.after(x, self_attention.out(context)))
        return self.output_layer(self.model.norm(x)), keys_values
