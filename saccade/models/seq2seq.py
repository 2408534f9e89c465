r"""Recurrent encoder-decoder with one fixed-size context vector.

Cho et al. 2014 (and Sutskever et al. 2014): the source is encoded as one vector c, which is an
input of every decoder step together with the previous token,

    h_t = f(h_{t-1}, [e(y_{t-1}); c]),   logits_t = W [h_t; c; e(y_{t-1})].

c is the encoder's last state, the mean of its states h_1 … h_S, or W [h_1; …; h_P]: the
concatenation of the first P states, zeros after the end of a source, projected to the width of one.

Attention was introduced to remove this bottleneck: the size of c does not grow with the source.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.base import EncoderDecoder
from saccade.models.config import Seq2SeqConfig
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.rnn import RNN
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds


class Seq2SeqMemory(NamedTuple):
    """The encoded source: the context vector and the decoder's initial state."""

    context: Float[Tensor, "B D"]
    init_state: Float[Tensor, "B L E"]


class Seq2Seq(EncoderDecoder):
    """Recurrent encoder and decoder joined by one context vector."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        width = config.width
        self.source = TokenEmbedding(config.source_vocab_size, width, dropout=config.dropout)
        self.target = TokenEmbedding(config.target_vocab_size, width, dropout=config.dropout)
        self.encoder = RNN(config.cell, width, width, config.depth, dropout=config.dropout)
        self.decoder = RNN(config.cell, 2 * width, width, config.depth, dropout=config.dropout)
        self.output = nn.Linear(3 * width, config.target_vocab_size)
        self.width, self.context, self.context_positions = (
            width,
            config.context,
            config.context_positions,
        )
        self.join = (
            nn.Linear(config.context_positions * width, width)
            if config.context == "concatenation"
            else None
        )

    def encode(self, source: TokenIds, lengths: Lengths | None) -> Seq2SeqMemory:
        """Encode the source as a context vector and the encoder's last state."""
        read = self.encoder(self.source(source), lengths)
        if self.context == "last":
            return Seq2SeqMemory(read.last_state[:, -1, : self.width], read.last_state)
        S = source.shape[1]
        positions = torch.arange(S, device=source.device)[None]
        real = positions < (lengths[:, None] if lengths is not None else S)
        states = read.outputs * real[..., None]
        if self.join is None:
            count = real.sum(1, keepdim=True)  # (B or 1, 1)
            return Seq2SeqMemory(states.sum(1) / count, read.last_state)
        first = F.pad(states, (0, 0, 0, max(0, self.context_positions - S)))
        first = first[:, : self.context_positions]
        return Seq2SeqMemory(self.join(first.flatten(1)), read.last_state)

    def init_state(self, memory: Seq2SeqMemory) -> DecoderState:
        """Return the encoder's last state, layer by layer, as the decoder's first."""
        return DecoderState(memory, memory.init_state)

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Decode T tokens with one call of the recurrent layers."""
        embedded = self.target(ids)
        context = state.memory.context
        context = context.repeat_interleave(ids.shape[0] // context.shape[0], dim=0)
        context = context[:, None].expand(-1, ids.shape[1], -1)
        read = self.decoder(torch.cat([embedded, context], dim=-1), start=state.cache)
        hidden = torch.cat([read.outputs, context, embedded], dim=-1)
        return hidden, DecoderState(state.memory, read.last_state)
