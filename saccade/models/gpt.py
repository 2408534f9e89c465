r"""GPT: a stack of causal blocks that reads a text and says what comes next.

    gpt1   norm after each sublayer                                     Radford et al. 2018
    gpt2   norm before it and one at the end; W_o and W_2 of the        Radford et al. 2019
           2·depth residual branches start at 1/√(2·depth) of the others
    gpt3   gpt2, where every other layer sees `band` places back only   Brown et al. 2020

All have GELU (unless `activation` says otherwise), the embedding as the output projection, weights
that start as N(0, 0.02²) and learned positions; `positions="rotary"` turns queries and keys instead
(Su et al. 2021), which came later.

The model sees `context` places. With learned positions a text that is longer is read on from the
newest half of them: they are read once more, from place 0 on, when there is room for no more.
Rotary positions speak of distances only, so there every place sees the `context` places up to it.
Either way a text gives the same answer however it is cut into calls.

Differs from the papers in having no dropout on the attention's weights (see `nn.attention`).
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.base import CausalLM
from saccade.nn.activations import Activation
from saccade.nn.dropout import Dropout
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.kv_cache import KVCache, trim_cache
from saccade.nn.positional_encoding import LearnedPositions, RotaryPositions
from saccade.nn.transformer import CausalBlock, residual_projections
from saccade.types.shapes import Hidden, TokenIds

INIT_STD = 0.02  # the standard deviation of the weights
MISSING_TOKEN_LOGIT = -1e4  # a logit that leaves no chance


class GPTConfig(Config):
    """A decoder without a source."""

    name: Literal["gpt1", "gpt2", "gpt3"] = "gpt2"
    vocab_size: int = 0  # from the data
    width: int = Field(256, ge=1)
    depth: int = Field(4, ge=1)
    heads: int = Field(4, ge=1)
    hidden: int | None = Field(None, ge=1)  # of the feed-forward; 4 · width if not said
    dropout: float = Field(0.1, ge=0, lt=1)
    activation: Activation = "gelu"  # of the feed-forward
    context_length: int = Field(0, ge=0)  # places; as many as a segment has if not said
    positions: Literal["learned", "rotary"] = "learned"
    band_width: int = Field(32, ge=1)  # places back that every other layer of gpt3 sees
    missing_tokens: list[int] = []  # tokens that one which came from elsewhere does not have


class GPTCache(NamedTuple):
    """What is still seen of the text: the ids since the last re-reading, their keys and values."""

    ids: TokenIds
    layers: tuple[KVCache | None, ...]


class GPT(CausalLM):
    """Token and position in, blocks, likeness to the embeddings out."""

    is_stateful = False

    def __init__(self, config: GPTConfig):
        super().__init__()
        if config.context_length < 2:
            raise ValueError(
                f"a context of {config.context_length} places was asked for; wanted 2 or more."
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
                width,
                config.heads,
                config.hidden or 4 * width,
                config.dropout,
                self.norm_first,
                config.activation,
                positions=RotaryPositions(width // config.heads)
                if self.uses_sliding_window
                else None,
                window=self._window(config, layer),
            )
            for layer in range(depth)
        )
        self.norm = nn.LayerNorm(width) if self.norm_first else nn.Identity()
        self.eval_stride: int = (
            self.context_length - self.context_length // 2
        )  # what fits beside the newest half
        self._start(depth)
        bias = None
        if config.missing_tokens:
            bias = torch.zeros(config.vocab_size)
            bias[torch.tensor(config.missing_tokens)] = MISSING_TOKEN_LOGIT
        self.register_buffer("bias", bias, persistent=False)
        self.bias: Tensor | None

    def _window(self, config: GPTConfig, layer: int) -> int | None:
        reach = config.context_length - 1 if self.uses_sliding_window else None
        if config.name == "gpt3" and layer % 2:
            return config.band_width if reach is None else min(config.band_width, reach)
        return reach

    def _start(self, depth: int) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INIT_STD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        if self.norm_first:
            block: Any
            for block in self.blocks:  # their sum is then of one size whatever the depth
                for last in residual_projections(block):
                    nn.init.normal_(last.weight, std=INIT_STD / (2 * depth) ** 0.5)

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings: logits are by likeness to them."""
        return OutputLayer(self.table.weight, self.bias)

    @property
    def context_description(self) -> str:
        """What a token sees."""
        if self.uses_sliding_window:
            return f"in each layer the {self.context_length} before it"
        return (
            f"at least {self.context_length // 2 + 1} and at most {self.context_length} before it, in strides of "
            f"{self.eval_stride}"
        )

    def init_cache(self, rows: int) -> GPTCache:
        """Nothing has been read."""
        ids = torch.empty(rows, 0, dtype=torch.long, device=self.table.weight.device)
        return GPTCache(ids, (None,) * len(self.blocks))

    def forward_hidden(self, ids: TokenIds, cache: GPTCache) -> tuple[Hidden, GPTCache]:
        """T more tokens; where the context is full, its newest half is read again with them."""
        if self.uses_sliding_window:
            return self._read_on(ids, cache, cache.layers[0].end if cache.layers[0] else 0)
        hidden = []
        for some in self._pieces(ids, cache.ids.shape[1]):
            again = 0
            if cache.ids.shape[1] == self.context_length:
                again = self.context_length // 2
                some = torch.cat([cache.ids[:, -again:], some], dim=1)
                cache = self.init_cache(len(some))
            y, cache = self._read_on(some, cache, cache.ids.shape[1])
            hidden.append(y[:, again:])
        return (hidden[0] if len(hidden) == 1 else torch.cat(hidden, dim=1)), cache

    def _pieces(self, ids: TokenIds, before: int) -> Iterator[TokenIds]:
        """What fits into the context, then as much at a time as fits beside its newest half."""
        room = self.context_length - before
        while ids.shape[1] > 0:
            if room == 0:
                room = self.eval_stride
            yield ids[:, :room]
            ids, room = ids[:, room:], 0

    def _read_on(self, ids: TokenIds, cache: GPTCache, start: int) -> tuple[Hidden, GPTCache]:
        x = self.table(ids)
        if self.positions is not None:
            x = x + self.positions(start, ids.shape[1])
        x = self.dropout(x)
        layers = []
        for block, before in zip(self.blocks, cache.layers, strict=True):
            x, after = block(x, before)
            # a memory that slides is cut once in a while, so that a step copies little
            layers.append(
                trim_cache(after, self.context_length)
                if after.length >= 2 * self.context_length
                else after
            )
        seen = ids[:, :0] if self.uses_sliding_window else torch.cat([cache.ids, ids], dim=1)
        return self.norm(x), GPTCache(seen, tuple(layers))
