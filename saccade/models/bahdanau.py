r"""Recurrent encoder-decoder with additive attention before each decoder step.

Bahdanau et al. 2015. A bidirectional encoder gives an annotation h_j of every source position; at
step t

    α_tj = softmax_j wᵀ tanh(W_q s_{t-1} + W_k h_j),   c_t = Σ_j α_tj h_j,
    s_t = f(s_{t-1}, [e(y_{t-1}); c_t]),   logits_t = V tanh(U [s_t; c_t; e(y_{t-1})]).

Any other score of `nn.attention_scores` can replace the additive one; one that needs queries and
keys of the same width compares s_{t-1} with a projection of h_j. Hard attention
(`nn.hard_attention`) selects one position of the source, and is trained straight through or by the
score function (`attention_paths`).

c_t enters only through linear maps, so these are applied to the annotations once, as the values of
the attention, instead of to c_t at every step: attention returns W_c c_t and U_c c_t.

Differs from the paper in the readout (tanh where it has maxout, and s_t where it has s_{t-1}) and
in the initial state s_0 = tanh(W [→h_S; ←h_1]), which uses the last states of both directions.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.attention_paths import AttendMemoryFn, AttentionPathDecoder, path_samples
from saccade.models.caption_config import RecurrentCaptionerConfig
from saccade.models.config import BahdanauConfig
from saccade.nn.attention_scores import SAME_WIDTH_SCORES, make_score
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.functional import Attention, attend_shared_memory
from saccade.nn.hard_attention import HardAttention
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.rnn import CELLS, RNN, RNNCell
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds


class BahdanauMemory(NamedTuple):
    """The encoded source: projected keys and values, and the decoder's initial state."""

    keys_values: KVCache
    lengths: Lengths | None
    init_state: Float[Tensor, "B L E"]


class AttentiveDecoder(AttentionPathDecoder):
    """The recurrent decoder: it attends to the annotations from its previous state.

    A subclass has the embedding `target` of the tokens, and `encode`, which ends with `remember`.
    """

    target: TokenEmbedding

    def init_decoder(
        self,
        config: BahdanauConfig | RecurrentCaptionerConfig,
        vocab_size: int,
        memory_width: int,
        bridge: tuple[int, int],
    ) -> None:
        """Make the layers of the decoder.

        Args:
            config: sizes, cell and attention.
            vocab_size: of the target.
            memory_width: width of an annotation.
            bridge: inputs and outputs of the layer that makes the initial state.
        """
        width, depth = config.width, config.depth
        if config.attention != "none":
            is_narrow = config.score in SAME_WIDTH_SCORES
            self.keys = nn.Linear(memory_width, width, bias=False) if is_narrow else None
            score = make_score(config.score, width, width if is_narrow else memory_width)
            is_hard = config.attention == "hard"
            self.attention = (
                HardAttention(score, config.temperature) if is_hard else Attention(score)
            )
        self.path_samples = path_samples(config)
        self.first = RNNCell(config.cell, width, width)
        self.upper = nn.ModuleList(RNNCell(config.cell, width, width) for _ in range(depth - 1))
        self.gates = self.first.gates
        self.values = nn.Linear(memory_width, self.gates + width, bias=False)  # W_c and U_c
        self.bridge = nn.Linear(*bridge)
        self.readout = nn.Linear(2 * width, width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, vocab_size)
        self.width = width

    def remember(
        self,
        annotations: Float[Tensor, "B S D"],
        lengths: Lengths | None,
        start: Float[Tensor, "B L E"],
    ) -> BahdanauMemory:
        """Return the memory: keys and values of the annotations, and the initial state."""
        heads = annotations[:, None]  # (B, 1, S, D): one head
        keys = heads if self.keys is None else self.keys(heads)
        keys, values = self.attention.score.prepare(keys), self.values(heads)
        return BahdanauMemory(KVCache(keys, values, heads.shape[2]), lengths, start)

    def init_state(self, memory: BahdanauMemory) -> DecoderState:
        """Return s_0, made by the encoder."""
        return DecoderState(memory, memory.init_state)

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Decode T tokens step by step: the query of each step is the state before it."""
        return self.decode_with(partial(attend_shared_memory, self.attention), ids, state)

    def decode_with(
        self, attend: AttendMemoryFn, ids: TokenIds, state: DecoderState
    ) -> tuple[Hidden, DecoderState]:
        """Decode T tokens with this function in place of the attention."""
        memory, cache = state
        mask = Mask.lengths(memory.lengths)
        embedded = self.target(ids)
        inputs = self.first.inputs(embedded)
        layers = list(cache.unbind(1))
        outputs, contexts = [], []
        for t in range(ids.shape[1]):
            query = layers[-1][:, None, None, : self.width]
            pooled = attend(query, memory.keys_values, mask)[:, 0, 0]
            layers = self._advance(inputs[:, t] + pooled[:, : self.gates], layers)
            outputs.append(layers[-1][:, : self.width])
            contexts.append(pooled[:, self.gates :])
        hidden = [torch.stack(outputs, dim=1), embedded, torch.stack(contexts, dim=1)]
        return torch.cat(hidden, dim=-1), DecoderState(memory, torch.stack(layers, dim=1))

    def _advance(self, inputs: Tensor, layers: list[Tensor]) -> list[Tensor]:
        """Return the next state of every layer, given the first layer's projected input."""
        advanced = [self.first.advance(inputs, layers[0])]
        cell: Any
        for cell, before in zip(self.upper, layers[1:], strict=True):
            below = self.dropout(advanced[-1][:, : self.width])
            advanced.append(cell.advance(cell.inputs(below), before))
        return advanced

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """Apply the readout tanh(U [s_t; e(y_{t-1})] + U_c c_t)."""
        state_and_token, context = hidden.split([2 * self.width, self.width], dim=-1)
        return self.dropout((self.readout(state_and_token) + context).tanh())


class Bahdanau(AttentiveDecoder):
    """Bidirectional encoder; decoder that attends to it from its previous state."""

    def __init__(self, config: BahdanauConfig):
        super().__init__()
        width = config.width
        self.source = TokenEmbedding(config.source_vocab_size, width, dropout=config.dropout)
        self.target = TokenEmbedding(config.target_vocab_size, width, dropout=config.dropout)
        self.encoder = RNN(
            config.cell, width, width, config.depth, bidirectional=True, dropout=config.dropout
        )
        state_width = CELLS[config.cell].state_vectors * width
        bridge = 2 * state_width, state_width
        self.init_decoder(config, config.target_vocab_size, 2 * width, bridge)

    def encode(self, source: TokenIds, lengths: Lengths | None) -> BahdanauMemory:
        """Compute the annotations, their keys and values, and the decoder's initial state."""
        read = self.encoder(self.source(source), lengths)
        B, L, E = read.last_state.shape
        start = self.bridge(read.last_state.reshape(B, L // 2, 2 * E)).tanh()
        return self.remember(read.outputs, lengths, start)
