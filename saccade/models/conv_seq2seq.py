r"""Convolutions in place of recurrence, with attention after every layer of the decoder.

Gehring et al. 2017. With e_s and g_t the embeddings of source and target, positions included, the
encoder is a stack of gated convolutions z = stack(e), and layer l of the decoder is

    h_t ← √½ (h_t + glu(conv_l(h_{t-k+1} … h_t))),                            causal, k the kernel
    α_t = softmax_s d_tᵀ z_s / √D,   d_t = √½ (W_l h_t + g_t),   c_t = Σ_s α_ts √½ (z_s + e_s),
    h_t ← √½ (h_t + U_l c_t),

starting from h = g, with logits_t = V h_t at the top. All steps of training are computed at once,
as in a Transformer, but a place sees only 1 + depth · (kernel - 1) others of its own side, and
to go step by step the decoder has to remember only the last k - 1 inputs of each layer.

Every layer asks the same keys and values, so they are there once. Differs from the paper in that
attention stands after the gated unit's residual connection and not inside it, in the
factor 1/√D (so that the fused kernel can compute it), in W and U being the only projections, and in
having no weight normalisation and no scaling of the encoder's gradient.
"""

from typing import Any, Literal, NamedTuple

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.base import EncoderDecoder
from saccade.nn.attention import Attention, attend_shared_memory
from saccade.nn.attention_scores import ScaledDotScore
from saccade.nn.conv1d import ConvolutionStack, ConvState
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import Embedding
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import LearnedPositions, SinusoidalPositions
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds

SQRT_HALF = 0.5**0.5  # keeps the variance of a sum of two


class ConvSeq2SeqConfig(Config):
    """The convolutional encoder-decoder with attention in every layer."""

    name: Literal["conv_seq2seq"] = "conv_seq2seq"
    source_vocab_size: int = 0  # from the data
    target_vocab_size: int = 0
    width: int = Field(128, ge=1)
    depth: int = Field(3, ge=1)
    kernel_size: int = Field(3, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = Field(512, ge=1)  # places that learned positions have


class ConvSeq2SeqMemory(NamedTuple):
    """Keys and values of the source, the same for every layer."""

    keys_values: KVCache
    lengths: Lengths | None


class ConvSeq2SeqCache(NamedTuple):
    """How many steps there were, and what each layer remembers of the last of them."""

    steps: int
    layers: tuple[ConvState, ...]


class ConvSourceAttention(nn.Module):
    r"""√½ (h + U attention(√½ (W h + g), z, √½ (z + e))): a look at the source, from one layer."""

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.attention = Attention(ScaledDotScore())
        self.out = nn.Linear(width, width)
        for linear in (self.query, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Hidden, embedded: Hidden, keys_values: KVCache, mask: Mask) -> Hidden:
        """Every step at once."""
        query = SQRT_HALF * (self.query(x) + embedded)
        seen = attend_shared_memory(self.attention, query[:, None], keys_values, mask)[:, 0]
        return SQRT_HALF * (x + self.out(seen))


class ConvSeq2Seq(EncoderDecoder):
    """Gated convolutions that see the source around each place and the target before it."""

    def __init__(self, config: ConvSeq2SeqConfig):
        super().__init__()
        width, depth, dropout = config.width, config.depth, config.dropout

        def positions() -> SinusoidalPositions | LearnedPositions:
            if config.positions == "learned":
                return LearnedPositions(width, config.max_positions)
            return SinusoidalPositions(width)

        self.source = Embedding(config.source_vocab_size, width, positions(), dropout)
        self.target = Embedding(config.target_vocab_size, width, positions(), dropout)
        self.encoder = ConvolutionStack(width, depth, config.kernel_size, dropout=dropout)
        self.decoder = ConvolutionStack(
            width, depth, config.kernel_size, causal=True, dropout=dropout
        )
        self.source_attention = nn.ModuleList(ConvSourceAttention(width) for _ in range(depth))
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, config.target_vocab_size)

    def encode(self, source: TokenIds, lengths: Lengths | None) -> ConvSeq2SeqMemory:
        """Keys say what is around a place, values also what stands there."""
        embedded = self.source(source)
        keys = self.encoder(embedded, lengths)
        values = SQRT_HALF * (keys + embedded)
        return ConvSeq2SeqMemory(KVCache(keys[:, None], values[:, None], keys.shape[1]), lengths)

    def init_state(self, memory: ConvSeq2SeqMemory) -> DecoderState:
        """Nothing is written yet."""
        return DecoderState(
            memory, ConvSeq2SeqCache(0, self.decoder.init_state(len(memory.keys_values.keys)))
        )

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """T more tokens after those in the state, all at once."""
        memory, cache = state
        mask = Mask.lengths(memory.lengths)
        embedded = x = self.target(ids, start=cache.steps)
        now = []
        layers: Any = zip(self.decoder.layers, self.source_attention, cache.layers, strict=True)
        for convolution, attention, before in layers:
            x, after = convolution.step(x, before)
            x = attention(x, embedded, memory.keys_values, mask)
            now.append(after)
        return x, DecoderState(memory, ConvSeq2SeqCache(cache.steps + ids.shape[1], tuple(now)))

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        """What is compared with the words."""
        return self.dropout(hidden)
