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
from saccade.models.speaking import LanguageModel
from saccade.nn.activations import Activation
from saccade.nn.dropout import Dropout
from saccade.nn.positions import Relative
from saccade.nn.state import KeyValue, newest
from saccade.nn.transformer import CausalBlock
from saccade.nn.words import Words
from saccade.types import Hidden, Ids

Carried = tuple[Tensor, ...]  # what each layer was handed, (B, M, D)


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
    segment: int = Field(0, ge=0)  # tokens; as many as the data's segments have if not said
    memory: int | None = Field(None, ge=0)  # places of the segments before; as many if not said


class Kept(NamedTuple):
    """Keys and values of the memory and of what was read of this segment."""

    layers: tuple[KeyValue | None, ...]
    read: int


class TransformerXL(LanguageModel):
    """Causal blocks that look back over the segment's beginning."""

    def __init__(self, config: TransformerXLConfig):
        super().__init__()
        if config.segment < 1:
            raise ValueError(
                f"a segment of {config.segment} tokens was asked for; wanted 1 or more."
            )
        width = config.width
        self.size = self.sight = config.segment
        self.memory = config.segment if config.memory is None else config.memory
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
                positions=Relative(width, config.heads),
            )
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(width) if config.norm_first else nn.Identity()

    @property
    def words(self) -> Words:
        """The embeddings, and a bias for each."""
        return Words(self.table.weight, self.bias)

    @property
    def sees(self) -> str:
        """What a token sees."""
        return (
            f"its segment of {self.size} and in each layer {self.memory} places before it, so that "
            f"{len(self.blocks) * self.memory} reach it"
        )

    # --- learning: what is carried are the layers' inputs, whose keys change with the weights ---

    def carried(self, rows: int) -> Carried:
        """No memory."""
        weight = self.table.weight
        return tuple(weight.new_zeros(rows, 0, weight.shape[1]) for _ in self.blocks)

    def segment(self, ids: Ids, carried: Carried) -> tuple[Hidden, Carried]:
        """A segment of any length; the memory moves at its end."""
        x = self._embedded(ids)
        after = []
        block: Any
        for block, before in zip(self.blocks, carried, strict=True):
            after.append(self._newest(torch.cat([before, x.detach()], dim=1)))
            x = block(x, block.recall(before) if before.shape[1] else None).x
        return self._out(x), tuple(after)

    def _newest(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B M D"]:
        return x[:, max(0, x.shape[1] - self.memory) :]

    # --- reading with weights that stand still: their keys and values are kept -------------------

    def past(self, rows: int) -> Kept:
        """Nothing has been read."""
        return Kept((None,) * len(self.blocks), 0)

    def read(self, ids: Ids, past: Kept) -> tuple[Hidden, Kept]:
        """T more tokens, the memory moving wherever a segment ends among them."""
        hidden = []
        for some in self._pieces(ids, past.read):
            y, past = self._read_on(some, past)
            hidden.append(y)
        return (hidden[0] if len(hidden) == 1 else torch.cat(hidden, dim=1)), past

    def _pieces(self, ids: Ids, before: int) -> Iterator[Ids]:
        room = self.size - before
        yield ids[:, :room]
        for at in range(room, ids.shape[1], self.size):
            yield ids[:, at : at + self.size]

    def _read_on(self, ids: Ids, past: Kept) -> tuple[Hidden, Kept]:
        x = self._embedded(ids)
        layers = []
        for block, before in zip(self.blocks, past.layers, strict=True):
            x, after = block(x, before)
            layers.append(after)
        read = past.read + ids.shape[1]
        if read == self.size:
            layers = [newest(layer, self.memory) if self.memory else None for layer in layers]
            read = 0
        return self._out(x), Kept(tuple(layers), read)

    def _embedded(self, ids: Ids) -> Hidden:
        return self.dropout(self.table(ids) * self.table.embedding_dim**0.5)

    def _out(self, x: Hidden) -> Hidden:
        return self.dropout(self.norm(x))
