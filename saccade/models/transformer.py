r"""The Transformer: attention alone, in an encoder and a decoder (Vaswani et al. 2017).

Pre-norm by default (Xiong et al. 2020), with a last norm after each stack. The output projection
is the target's embedding (Press and Wolf 2017); with a shared vocabulary the source's too.

Choices: positions added to the embeddings (sinusoidal, learned), acting in every self-attention
(rotary, relative) or none; fewer key and value heads (`groups`); self-attention through a window;
any activation in the feed-forwards (relu in the paper).
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from pydantic import Field
from torch import nn

from saccade.config import Config
from saccade.models.base import EncoderDecoder
from saccade.nn.activations import Activation
from saccade.nn.attention_scores import make_score
from saccade.nn.embedding import Embedding
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import (
    AttentionPositions,
    LearnedPositions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
)
from saccade.nn.pruning import prune_heads
from saccade.nn.transformer import DecoderBlock, EncoderBlock
from saccade.types.shapes import DecoderState, Hidden, Lengths, TokenIds


class TransformerConfig(Config):
    """The encoder-decoder Transformer."""

    name: Literal["transformer"] = "transformer"
    source_vocab_size: int = 0  # from the data
    target_vocab_size: int = 0
    width: int = Field(128, ge=1)
    depth: int = Field(2, ge=1)
    heads: int = Field(4, ge=1)
    hidden: int | None = Field(None, ge=1)  # of the feed-forward; 4 · width if not said
    dropout: float = Field(0.1, ge=0, lt=1)
    norm_first: bool = True
    activation: Activation = "relu"  # of the feed-forward
    kv_heads: int | None = Field(None, ge=1)  # key and value heads; as many as heads if not said
    positions: Literal["sinusoidal", "learned", "rotary", "relative", "none"] = "sinusoidal"
    max_positions: int = Field(512, ge=1)  # places that learned positions have
    window: int | None = Field(None, ge=1)  # places seen to each side; behind, in the decoder
    score: Literal["scaled_dot", "dot", "additive", "general", "concat", "cosine", "gaussian"] = (
        "scaled_dot"
    )
    shared_vocab: bool = False
    # heads taken out of an attention, by its name in the model, counted from 0 (`saccade prune`)
    pruned_heads: dict[str, list[int]] = {}


class TransformerMemory(NamedTuple):
    """Keys and values of the source, for each layer of the decoder."""

    layers: tuple[KVCache, ...]
    lengths: Lengths | None


def _added(config: TransformerConfig) -> SinusoidalPositions | LearnedPositions | None:
    """The positions that are added to the embeddings."""
    if config.positions == "sinusoidal":
        return SinusoidalPositions(config.width)
    return (
        LearnedPositions(config.width, config.max_positions)
        if config.positions == "learned"
        else None
    )


def _inside(config: TransformerConfig) -> AttentionPositions | None:
    """The positions that act in every self-attention, one for each."""
    if config.positions == "rotary":
        return RotaryPositions(config.width // config.heads)
    return RelativePositions(config.width, config.heads) if config.positions == "relative" else None


class Transformer(EncoderDecoder):
    """Stacks of blocks that see the source whole and the target up to now."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        width = config.width
        self.source = Embedding(config.source_vocab_size, width, _added(config), config.dropout)
        self.target = Embedding(config.target_vocab_size, width, _added(config), config.dropout)
        if config.shared_vocab:
            self.source.table = self.target.table
        head = width // config.heads
        sizes = (width, config.heads, config.hidden or 4 * width, config.dropout, config.norm_first)
        self.encoder = nn.ModuleList(
            EncoderBlock(
                *sizes,
                make_score(config.score, head),
                kv_heads=config.kv_heads,
                positions=_inside(config),
                activation=config.activation,
            )
            for _ in range(config.depth)
        )
        self.decoder = nn.ModuleList(
            DecoderBlock(
                *sizes,
                make_score(config.score, head),
                make_score(config.score, head),
                kv_heads=config.kv_heads,
                positions=_inside(config),
                window=config.window,
                activation=config.activation,
            )
            for _ in range(config.depth)
        )
        self.window, self.norm_first = config.window, config.norm_first
        # post-norm blocks end in a norm of their own
        self.encoder_norm = nn.LayerNorm(width) if config.norm_first else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if config.norm_first else nn.Identity()
        prune_heads(self, config.pruned_heads)

    def encode(self, source: TokenIds, lengths: Lengths | None) -> TransformerMemory:
        """Read the source once, and leave the keys and values that the decoder will ask for."""
        x = self.source(source)
        mask = Mask.lengths(lengths)
        if self.window is not None:
            mask = mask & Mask.window(self.window)
        for block in self.encoder:
            x = block(x, mask)
        x = self.encoder_norm(x)
        decoder: Iterable[Any] = self.decoder
        layers = tuple(block.source_attention.project_kv(x) for block in decoder)
        return TransformerMemory(layers, lengths)

    def init_state(self, memory: TransformerMemory) -> DecoderState:
        """Nothing is written yet."""
        return DecoderState(memory, (None,) * len(self.decoder))

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """T more tokens after those in the state, all at once."""
        memory, cache = state
        mask = Mask.lengths(memory.lengths)
        x = self.target(ids, start=0 if cache[0] is None else cache[0].length)
        now = []
        for block, before, source in zip(self.decoder, cache, memory.layers, strict=True):
            x, after = block(x, before, source, mask)
            now.append(after)
        return self.decoder_norm(x), DecoderState(memory, tuple(now))

    @property
    def output_layer(self) -> OutputLayer:
        """The target's embeddings: logits are by likeness to them."""
        return OutputLayer(self.target.table.weight)
