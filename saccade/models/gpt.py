r"""GPT: a causal (decoder-only) Transformer language model.

    gpt1   norm after each sublayer                                     Radford et al. 2018
    gpt2   norm before it and one at the end; W_o and W_2 of the        Radford et al. 2019
           2·depth residual branches are initialised 1/√(2·depth) smaller
    gpt3   gpt2, every other layer attends `band_width` positions back  Brown et al. 2020

All use GELU (unless `activation` is set), the embedding as the output projection, weights
initialised as N(0, 0.02²) and learned positions; `positions="rotary"` rotates queries and keys
instead (Su et al. 2021, later than these papers).

The context has `context_length` positions. With learned positions, when the context is full its
newest half is encoded again from position 0, and reading continues after it. Rotary positions
depend on distances only, so there each position attends to the `context_length` positions up to it.
In both cases the logits of a text do not depend on how it is split into calls.

Differs from the papers in having no dropout on the attention weights (see `nn.Attention`).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.models.base import CausalLM
from saccade.models.config import GPTConfig
from saccade.nn.dropout import Dropout
from saccade.nn.feedforward import FeedForward
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.kv_cache import KVCache, trim_cache
from saccade.nn.positional_encoding import LearnedPositions, RotaryPositions
from saccade.nn.pruning import prune_heads
from saccade.nn.transformer import CausalBlock, MultiHeadAttention, residual_projections
from saccade.types.shapes import Hidden, TokenIds

INIT_STD = 0.02  # standard deviation of the initial weights
MISSING_TOKEN_LOGIT = -1e4  # probability 0 after the softmax


class GPTCache(NamedTuple):
    """The ids in the context and their keys and values, one cache per layer."""

    ids: TokenIds
    layers: tuple[KVCache | None, ...]


class GPT(CausalLM):
    """Embeddings, causal Transformer blocks, output projection tied to the embeddings."""

    is_stateful = False

    def __init__(self, config: GPTConfig):
        super().__init__()
        if config.context_length < 2:
            raise ValueError(
                f"got context_length={config.context_length}; expected 2 or more positions."
            )
        width, depth = config.width, config.depth
        self.context_length: int = config.context_length
        self.norm_first = config.name != "gpt1"
        self.table = nn.Embedding(config.vocab_size, width)
        self.uses_sliding_window = config.positions == "rotary"
        self.positions = (
            None if self.uses_sliding_window else LearnedPositions(width, config.context_length)
        )
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            CausalBlock(
                MultiHeadAttention(
                    width,
                    config.heads,
                    positions=RotaryPositions(width // config.heads)
                    if self.uses_sliding_window
                    else None,
                    dropout=config.attention_dropout,
                ),
                FeedForward(
                    width, config.hidden or 4 * width, config.activation, config.activation_alpha
                ),
                config.dropout,
                self.norm_first,
                self._window(config, layer),
            )
            for layer in range(depth)
        )
        self.norm = nn.LayerNorm(width) if self.norm_first else nn.Identity()
        self.eval_stride: int = (
            self.context_length - self.context_length // 2
        )  # positions left after the newest half
        self._init_weights(depth)
        bias = None
        if config.missing_tokens:
            bias = torch.zeros(config.vocab_size)
            bias[torch.tensor(config.missing_tokens)] = MISSING_TOKEN_LOGIT
        self.register_buffer("bias", bias, persistent=False)
        self.bias: Tensor | None
        prune_heads(self, config.pruned_heads)

    def _window(self, config: GPTConfig, layer: int) -> int | None:
        """Return how many positions back a layer attends; None: no limit."""
        limit = config.context_length - 1 if self.uses_sliding_window else None
        if config.name == "gpt3" and layer % 2:
            return config.band_width if limit is None else min(config.band_width, limit)
        return limit

    def _init_weights(self, depth: int) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INIT_STD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        if self.norm_first:
            block: Any
            for block in self.blocks:  # keeps the variance of the residual stream at any depth
                for projection in residual_projections(block):
                    nn.init.normal_(projection.weight, std=INIT_STD / (2 * depth) ** 0.5)

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings (tied), with a bias that removes missing tokens."""
        return OutputLayer(self.table.weight, self.bias)

    @property
    def context_description(self) -> str:
        """The part of the preceding text that a prediction depends on, in words."""
        if self.uses_sliding_window:
            return f"in each layer the {self.context_length} before it"
        return (
            f"at least {self.context_length // 2 + 1} and at most {self.context_length} before it, "
            f"in strides of {self.eval_stride}"
        )

    def init_cache(self, rows: int) -> GPTCache:
        """Return an empty context."""
        ids = torch.empty(rows, 0, dtype=torch.long, device=self.table.weight.device)
        return GPTCache(ids, (None,) * len(self.blocks))

    def forward_hidden(self, ids: TokenIds, cache: GPTCache) -> tuple[Hidden, GPTCache]:
        """Read T tokens; where the context is full, its newest half is encoded again first."""
        if self.uses_sliding_window:
            return self._forward_chunk(ids, cache, cache.layers[0].end if cache.layers[0] else 0)
        hidden = []
        for chunk in self._chunks(ids, cache.ids.shape[1]):
            repeated = 0
            if cache.ids.shape[1] == self.context_length:
                repeated = self.context_length // 2
                chunk = torch.cat([cache.ids[:, -repeated:], chunk], dim=1)
                cache = self.init_cache(len(chunk))
            y, cache = self._forward_chunk(chunk, cache, cache.ids.shape[1])
            hidden.append(y[:, repeated:])
        return (hidden[0] if len(hidden) == 1 else torch.cat(hidden, dim=1)), cache

    def _chunks(self, ids: TokenIds, filled: int) -> Iterator[TokenIds]:
        """Yield what fits into the context, then as much as fits after its newest half."""
        room = self.context_length - filled
        while ids.shape[1] > 0:
            if room == 0:
                room = self.eval_stride
            yield ids[:, :room]
            ids, room = ids[:, room:], 0

    def _forward_chunk(self, ids: TokenIds, cache: GPTCache, start: int) -> tuple[Hidden, GPTCache]:
        """Read tokens that fit into the context, the first of them at position `start`."""
        x = self.table(ids)
        if self.positions is not None:
            x = x + self.positions(start, ids.shape[1])
        x = self.dropout(x)
        layers = []
        for block, before in zip(self.blocks, cache.layers, strict=True):
            x, after = block(x, before)
            # a sliding cache is trimmed only when it has doubled, so that a step copies little
            layers.append(
                trim_cache(after, self.context_length)
                if after.length >= 2 * self.context_length
                else after
            )
        context = ids[:, :0] if self.uses_sliding_window else torch.cat([cache.ids, ids], dim=1)
        return self.norm(x), GPTCache(context, tuple(layers))
