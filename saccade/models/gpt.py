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
from saccade.models.speaking import LanguageModel
from saccade.nn.activations import Activation
from saccade.nn.dropout import Dropout
from saccade.nn.positions import Learned, Rotary
from saccade.nn.state import KeyValue, newest
from saccade.nn.transformer import CausalBlock, branch_ends
from saccade.nn.words import Words
from saccade.types import Hidden, Ids

START = 0.02  # the standard deviation of the weights
IMPOSSIBLE = -1e4  # a logit that leaves no chance


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
    context: int = Field(0, ge=0)  # places; as many as a segment has if not said
    positions: Literal["learned", "rotary"] = "learned"
    band: int = Field(32, ge=1)  # places back that every other layer of gpt3 sees
    absent: list[int] = []  # tokens that one which came from elsewhere does not have


class Window(NamedTuple):
    """What is still seen of the text: the ids since the last re-reading, their keys and values."""

    ids: Ids
    layers: tuple[KeyValue | None, ...]


class GPT(LanguageModel):
    """Token and position in, blocks, likeness to the embeddings out."""

    carries = False

    def __init__(self, config: GPTConfig):
        super().__init__()
        if config.context < 2:
            raise ValueError(
                f"a context of {config.context} places was asked for; wanted 2 or more."
            )
        width, depth = config.width, config.depth
        self.context, self.norm_first = config.context, config.name != "gpt1"
        self.table = nn.Embedding(config.vocab_size, width)
        self.slides = config.positions == "rotary"
        self.positions = None if self.slides else Learned(width, config.context)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            CausalBlock(
                width,
                config.heads,
                config.hidden or 4 * width,
                config.dropout,
                self.norm_first,
                config.activation,
                positions=Rotary(width // config.heads) if self.slides else None,
                window=self._window(config, layer),
            )
            for layer in range(depth)
        )
        self.norm = nn.LayerNorm(width) if self.norm_first else nn.Identity()
        self.sight = self.context
        self.stride: int = self.context - self.context // 2  # what fits beside the newest half
        self._start(depth)
        bias = None
        if config.absent:
            bias = torch.zeros(config.vocab_size)
            bias[torch.tensor(config.absent)] = IMPOSSIBLE
        self.register_buffer("bias", bias, persistent=False)
        self.bias: Tensor | None

    def _window(self, config: GPTConfig, layer: int) -> int | None:
        reach = config.context - 1 if self.slides else None
        if config.name == "gpt3" and layer % 2:
            return config.band if reach is None else min(config.band, reach)
        return reach

    def _start(self, depth: int) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=START)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        if self.norm_first:
            block: Any
            for block in self.blocks:  # their sum is then of one size whatever the depth
                for last in branch_ends(block):
                    nn.init.normal_(last.weight, std=START / (2 * depth) ** 0.5)

    @property
    def words(self) -> Words:
        """The embeddings: logits are by likeness to them."""
        return Words(self.table.weight, self.bias)

    @property
    def sees(self) -> str:
        """What a token sees."""
        if self.slides:
            return f"in each layer the {self.context} before it"
        return (
            f"at least {self.context // 2 + 1} and at most {self.context} before it, in strides of "
            f"{self.stride}"
        )

    def past(self, rows: int) -> Window:
        """Nothing has been read."""
        ids = torch.empty(rows, 0, dtype=torch.long, device=self.table.weight.device)
        return Window(ids, (None,) * len(self.blocks))

    def read(self, ids: Ids, past: Window) -> tuple[Hidden, Window]:
        """T more tokens; where the context is full, its newest half is read again with them."""
        if self.slides:
            return self._read_on(ids, past, past.layers[0].end if past.layers[0] else 0)
        hidden = []
        for some in self._pieces(ids, past.ids.shape[1]):
            again = 0
            if past.ids.shape[1] == self.context:
                again = self.context // 2
                some = torch.cat([past.ids[:, -again:], some], dim=1)
                past = self.past(len(some))
            y, past = self._read_on(some, past, past.ids.shape[1])
            hidden.append(y[:, again:])
        return (hidden[0] if len(hidden) == 1 else torch.cat(hidden, dim=1)), past

    def _pieces(self, ids: Ids, before: int) -> Iterator[Ids]:
        """What fits into the context, then as much at a time as fits beside its newest half."""
        room = self.context - before
        while ids.shape[1] > 0:
            if room == 0:
                room = self.stride
            yield ids[:, :room]
            ids, room = ids[:, room:], 0

    def _read_on(self, ids: Ids, past: Window, start: int) -> tuple[Hidden, Window]:
        x = self.table(ids)
        if self.positions is not None:
            x = x + self.positions(start, ids.shape[1])
        x = self.dropout(x)
        layers = []
        for block, before in zip(self.blocks, past.layers, strict=True):
            x, after = block(x, before)
            # a memory that slides is cut once in a while, so that a step copies little
            layers.append(
                newest(after, self.context) if after.length >= 2 * self.context else after
            )
        seen = ids[:, :0] if self.slides else torch.cat([past.ids, ids], dim=1)
        return self.norm(x), Window(seen, tuple(layers))
