r"""A recurrent decoder that looks back at the source before each word.

Bahdanau et al. 2015. A two-way encoder leaves an annotation h_j for every source place; at step t

    α_tj = softmax_j wᵀ tanh(W_q s_{t-1} + W_k h_j),   c_t = Σ_j α_tj h_j,
    s_t = f(s_{t-1}, [e(y_{t-1}); c_t]),   logits_t = V tanh(U [s_t; c_t; e(y_{t-1})]).

c_t enters only through linear maps, so they are applied to the annotations once, as the values of
the attention, and not to c_t at every step: what is pooled is W_c c_t and U_c c_t.

Differs from the paper in the readout (tanh where it has maxout, and s_t where it has s_{t-1})
and in the start s_0 = tanh(W [→h_S; ←h_1]), which takes both directions' last states.
"""

from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.speaking import Translator
from saccade.nn.attention import Attention, share_memory
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import Embedding
from saccade.nn.masks import Mask
from saccade.nn.recurrent import CELLS, Cell, Recurrent
from saccade.nn.scores import Additive
from saccade.nn.state import KeyValue
from saccade.types import Hidden, Ids, Lengths, State


class BahdanauConfig(Config):
    """The recurrent translator with additive attention."""

    name: Literal["bahdanau"] = "bahdanau"
    source_vocab: int = 0  # from the data
    target_vocab: int = 0
    width: int = Field(128, ge=1)
    depth: int = Field(1, ge=1)
    cell: Literal["rnn", "rnn_relu", "gru", "gru_reset_first", "lstm"] = "gru"
    dropout: float = Field(0.1, ge=0, lt=1)


class Annotations(NamedTuple):
    """The encoded source: keys projected once, values, and the state to start from."""

    places: KeyValue
    lengths: Lengths | None
    start: Float[Tensor, "B L E"]


class Bahdanau(Translator):
    """A two-way encoder, additive attention, and a decoder that asks it at every step."""

    def __init__(self, config: BahdanauConfig):
        super().__init__()
        width, depth = config.width, config.depth
        self.source = Embedding(config.source_vocab, width, dropout=config.dropout)
        self.target = Embedding(config.target_vocab, width, dropout=config.dropout)
        self.encoder = Recurrent(
            config.cell, width, width, depth, both_ways=True, dropout=config.dropout
        )
        self.attention = Attention(Additive(width, 2 * width, width))
        self.first = Cell(config.cell, width, width)
        self.upper = nn.ModuleList(Cell(config.cell, width, width) for _ in range(depth - 1))
        self.gates = self.first.gates
        self.values = nn.Linear(2 * width, self.gates + width, bias=False)  # W_c and U_c
        state_width = CELLS[config.cell].vectors * width
        self.bridge = nn.Linear(2 * state_width, state_width)
        self.readout = nn.Linear(2 * width, width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, config.target_vocab)
        self.width = width

    def encode(self, source: Ids, lengths: Lengths | None) -> Annotations:
        """Annotate every place; what depends on the annotations alone is computed here, once."""
        read = self.encoder(self.source(source), lengths)
        places = read.outputs[:, None]  # (B, 1, S, 2D): one head
        keys, values = self.attention.score.prepare(places), self.values(places)
        B, L, E = read.last.shape
        start = self.bridge(read.last.reshape(B, L // 2, 2 * E)).tanh()
        return Annotations(KeyValue(keys, values, places.shape[2]), lengths, start)

    def start(self, memory: Annotations) -> State:
        """The decoder's state before the first word."""
        return State(memory, memory.start)

    def read(self, ids: Ids, state: State) -> tuple[Hidden, State]:
        """One step after the other: where to look depends on the state before."""
        memory, past = state
        mask = Mask.lengths(memory.lengths)
        embedded = self.target(ids)
        inputs = self.first.inputs(embedded)
        layers = list(past.unbind(1))
        outputs, contexts = [], []
        for t in range(ids.shape[1]):
            query = layers[-1][:, None, None, : self.width]
            pooled = share_memory(self.attention, query, memory.places, mask)[:, 0, 0]
            layers = self._advance(inputs[:, t] + pooled[:, : self.gates], layers)
            outputs.append(layers[-1][:, : self.width])
            contexts.append(pooled[:, self.gates :])
        hidden = [torch.stack(outputs, dim=1), embedded, torch.stack(contexts, dim=1)]
        return torch.cat(hidden, dim=-1), State(memory, torch.stack(layers, dim=1))

    def _advance(self, inputs: Tensor, layers: list[Tensor]) -> list[Tensor]:
        """All layers one step on; each above the first reads the one below."""
        now = [self.first.advance(inputs, layers[0])]
        cell: Any
        for cell, before in zip(self.upper, layers[1:], strict=True):
            below = self.dropout(now[-1][:, : self.width])
            now.append(cell.advance(cell.inputs(below), before))
        return now

    def finish(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """The readout."""
        own, context = hidden.split([2 * self.width, self.width], dim=-1)
        return self.dropout((self.readout(own) + context).tanh())
