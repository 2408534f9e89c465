r"""Transformer-XL: a causal Transformer with segment-level recurrence.

Dai et al. 2019. With m^n the inputs of layer n at the last `memory_length` positions of the
segments before this one, and h^n its inputs in this segment,

    q = h^n W_q,   k, v = [SG(m^n); h^n] W_k,v,

where SG stops the gradient at the start of the segment; scores are those of
`nn.positional_encoding.RelativePositions`, so that a position means the same in every segment. Each
layer reaches one memory farther back than the layer below: the receptive field is
depth · memory_length positions.

The memory is updated at the end of a segment only, in generation too: the first token of a segment
attends `memory_length` positions back, the last one `segment_length` - 1 more. With fixed weights
the keys and values of the memory do not change, so in generation these are cached, and nothing is
recomputed.

Differs from the paper in norms before the sublayers (an option of its authors' code; `norm_first`)
and in a plain softmax where the paper has an adaptive one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.base import CausalLM
from saccade.models.config import TransformerXLConfig
from saccade.nn.dropout import Dropout
from saccade.nn.feedforward import FeedForward
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.kv_cache import KVCache, trim_cache
from saccade.nn.positional_encoding import RelativePositions
from saccade.nn.transformer import CausalBlock, MultiHeadAttention
from saccade.types.shapes import Hidden, Logits, TokenIds

SegmentMemory = tuple[Tensor, ...]  # inputs of each layer, (B, M, D)


class TransformerXLCache(NamedTuple):
    """Keys and values of the memory and of the current segment up to `segment_position`."""

    layers: tuple[KVCache | None, ...]
    segment_position: int


class TransformerXL(CausalLM):
    """Causal blocks with relative positions that also attend to a memory of earlier segments."""

    def __init__(self, config: TransformerXLConfig):
        super().__init__()
        if config.segment_length < 1:
            raise ValueError(
                f"got segment_length={config.segment_length}; expected 1 or more tokens."
            )
        width = config.width
        self.segment_length = self.context_length = config.segment_length
        self.memory_length = (
            config.segment_length if config.memory_length is None else config.memory_length
        )
        self.table = nn.Embedding(config.vocab_size, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            CausalBlock(
                MultiHeadAttention(
                    width,
                    config.heads,
                    positions=RelativePositions(width, config.heads),
                    dropout=config.attention_dropout,
                ),
                FeedForward(
                    width, config.hidden or 4 * width, config.activation, config.activation_alpha
                ),
                config.dropout,
                config.norm_first,
            )
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(width) if config.norm_first else nn.Identity()

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings (tied) and a bias."""
        return OutputLayer(self.table.weight, self.bias)

    @property
    def context_description(self) -> str:
        """The part of the preceding text that a prediction depends on, in words."""
        return (
            f"its segment of {self.segment_length} and in each layer {self.memory_length} "
            f"positions before it, {len(self.blocks) * self.memory_length} in all"
        )

    def forward(self, ids: TokenIds) -> Logits:
        """Return the logits of the token after each position, segment by segment.

        As in training, the gradient stops at the start of each segment.
        """
        memory = self.init_segment_memory(len(ids))
        hidden = []
        for segment in self._segments(ids, 0):
            y, memory = self.forward_segment(segment, memory)
            hidden.append(y)
        return self.compute_logits(torch.cat(hidden, dim=1))

    # --- training: the memory holds the layers' inputs, since their keys change with the weights --

    def init_segment_memory(self, rows: int) -> SegmentMemory:
        """Return an empty memory."""
        weight = self.table.weight
        return tuple(weight.new_zeros(rows, 0, weight.shape[1]) for _ in self.blocks)

    def forward_segment(
        self, ids: TokenIds, segment_memory: SegmentMemory
    ) -> tuple[Hidden, SegmentMemory]:
        """Read a segment of any length; the memory is updated at its end."""
        x = self._embed(ids)
        after = []
        block: Any
        for block, before in zip(self.blocks, segment_memory, strict=True):
            after.append(self._trim_memory(torch.cat([before, x.detach()], dim=1)))
            x = block(x, block.project_memory(before) if before.shape[1] else None).x
        return self._finish(x), tuple(after)

    def _trim_memory(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B M D"]:
        return x[:, max(0, x.shape[1] - self.memory_length) :]

    # --- inference: weights are fixed, so keys and values are cached ------------------------------

    def init_cache(self, rows: int) -> TransformerXLCache:
        """Return an empty cache."""
        return TransformerXLCache((None,) * len(self.blocks), 0)

    def forward_hidden(
        self, ids: TokenIds, cache: TransformerXLCache
    ) -> tuple[Hidden, TransformerXLCache]:
        """Read T tokens; the memory is updated wherever a segment ends among them."""
        hidden = []
        for part in self._segments(ids, cache.segment_position):
            y, cache = self._forward_part(part, cache)
            hidden.append(y)
        return (hidden[0] if len(hidden) == 1 else torch.cat(hidden, dim=1)), cache

    def _segments(self, ids: TokenIds, segment_position: int) -> Iterator[TokenIds]:
        """Split ids where segments end, the first id being at `segment_position`."""
        room = self.segment_length - segment_position
        yield ids[:, :room]
        for start in range(room, ids.shape[1], self.segment_length):
            yield ids[:, start : start + self.segment_length]

    def _forward_part(
        self, ids: TokenIds, cache: TransformerXLCache
    ) -> tuple[Hidden, TransformerXLCache]:
        """Read tokens of one segment."""
        x = self._embed(ids)
        layers = []
        for block, before in zip(self.blocks, cache.layers, strict=True):
            x, after = block(x, before)
            layers.append(after)
        segment_position = cache.segment_position + ids.shape[1]
        if segment_position == self.segment_length:
            layers = [
                trim_cache(layer, self.memory_length) if self.memory_length else None
                for layer in layers
            ]
            segment_position = 0
        return self._finish(x), TransformerXLCache(tuple(layers), segment_position)

    def _embed(self, ids: TokenIds) -> Hidden:
        return self.dropout(self.table(ids) * self.table.embedding_dim**0.5)

    def _finish(self, x: Hidden) -> Hidden:
        return self.dropout(self.norm(x))
