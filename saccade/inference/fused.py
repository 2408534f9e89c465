r"""A Transformer or a GPT that answers: the same equations, with as few calls as can be.

A step of one token is so little arithmetic that what it costs is asking for it, and bringing the
weights from memory with one core while the others wait. So queries, keys and values come of one
product, the past of all layers is one tensor, masks are made once, no module is entered, and a
matrix is kept in blocks that the cores share. What is computed is `Transformer.encode` and
`Transformer.step`, or `GPT.step`, and a law binds them.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.gpt import GPT
from saccade.models.transformer import Transformer
from saccade.nn.attention_scores import ScaledDotScore
from saccade.nn.positional_encoding import AttentionPositions, LearnedPositions
from saccade.types.shapes import DecoderState, Lengths, Logits, TokenIds

WEIGHT_BLOCKS = 4
GEMV_IS_PARALLEL = (
    torch.backends.cpu.get_cpu_capability() == "AVX512"
)  # a row is shared by all cores
MAX_BLOCKED_ROWS = (
    128  # the most rows for which blocks are quicker than the framework's own product
)
INITIAL_CACHE_LENGTH = 16  # places that the past has room for at first; it doubles when it runs out


class BlockedLinear:
    """x Wᵀ + b.

    For few rows the framework leaves all of W to one core. So W is kept turned round and cut into
    blocks of columns, and asked for as a batch of products, which it shares out among the cores.
    One row alone it does share out where there is AVX-512 (`ONE_IN_ALL`): there that is as quick
    as memory, and 12 % quicker than blocks.
    """

    def __init__(self, weight: Float[Tensor, "N D"], bias: Float[Tensor, " N"] | None = None):
        self.weight, self.bias = weight, bias
        self.in_blocks = weight.device.type == "cpu" and not len(weight) % WEIGHT_BLOCKS
        if self.in_blocks:
            self.blocks = weight.unflatten(0, (WEIGHT_BLOCKS, -1)).transpose(1, 2).contiguous()
            self.bias_blocks = (
                weight.new_zeros(1) if bias is None else bias.view(WEIGHT_BLOCKS, 1, -1)
            )

    def __call__(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R N"]:
        """For every row."""
        R = x.shape[0]
        if R > MAX_BLOCKED_ROWS or not self.in_blocks:
            return F.linear(x, self.weight, self.bias)
        if R == 1 and GEMV_IS_PARALLEL:
            return self._of_one(x[0])[None]
        found = torch.baddbmm(self.bias_blocks, x.expand(WEIGHT_BLOCKS, -1, -1), self.blocks)
        return found.view(1, -1) if R == 1 else found.transpose(0, 1).reshape(R, -1)

    def _of_one(self, x: Float[Tensor, " D"]) -> Float[Tensor, " N"]:
        if self.bias is None:
            return torch.mv(self.weight, x)
        return torch.addmv(self.bias, self.weight, x)


class FusedResidual:
    """x + sublayer(norm(x)), or norm(x + sublayer(x)), in two halves: before and after."""

    def __init__(self, residual: Any):
        norm = residual.norm
        self.norm = (list(norm.normalized_shape), norm.weight, norm.bias, norm.eps)
        self.norm_first = bool(residual.norm_first)

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer sees."""
        return torch.layer_norm(x, *self.norm) if self.norm_first else x

    def after(self, x: Tensor, found: Tensor) -> Tensor:
        """What goes on."""
        return x + found if self.norm_first else torch.layer_norm(x + found, *self.norm)


class FusedFeedForward:
    """The feed-forward and what is around it."""

    def __init__(self, block: Any):
        self.residual = FusedResidual(block.around_feed_forward)
        self.inner = _blocked_linear(block.feed_forward.inner)
        self.outer = _blocked_linear(block.feed_forward.outer)
        self.activation = block.feed_forward.activation

    def __call__(self, x: Tensor) -> Tensor:
        """Every row by itself."""
        return self.residual.after(
            x, self.outer(self.activation(self.inner(self.residual.before(x))))
        )


class FusedSelfAttention:
    """Self-attention and what is around it; queries, keys and values of one product."""

    def __init__(self, block: Any):
        self.residual = FusedResidual(block.around_attention)
        own = block.self_attention
        self.inputs = BlockedLinear(
            torch.cat([own.query.weight, own.key_value.weight]),
            torch.cat([own.query.bias, own.key_value.bias]),
        )
        self.out = _blocked_linear(own.out)


class FusedCrossAttention:
    """Attention to the source and what is around it."""

    def __init__(self, block: Any):
        self.residual = FusedResidual(block.around_source)
        self.query = _blocked_linear(block.source_attention.query)
        self.out = _blocked_linear(block.source_attention.out)


class FusedCrossCache(NamedTuple):
    """Keys and values of the source, of one layer after the other; what is added to scores."""

    keys_values: Float[Tensor, "B 2*L H S K"]
    mask: Float[Tensor, "B 1 1 S"] | None


class FusedSelfCache(NamedTuple):
    """Keys and values of what is written, of all layers; there may be room for more."""

    keys_values: Float[Tensor, "R L 2*H S K"]
    length: int


class _FusedDecoder:
    """Steps of a model, for a search. Its weights are the model's as they are now."""

    def __init__(self, model: nn.Module):
        self.model: Any = model
        self.parts, self.weights = list(model.modules()), list(model.parameters())
        self.versions = self._versions()

    @property
    def is_current(self) -> bool:
        """Whether the model is as it was, and nobody watches or changes what its parts do."""
        return (
            not self.model.training
            and not any(part._forward_hooks or part._forward_pre_hooks for part in self.parts)
            and self.versions == self._versions()
        )

    def _versions(self) -> list[tuple[int, int]]:
        return [(weight.data_ptr(), weight._version) for weight in self.weights]


class FusedTransformerDecoder(_FusedDecoder):
    """Steps of a Transformer."""

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
        of_source = [block.source_attention.key_value for block in decoder]
        self.memory_projection = BlockedLinear(
            torch.cat([linear.weight for linear in of_source]),
            torch.cat([linear.bias for linear in of_source]),
        )

    def encode(self, source: TokenIds, lengths: Lengths | None) -> FusedCrossCache:
        """Read the source once: keys and values for every layer of the decoder."""
        B, S = source.shape
        mask = None
        if lengths is not None:
            beyond = torch.arange(S, device=source.device) >= lengths[:, None, None, None]
            mask = torch.zeros(beyond.shape, dtype=self.table.dtype, device=source.device)
            mask.masked_fill_(beyond, -torch.inf)
        x = self.model.source(source).view(B * S, self.width)
        for self_attention, feed_forward in self.encoder:
            now = self_attention.inputs(self_attention.residual.before(x)).view(
                B, S, 3, self.heads, -1
            )
            query, keys, values = now.permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            seen = seen.transpose(1, 2).reshape(B * S, self.width)
            x = feed_forward(self_attention.residual.after(x, self_attention.out(seen)))
        keys_values = self.memory_projection(self.model.encoder_norm(x))
        keys_values = keys_values.view(B, S, 2 * len(self.decoder), self.heads, -1).permute(
            0, 2, 3, 1, 4
        )
        return FusedCrossCache(keys_values.contiguous(), mask)

    def init_state(self, memory: FusedCrossCache) -> DecoderState:
        """Nothing is written yet."""
        B, L, H, _, K = memory.keys_values.shape
        return DecoderState(
            memory,
            FusedSelfCache(
                memory.keys_values.new_empty(B, L // 2, 2 * H, INITIAL_CACHE_LENGTH, K), 0
            ),
        )

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """One more token in each row, and the logits of what follows it."""
        (source, mask), (keys_values, t) = state
        if t == keys_values.shape[3]:
            keys_values = torch.cat([keys_values, torch.empty_like(keys_values)], dim=3)
        R, H = keys_values.shape[0], self.heads
        x = self._embedded(ids[:, 0], t)
        # what is the same in all layers is asked for once
        newest = keys_values.narrow(3, t, 1).unbind(1)
        cache = keys_values.view(R, -1, H, *keys_values.shape[3:]).narrow(3, 0, t + 1).unbind(1)
        memory = source.unbind(1)
        for layer, (self_attention, cross_attention, feed_forward) in enumerate(self.decoder):
            keys, values = 2 * layer, 2 * layer + 1
            now = self_attention.inputs(self_attention.residual.before(x)).view(R, 3 * H, 1, -1)
            query, key_value = now.split_with_sizes([H, 2 * H], 1)
            newest[layer].copy_(key_value)
            seen = F.scaled_dot_product_attention(query, cache[keys], cache[values])
            x = self_attention.residual.after(x, self_attention.out(seen.view(R, -1)))
            query = cross_attention.query(cross_attention.residual.before(x))
            seen = _cross_attention(query, memory[keys], memory[values], mask)
            x = feed_forward(cross_attention.residual.after(x, cross_attention.out(seen)))
        logits = self.output_layer(self.model.decoder_norm(x))
        return logits[:, None], DecoderState(state.memory, FusedSelfCache(keys_values, t + 1))

    def _embedded(self, ids: Tensor, t: int) -> Float[Tensor, "R D"]:
        """Tokens at a place."""
        x = torch.embedding(self.table, ids)
        if self.positions is None:
            return x * self.width**0.5
        return torch.add(self._code(t), x, alpha=self.width**0.5)

    def _code(self, t: int) -> Tensor:
        """What is added at a place."""
        if isinstance(self.positions, LearnedPositions):
            return self.positions(t, 1)
        if self.position_codes is None or t >= len(self.position_codes):
            assert self.positions is not None
            self.position_codes = self.positions(0, max(INITIAL_CACHE_LENGTH, 2 * t))
        return self.position_codes[t]


class FusedGPTCache(NamedTuple):
    """What of a text is in the context: its ids, and the keys and values of all layers."""

    ids: TokenIds
    keys_values: Float[Tensor, "R L 2*H S K"]


class FusedGPTDecoder(_FusedDecoder):
    """Steps of a GPT with learned positions. A text of more tokens is read by the model itself."""

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
        """Nothing is read yet; of `memory` only the number of rows counts."""
        return DecoderState(memory, None)

    def step(self, ids: TokenIds, state: DecoderState) -> tuple[Logits, DecoderState]:
        """The logits of what follows the first tokens, each, or of what follows one more."""
        cache = state.cache
        if cache is None:
            return self._read(ids, state.memory)
        ids = torch.cat([cache.ids, ids], dim=1)
        if cache.ids.shape[1] == self.model.context_length:  # the newest half is read again
            logits, after = self._read(
                ids[:, -(self.model.context_length // 2) - 1 :], state.memory
            )
            return logits[:, -1:], after
        logits, keys_values = self._one(ids, cache.keys_values)
        return logits[:, None], DecoderState(state.memory, FusedGPTCache(ids, keys_values))

    def _read(self, ids: TokenIds, memory: Any) -> tuple[Logits, DecoderState]:
        """By the model; what it remembers is put where single steps find it."""
        logits, state = self.model.step(ids, self.model.init_state(ids))
        seen, layers = state.cache
        R, H, S, K = layers[0].filled()[0].shape
        room = min(self.model.context_length, max(INITIAL_CACHE_LENGTH, 2 * S))
        keys_values = self.table.new_empty(R, len(layers), 2 * H, room, K)
        for layer, cache in enumerate(layers):
            keys, values = cache.filled()
            keys_values[:, layer, :H, :S] = keys
            keys_values[:, layer, H:, :S] = values
        return logits, DecoderState(memory, FusedGPTCache(seen, keys_values))

    def _one(self, ids: TokenIds, keys_values: Tensor) -> tuple[Float[Tensor, "R V"], Tensor]:
        t = ids.shape[1] - 1
        if t == keys_values.shape[3]:
            keys_values = torch.cat([keys_values, torch.empty_like(keys_values)], dim=3)
        R, H = keys_values.shape[0], self.heads
        x = torch.embedding(self.table, ids[:, t]) + self.position_table[t]
        newest = keys_values.narrow(3, t, 1).unbind(1)
        cache = keys_values.view(R, -1, H, *keys_values.shape[3:]).narrow(3, 0, t + 1).unbind(1)
        for layer, (self_attention, feed_forward, window) in enumerate(self.blocks):
            now = self_attention.inputs(self_attention.residual.before(x)).view(R, 3 * H, 1, -1)
            query, key_value = now.split_with_sizes([H, 2 * H], 1)
            newest[layer].copy_(key_value)
            keys, values = cache[2 * layer], cache[2 * layer + 1]
            if window is not None and t > window:
                keys, values = keys[:, :, t - window :], values[:, :, t - window :]
            seen = F.scaled_dot_product_attention(query, keys, values)
            x = feed_forward(self_attention.residual.after(x, self_attention.out(seen.view(R, -1))))
        return self.output_layer(self.model.norm(x)), keys_values


def _cross_attention(
    query: Float[Tensor, "R D"],
    keys: Float[Tensor, "B H S K"],
    values: Float[Tensor, "B H S K"],
    mask: Float[Tensor, "B 1 1 S"] | None,
) -> Float[Tensor, "R D"]:
    """The hypotheses of a sentence ask its memory at once, as so many steps."""
    (R, D), (B, H, _, K) = query.shape, keys.shape
    if R == B:
        seen = F.scaled_dot_product_attention(query.view(B, H, 1, K), keys, values, attn_mask=mask)
        return seen.view(R, D)
    several = query.view(B, R // B, H, K).transpose(1, 2)
    seen = F.scaled_dot_product_attention(several, keys, values, attn_mask=mask)
    return seen.transpose(1, 2).reshape(R, D)


def fused_decoder(model: nn.Module, previous: Any = None) -> Any:
    """What a search asks for its steps: a `Writer` or a `Teller` where one computes the same.

    Elsewhere it is the model itself. One that is `known` is given back if the weights have not been
    loaded anew since; who trains them forgets it, since an optimiser may change them unseen.
    """
    if isinstance(previous, _FusedDecoder) and previous.model is model and previous.is_current:
        return previous
    # a hook watches or changes what a module does, and here no module is entered
    if model.training or any(
        part._forward_hooks or part._forward_pre_hooks for part in model.modules()
    ):
        return model
    with torch.no_grad():
        if isinstance(model, Transformer) and model.window is None:
            return (
                FusedTransformerDecoder(model)
                if _is_plain(*model.encoder, *model.decoder)
                else model
            )
        if isinstance(model, GPT) and not model.uses_sliding_window:
            return FusedGPTDecoder(model) if _is_plain(*model.blocks) else model
    return model


def _is_plain(*blocks: Any) -> bool:
    """Whether there is nothing but heads of scaled dots, each with keys of its own."""
    for block in blocks:
        parts = [block.self_attention, getattr(block, "source_attention", block.self_attention)]
        for part in parts:
            width = part.query.in_features
            if part.query.out_features != width or part.key_value.out_features != 2 * width:
                return False  # heads are shared, or some are taken out
            if not isinstance(part.attention.score, ScaledDotScore):
                return False
            if type(part.attention.positions) is not AttentionPositions:
                return False  # rotary or relative
    return True


def _blocked_linear(linear: Any) -> BlockedLinear:
    return BlockedLinear(linear.weight, linear.bias)
