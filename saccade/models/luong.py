r"""Recurrent encoder-decoder with attention after each decoder step.

Luong et al. 2015. A bidirectional encoder gives h̄_s = W_h [→h_s; ←h_s] for every source position;
step t is

    h_t = f(h_{t-1}, e(y_{t-1})),   α_t = softmax_s score(h_t, h̄_s),   c_t = Σ_s α_ts h̄_s,
    h̃_t = tanh(W_c [c_t; h_t]),     logits_t = V h̃_t,

score being h_tᵀ h̄_s (dot), h_tᵀ W h̄_s (general), vᵀ tanh(W [h_t; h̄_s]) (concat) or another of
`nn.attention_scores`. Bahdanau's query is the state before the step and its context an input of
the step, so its steps are sequential. Here the recurrence does not depend on the attention: in
training all steps run through one fused recurrent layer and one attention call.

With `input_feeding` the step is f(h_{t-1}, [e(y_{t-1}); h̃_{t-1}]), and steps are sequential again.
Local attention (`nn.local_attention`) covers a window around p_t; with the monotonic p_t = t, a
step past the end of the source by more than the window attends to nothing. Hard attention
(`nn.hard_attention`) selects one position and is trained straight through, or by the score function
with the log-likelihood of sampled paths as their reward (`attention_paths`). Without input feeding
a position changes the prediction of its own step only.

The part of W_c that multiplies c_t is linear, so it is applied to the h̄_s once, as the values of
the attention. Differs from the paper in the bidirectional encoder, hence W_h, which projects h̄_s
to the width of h_t as dot requires, and in the initial state h_0 = tanh(W [→h_S; ←h_1]), layer by
layer.
"""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.attention_paths import AttendMemoryFn, AttentionPathDecoder, path_samples
from saccade.models.config import LuongConfig
from saccade.nn.attention_scores import make_score
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.functional import Attention, attend_shared_memory
from saccade.nn.hard_attention import HardAttention
from saccade.nn.kv_cache import KVCache
from saccade.nn.local_attention import CentrePredictor, LocalAttention, with_centre
from saccade.nn.masks import Mask
from saccade.nn.rnn import CELLS, RNN
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds


class LuongMemory(NamedTuple):
    """The encoded source: keys and values, and the decoder's initial state."""

    keys_values: KVCache
    lengths: Lengths | None
    init_state: Float[Tensor, "B L E"]


class LuongCache(NamedTuple):
    """The states of the recurrent layers, the last h̃, and the number of tokens decoded."""

    layers: Float[Tensor, "B L E"]
    attentional: Float[Tensor, "B D"]
    steps: int


class Luong(AttentionPathDecoder):
    """Bidirectional encoder, recurrent decoder, and attention from each decoder state."""

    def __init__(self, config: LuongConfig):
        super().__init__()
        width, cell = config.width, config.cell
        self.source = TokenEmbedding(config.source_vocab_size, width, dropout=config.dropout)
        self.target = TokenEmbedding(config.target_vocab_size, width, dropout=config.dropout)
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
        self.values = nn.Linear(width, width, bias=False)  # the part of W_c for c_t
        self.own = nn.Linear(width, width)  # the part of W_c for h_t
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, config.target_vocab_size)
        self.input_feeding = self.path_affects_later_steps = config.input_feeding
        self.path_samples = path_samples(config)

    def encode(self, source: TokenIds, lengths: Lengths | None) -> LuongMemory:
        """Compute the annotations, their keys and values, and the decoder's initial state."""
        read = self.encoder(self.source(source), lengths)
        annotations = self.join(read.outputs)[:, None]  # (B, 1, S, D): one head
        keys, values = self.attention.score.prepare(annotations), self.values(annotations)
        B, L, E = read.last_state.shape
        start = self.bridge(read.last_state.reshape(B, L // 2, 2 * E)).tanh()
        return LuongMemory(KVCache(keys, values, annotations.shape[2]), lengths, start)

    def init_state(self, memory: LuongMemory) -> DecoderState:
        """Return h_0, made by the encoder's last states, with h̃_0 = 0."""
        attentional = memory.init_state.new_zeros(len(memory.init_state), self.own.out_features)
        return DecoderState(memory, LuongCache(memory.init_state, attentional, 0))

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Decode T tokens in one call, or step by step with input feeding."""
        return self.decode_with(partial(attend_shared_memory, self.attention), ids, state)

    def decode_with(
        self, attend: AttendMemoryFn, ids: TokenIds, state: DecoderState
    ) -> tuple[Hidden, DecoderState]:
        """Decode T tokens with this function in place of the attention."""
        embedded = self.target(ids)
        if not self.input_feeding:
            return self._advance(attend, embedded, state)
        hidden = []
        for token in embedded.split(1, dim=1):
            inputs = torch.cat([token, state.cache.attentional[:, None]], dim=-1)
            attentional, state = self._advance(attend, inputs, state)
            hidden.append(attentional)
        return torch.cat(hidden, dim=1), state

    def _advance(
        self, attend: AttendMemoryFn, inputs: Float[Tensor, "B T E"], state: DecoderState
    ) -> tuple[Hidden, DecoderState]:
        """Return h̃ of the next steps: the recurrence, then one attention call for all of them."""
        memory, cache = state
        read = self.decoder(inputs, start=cache.layers)
        query = self._query(read.outputs, memory, cache.steps)
        mask = Mask.lengths(memory.lengths)
        context = attend(query, memory.keys_values, mask)[:, 0]
        hidden = (context + self.own(read.outputs)).tanh()
        cache = LuongCache(read.last_state, hidden[:, -1], cache.steps + inputs.shape[1])
        return hidden, DecoderState(memory, cache)

    def _query(self, states: Hidden, memory: LuongMemory, steps: int) -> Float[Tensor, "B 1 T Q"]:
        """Return h_t, with p_t appended where attention is local."""
        query = states[:, None]
        if not isinstance(self.attention, LocalAttention):
            return query
        if self.predictor is not None:
            return with_centre(query, self.predictor(states, _source_lengths(memory, len(states))))
        centre = torch.arange(steps, steps + states.shape[1], device=states.device)
        # in the dtype of the weights: under autocast a shorter one would round the position
        return with_centre(query, centre.to(self.own.weight.dtype).expand(len(states), -1))

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        """Apply dropout before the output projection."""
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


def _source_lengths(memory: LuongMemory, rows: int) -> Lengths:
    """Return the source length of each hypothesis."""
    keys = memory.keys_values.keys
    lengths = memory.lengths
    if lengths is None:
        return torch.full((rows,), memory.keys_values.length, device=keys.device)
    return lengths.repeat_interleave(rows // len(keys))
