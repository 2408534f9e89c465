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
from saccade.models.speaking import Translator
from saccade.nn.attention import Attention, share_memory
from saccade.nn.convolution import ConvolutionStack, Recent
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import Embedding
from saccade.nn.masks import Mask
from saccade.nn.positions import Learned, Sinusoidal
from saccade.nn.scores import ScaledDot
from saccade.nn.state import KeyValue
from saccade.types import Hidden, Ids, Lengths, State

HALF = 0.5**0.5  # keeps the variance of a sum of two


class ConvolutionalConfig(Config):
    """The convolutional encoder-decoder with attention in every layer."""

    name: Literal["convolutional"] = "convolutional"
    source_vocab: int = 0  # from the data
    target_vocab: int = 0
    width: int = Field(128, ge=1)
    depth: int = Field(3, ge=1)
    kernel: int = Field(3, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    longest: int = Field(512, ge=1)  # places that learned positions have


class SourceMemory(NamedTuple):
    """Keys and values of the source, the same for every layer."""

    places: KeyValue
    lengths: Lengths | None


class Past(NamedTuple):
    """How many steps there were, and what each layer remembers of the last of them."""

    steps: int
    layers: tuple[Recent, ...]


class SourceAttention(nn.Module):
    r"""√½ (h + U attention(√½ (W h + g), z, √½ (z + e))): a look at the source, from one layer."""

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.attention = Attention(ScaledDot())
        self.out = nn.Linear(width, width)
        for linear in (self.query, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Hidden, embedded: Hidden, places: KeyValue, mask: Mask) -> Hidden:
        """Every step at once."""
        query = HALF * (self.query(x) + embedded)
        seen = share_memory(self.attention, query[:, None], places, mask)[:, 0]
        return HALF * (x + self.out(seen))


class Convolutional(Translator):
    """Gated convolutions that see the source around each place and the target before it."""

    def __init__(self, config: ConvolutionalConfig):
        super().__init__()
        width, depth, dropout = config.width, config.depth, config.dropout

        def positions() -> Sinusoidal | Learned:
            if config.positions == "learned":
                return Learned(width, config.longest)
            return Sinusoidal(width)

        self.source = Embedding(config.source_vocab, width, positions(), dropout)
        self.target = Embedding(config.target_vocab, width, positions(), dropout)
        self.encoder = ConvolutionStack(width, depth, config.kernel, dropout=dropout)
        self.decoder = ConvolutionStack(width, depth, config.kernel, causal=True, dropout=dropout)
        self.source_attention = nn.ModuleList(SourceAttention(width) for _ in range(depth))
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, config.target_vocab)

    def encode(self, source: Ids, lengths: Lengths | None) -> SourceMemory:
        """Keys say what is around a place, values also what stands there."""
        embedded = self.source(source)
        keys = self.encoder(embedded, lengths)
        values = HALF * (keys + embedded)
        return SourceMemory(KeyValue(keys[:, None], values[:, None], keys.shape[1]), lengths)

    def start(self, memory: SourceMemory) -> State:
        """Nothing is written yet."""
        return State(memory, Past(0, self.decoder.start(len(memory.places.keys))))

    def read(self, ids: Ids, state: State) -> tuple[Hidden, State]:
        """T more tokens after those in the state, all at once."""
        memory, past = state
        mask = Mask.lengths(memory.lengths)
        embedded = x = self.target(ids, start=past.steps)
        now = []
        layers: Any = zip(self.decoder.layers, self.source_attention, past.layers, strict=True)
        for convolution, attention, before in layers:
            x, after = convolution.step(x, before)
            x = attention(x, embedded, memory.places, mask)
            now.append(after)
        return x, State(memory, Past(past.steps + ids.shape[1], tuple(now)))

    def finish(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        """What is compared with the words."""
        return self.dropout(hidden)
