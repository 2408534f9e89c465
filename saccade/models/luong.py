r"""A recurrent decoder that looks at the source after each of its steps, not before.

Luong et al. 2015. A two-way encoder leaves h̄_s = W_h [→h_s; ←h_s] for every source place; step t is

    h_t = f(h_{t-1}, e(y_{t-1})),   α_t = softmax_s score(h_t, h̄_s),   c_t = Σ_s α_ts h̄_s,
    h̃_t = tanh(W_c [c_t; h_t]),     logits_t = V h̃_t,

score being h_tᵀ h̄_s (dot), h_tᵀ W h̄_s (general), vᵀ tanh(W [h_t; h̄_s]) (concat) or another of
`nn.scores`. Bahdanau's decoder asks with the state before the step and steps with what it sees, so
its steps have to wait for each other. Here the recurrence sees nothing of the source but its start:
all steps of training run through one fused layer, and one attention answers all their queries.

With `input_feeding` the decoder knows where it has looked, f(h_{t-1}, [e(y_{t-1}); h̃_{t-1}]), and
goes step by step again. Local attention (`nn.local`) sees a window around p_t; with the monotonic
p_t = t, a step that is beyond the source by more than the window sees nothing of it. Hard attention
(`nn.hard`) reads one place, and is trained straight through: the score function needs a reward for
every draw, which a loss over logits does not give back.

The part of W_c that reads c_t is linear, so it is applied to the h̄_s once, as the values of
the attention. Differs from the paper in the two-way encoder, hence W_h, which brings h̄_s to the
width of h_t as dot asks, and the start h_0 = tanh(W [→h_S; ←h_1]), layer by layer.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.base import EncoderDecoder
from saccade.nn.attention import Attention, attend_shared_memory
from saccade.nn.attention_scores import make_score
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import Embedding
from saccade.nn.hard_attention import HardAttention
from saccade.nn.kv_cache import KVCache
from saccade.nn.local_attention import CentrePredictor, LocalAttention, with_centre
from saccade.nn.masks import Mask
from saccade.nn.rnn import CELLS, RNN
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds


class LuongConfig(Config):
    """The recurrent translator that attends from its current state."""

    name: Literal["luong"] = "luong"
    source_vocab_size: int = 0  # from the data
    target_vocab_size: int = 0
    width: int = Field(128, ge=1)
    depth: int = Field(1, ge=1)
    cell: Literal["rnn", "rnn_relu", "gru", "gru_reset_first", "lstm"] = "gru"
    score: Literal["dot", "scaled_dot", "additive", "general", "concat", "cosine", "gaussian"] = (
        "general"
    )
    attention: Literal["global", "local_monotonic", "local_predictive", "hard"] = "global"
    window: int = Field(10, ge=1)  # places to each side that local attention sees
    temperature: float = Field(1.0, gt=0)  # of hard attention's slope
    input_feeding: bool = False
    dropout: float = Field(0.1, ge=0, lt=1)


class LuongMemory(NamedTuple):
    """The encoded source: keys and values made once, and the state to start from."""

    keys_values: KVCache
    lengths: Lengths | None
    init_state: Float[Tensor, "B L E"]


class LuongCache(NamedTuple):
    """What the steps have left: the layers' states, the last h̃ and how many there were."""

    layers: Float[Tensor, "B L E"]
    attentional: Float[Tensor, "B D"]
    steps: int


class Luong(EncoderDecoder):
    """A two-way encoder, a recurrent decoder, and attention from each of its states."""

    def __init__(self, config: LuongConfig):
        super().__init__()
        width, cell = config.width, config.cell
        self.source = Embedding(config.source_vocab_size, width, dropout=config.dropout)
        self.target = Embedding(config.target_vocab_size, width, dropout=config.dropout)
        self.encoder = RNN(
            cell, width, width, config.depth, bidirectional=True, dropout=config.dropout
        )
        self.join = nn.Linear(2 * width, width, bias=False)  # W_h
        state_width = CELLS[cell].state_vectors * width
        self.bridge = nn.Linear(2 * state_width, state_width)
        inputs = 2 * width if config.input_feeding else width
        self.decoder = RNN(cell, inputs, width, config.depth, dropout=config.dropout)
        self.attention = _attention(config)
        self.predictor = (
            CentrePredictor(width, width) if config.attention == "local_predictive" else None
        )
        self.values = nn.Linear(width, width, bias=False)  # what of W_c reads c_t
        self.own = nn.Linear(width, width)  # what of it reads h_t
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, config.target_vocab_size)
        self.input_feeding = config.input_feeding

    def encode(self, source: TokenIds, lengths: Lengths | None) -> LuongMemory:
        """Annotate every place; what depends on the annotations alone is computed here, once."""
        read = self.encoder(self.source(source), lengths)
        places = self.join(read.outputs)[:, None]  # (B, 1, S, D): one head
        keys, values = self.attention.score.prepare(places), self.values(places)
        B, L, E = read.last_state.shape
        start = self.bridge(read.last_state.reshape(B, L // 2, 2 * E)).tanh()
        return LuongMemory(KVCache(keys, values, places.shape[2]), lengths, start)

    def init_state(self, memory: LuongMemory) -> DecoderState:
        """The decoder's state before the first word; it has looked nowhere yet."""
        nowhere = memory.init_state.new_zeros(len(memory.init_state), self.own.out_features)
        return DecoderState(memory, LuongCache(memory.init_state, nowhere, 0))

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """All T steps at once, unless each is fed what the one before it saw."""
        embedded = self.target(ids)
        if not self.input_feeding:
            return self._advance(embedded, state)
        hidden = []
        for now in embedded.split(1, dim=1):
            fed = torch.cat([now, state.cache.attentional[:, None]], dim=-1)
            seen, state = self._advance(fed, state)
            hidden.append(seen)
        return torch.cat(hidden, dim=1), state

    def _advance(
        self, inputs: Float[Tensor, "B T E"], state: DecoderState
    ) -> tuple[Hidden, DecoderState]:
        """h̃ of the next steps: the recurrence, then attention from all of them at once."""
        memory, cache = state
        read = self.decoder(inputs, start=cache.layers)
        query = self._query(read.outputs, memory, cache.steps)
        mask = Mask.lengths(memory.lengths)
        context = attend_shared_memory(self.attention, query, memory.keys_values, mask)[:, 0]
        hidden = (context + self.own(read.outputs)).tanh()
        cache = LuongCache(read.last_state, hidden[:, -1], cache.steps + inputs.shape[1])
        return hidden, DecoderState(memory, cache)

    def _query(self, states: Hidden, memory: LuongMemory, steps: int) -> Float[Tensor, "B 1 T Q"]:
        """h_t, and where attention is local p_t beside it."""
        query = states[:, None]
        if not isinstance(self.attention, LocalAttention):
            return query
        if self.predictor is not None:
            return with_centre(query, self.predictor(states, _sizes(memory, len(states))))
        centre = torch.arange(steps, steps + states.shape[1], device=states.device)
        # in the weights' format: a shorter one would round a place
        return with_centre(query, centre.to(self.own.weight.dtype).expand(len(states), -1))

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        """What is compared with the words."""
        return self.dropout(hidden)


def _attention(config: LuongConfig) -> Attention:
    score = make_score(config.score, config.width)
    match config.attention:
        case "local_monotonic" | "local_predictive":
            gaussian = config.attention == "local_predictive"
            return LocalAttention(score, config.window, gaussian)
        case "hard":
            return HardAttention(score, config.temperature)
    return Attention(score)


def _sizes(memory: LuongMemory, rows: int) -> Lengths:
    """The length of each hypothesis' source."""
    keys = memory.keys_values.keys
    lengths = memory.lengths
    if lengths is None:
        return torch.full((rows,), memory.keys_values.length, device=keys.device)
    return lengths.repeat_interleave(rows // len(keys))
