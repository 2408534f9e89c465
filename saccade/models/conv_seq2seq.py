r"""Convolutional encoder-decoder with attention in every decoder layer.

Gehring et al. 2017. With e_s and g_t the embeddings of source and target, positions included, the
encoder is a stack of gated convolutions z = stack(e), and layer l of the decoder is

    h_t ← √½ (h_t + glu(conv_l(h_{t-k+1} … h_t))),                            causal, k the kernel
    α_t = softmax_s d_tᵀ z_s / √D,   d_t = √½ (W_l h_t + g_t),   c_t = Σ_s α_ts √½ (z_s + e_s),
    h_t ← √½ (h_t + U_l c_t),

starting from h = g, with logits_t = V h_t at the top. All target positions are computed in
parallel, as in a Transformer, but the receptive field on either side is 1 + depth · (kernel - 1)
positions, and the state of the decoder is only the last k - 1 inputs of each layer.

All layers share the keys and values. Differs from the paper in applying attention after the gated
unit's residual connection and not inside it, in the factor 1/√D (so that the fused kernel
applies), in W and U being the only projections, and in having no weight normalisation and no
scaling of the encoder's gradient.
"""

from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.base import EncoderDecoder
from saccade.models.config import ConvSeq2SeqConfig
from saccade.nn.attention_scores import ScaledDotScore
from saccade.nn.conv1d import ConvolutionStack, ConvState
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.functional import Attention, attend_shared_memory
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import LearnedPositions, SinusoidalPositions
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds

SQRT_HALF = 0.5**0.5  # keeps the variance of a sum of two terms


class ConvSeq2SeqMemory(NamedTuple):
    """Keys and values of the source, shared by all layers."""

    keys_values: KVCache
    lengths: Lengths | None


class ConvSeq2SeqCache(NamedTuple):
    """The number of tokens decoded, and the last inputs of each convolution."""

    steps: int
    layers: tuple[ConvState, ...]


class ConvSourceAttention(nn.Module):
    r"""√½ (h + U attention(√½ (W h + g), z, √½ (z + e))), the source attention of one layer."""

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.attention = Attention(ScaledDotScore())
        self.out = nn.Linear(width, width)
        for linear in (self.query, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Hidden, embedded: Hidden, keys_values: KVCache, mask: Mask) -> Hidden:
        """Attend to the source from all positions; `embedded` is g, the target's embeddings."""
        query = SQRT_HALF * (self.query(x) + embedded)
        context = attend_shared_memory(self.attention, query[:, None], keys_values, mask)[:, 0]
        return SQRT_HALF * (x + self.out(context))


class ConvSeq2Seq(EncoderDecoder):
    """Gated convolutions, centred in the encoder and causal in the decoder."""

    def __init__(self, config: ConvSeq2SeqConfig):
        super().__init__()
        width, depth, dropout = config.width, config.depth, config.dropout

        def positions() -> SinusoidalPositions | LearnedPositions:
            if config.positions == "learned":
                return LearnedPositions(width, config.max_positions)
            return SinusoidalPositions(width)

        self.source = TokenEmbedding(config.source_vocab_size, width, positions(), dropout)
        self.target = TokenEmbedding(config.target_vocab_size, width, positions(), dropout)
        self.encoder = ConvolutionStack(width, depth, config.kernel_size, dropout=dropout)
        self.decoder = ConvolutionStack(
            width, depth, config.kernel_size, causal=True, dropout=dropout
        )
        self.source_attention = nn.ModuleList(ConvSourceAttention(width) for _ in range(depth))
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, config.target_vocab_size)

    def encode(self, source: TokenIds, lengths: Lengths | None) -> ConvSeq2SeqMemory:
        """Compute keys z from the stack, and values √½ (z + e) that add the embeddings."""
        embedded = self.source(source)
        keys = self.encoder(embedded, lengths)
        values = SQRT_HALF * (keys + embedded)
        return ConvSeq2SeqMemory(KVCache(keys[:, None], values[:, None], keys.shape[1]), lengths)

    def init_state(self, memory: ConvSeq2SeqMemory) -> DecoderState:
        """Return the state with zeros as the past inputs of every convolution."""
        return DecoderState(
            memory, ConvSeq2SeqCache(0, self.decoder.init_state(len(memory.keys_values.keys)))
        )

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Decode T tokens in parallel."""
        memory, cache = state
        mask = Mask.lengths(memory.lengths)
        embedded = x = self.target(ids, start=cache.steps)
        new_layers = []
        layers: Any = zip(self.decoder.layers, self.source_attention, cache.layers, strict=True)
        for convolution, attention, before in layers:
            x, after = convolution.step(x, before)
            x = attention(x, embedded, memory.keys_values, mask)
            new_layers.append(after)
        new_cache = ConvSeq2SeqCache(cache.steps + ids.shape[1], tuple(new_layers))
        return x, DecoderState(memory, new_cache)

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        """Apply dropout before the output projection."""
        return self.dropout(hidden)
