r"""Transformer-XL: segments that remember what the layers read in the segments before.

Dai et al. 2019. With m^n what layer n was handed in the segments before this one, at most `memory`
places of it, and h^n what it is handed now,

    q = h^n W_q,   k, v = [SG(m^n); h^n] W_k,v,   scores as in `nn.positions.Relative`,

SG keeping the gradient from going back into a segment that is over. Since each layer looks one
memory farther back than the one above it, what is seen reaches depth · memory places. Only
distances are told, so that a place means the same in this segment and in the next.

The memory moves at the end of a segment and not before, in generation too: the first token of a
segment sees `memory` places back, the last one `segment` - 1 more. Where weights stand still, a
layer's keys and values of the memory are those it computed when it read them: then they are what
is kept, and nothing is computed again.

Differs from the paper in norms before the sublayers (an option of its authors' code; `norm_first`)
and in a plain softmax where the paper has an adaptive one.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.base import CausalLM
from saccade.nn.activations import Activation
from saccade.nn.dropout import Dropout
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.kv_cache import KVCache, trim_cache
from saccade.nn.positional_encoding import RelativePositions
from saccade.nn.transformer import CausalBlock
from saccade.types.shapes import Hidden, TokenIds

SegmentMemory = tuple[Tensor, ...]  # what each layer was handed, (B, M, D)


class TransformerXLConfig(Config):
    """Segments with a memory of hidden states."""

    name: Literal["transformer_xl"] = "transformer_xl"
    vocab_size: int = 0  # from the data
    width: int = Field(256, ge=1)
    depth: int = Field(4, ge=1)
    heads: int = Field(4, ge=1)
    hidden: int | None = Field(None, ge=1)  # of the feed-forward; 4 · width if not said
    dropout: float = Field(0.1, ge=0, lt=1)
    norm_first: bool = True
    activation: Activation = "relu"  # of the feed-forward
    segment_length: int = Field(0, ge=0)  # tokens; as many as the data's segments have if not said
    memory_length: int | None = Field(
        None, ge=0
    )  # places of the segments before; as many if not said


class TransformerXLCache(NamedTuple):
    """Keys and values of the memory and of what was read of this segment."""

    layers: tuple[KVCache | None, ...]
    segment_position: int


class TransformerXL(CausalLM):
    """Causal blocks that look back over the segment's beginning."""

    def __init__(self, config: TransformerXLConfig):
        super().__init__()
        if config.segment_length < 1:
            raise ValueError(
                f"a segment of {config.segment_length} tokens was asked for; wanted 1 or more."
            )
        width = config.width
        self.size = self.context_length = config.segment_length
        self.memory_length = (
            config.segment_length if config.memory_length is None else config.memory_length
        )
        self.table = nn.Embedding(config.vocab_size, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            CausalBlock(
                width,
                config.heads,
                config.hidden or 4 * width,
                config.dropout,
                config.norm_first,
                activation=config.activation,
                positions=RelativePositions(width, config.heads),
            )
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(width) if config.norm_first else nn.Identity()

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings, and a bias for each."""
        return OutputLayer(self.table.weight, self.bias)

    @property
    def context_description(self) -> str:
        """What a token sees."""
        return (
            f"its segment of {self.size} and in each layer {self.memory_length} places before it, so that "
            f"{len(self.blocks) * self.memory_length} reach it"
        )

    # --- learning: what is carried are the layers' inputs, whose keys change with the weights ---

    def init_segment_memory(self, rows: int) -> SegmentMemory:
        """No memory."""
        weight = self.table.weight
        return tuple(weight.new_zeros(rows, 0, weight.shape[1]) for _ in self.blocks)

    def forward_segment(
        self, ids: TokenIds, segment_memory: SegmentMemory
    ) -> tuple[Hidden, SegmentMemory]:
        """A segment of any length; the memory moves at its end."""
        x = self._embedded(ids)
        after = []
        block: Any
        for block, before in zip(self.blocks, segment_memory, strict=True):
            after.append(self._newest(torch.cat([before, x.detach()], dim=1)))
            x = block(x, block.project_memory(before) if before.shape[1] else None).x
        return self._out(x), tuple(after)

    def _newest(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B M D"]:
        return x[:, max(0, x.shape[1] - self.memory_length) :]

    # --- reading with weights that stand still: their keys and values are kept -------------------

    def init_cache(self, rows: int) -> TransformerXLCache:
        """Nothing has been read."""
        return TransformerXLCache((None,) * len(self.blocks), 0)

    def forward_hidden(
        self, ids: TokenIds, cache: TransformerXLCache
    ) -> tuple[Hidden, TransformerXLCache]:
        """T more tokens, the memory moving wherever a segment ends among them."""
        hidden = []
        for some in self._pieces(ids, cache.segment_position):
            y, cache = self._read_on(some, cache)
            hidden.append(y)
        return (hidden[0] if len(hidden) == 1 else torch.cat(hidden, dim=1)), cache

    def _pieces(self, ids: TokenIds, before: int) -> Iterator[TokenIds]:
        room = self.size - before
        yield ids[:, :room]
        for at in range(room, ids.shape[1], self.size):
            yield ids[:, at : at + self.size]

    def _read_on(
        self, ids: TokenIds, cache: TransformerXLCache
    ) -> tuple[Hidden, TransformerXLCache]:
        x = self._embedded(ids)
        layers = []
        for block, before in zip(self.blocks, cache.layers, strict=True):
            x, after = block(x, before)
            layers.append(after)
        segment_position = cache.segment_position + ids.shape[1]
        if segment_position == self.size:
            layers = [
                trim_cache(layer, self.memory_length) if self.memory_length else None
                for layer in layers
            ]
            segment_position = 0
        return self._out(x), TransformerXLCache(tuple(layers), segment_position)

    def _embedded(self, ids: TokenIds) -> Hidden:
        return self.dropout(self.table(ids) * self.table.embedding_dim**0.5)

    def _out(self, x: Hidden) -> Hidden:
        return self.dropout(self.norm(x))
