r"""Convolutional language model: h_t from the last R tokens, R the stack's receptive field.

Gated causal convolutions (Dauphin et al. 2017), dilated as in van den Oord et al. 2016, with tied
embeddings: logits_t = h_t Eᵀ + b.
"""

from typing import Literal

from pydantic import Field

from saccade.models.base import LanguageModelConfig
from saccade.models.tied_embedding_lm import LMCache, TiedEmbeddingLM
from saccade.nn.conv1d import ConvolutionStack, ConvState
from saccade.types.shapes import Hidden


class ConvLMConfig(LanguageModelConfig):
    """Settings of a causal convolutional language model."""

    name: Literal["conv_lm"] = "conv_lm"
    width: int = Field(256, ge=1)
    depth: int = Field(4, ge=1)
    kernel_size: int = Field(3, ge=1)
    dilation_growth: int = Field(2, ge=1)  # factor of the dilation from layer to layer
    dropout: float = Field(0.1, ge=0, lt=1)


class ConvLM(TiedEmbeddingLM):
    """A stack of causal convolutions between tied embeddings; the cache is their last inputs."""

    def __init__(self, config: ConvLMConfig):
        super().__init__(config.vocab_size, config.width, config.dropout)
        self.layers = ConvolutionStack(
            config.width,
            config.depth,
            config.kernel_size,
            causal=True,
            dropout=config.dropout,
            dilation_growth=config.dilation_growth,
        )

    @property
    def context_description(self) -> str:
        """The part of the preceding text that a prediction depends on, in words."""
        return f"the {self.layers.receptive_field} before it"

    def init_cache(self, rows: int) -> LMCache:
        """Return zeros as the past inputs of every layer."""
        return tuple(recent.inputs for recent in self.layers.init_state(rows))

    def hidden(self, x: Hidden, cache: LMCache) -> tuple[Hidden, LMCache]:
        """Run the convolutions after the cached inputs."""
        y, recents = self.layers.step(x, tuple(ConvState(inputs) for inputs in cache))
        return y, tuple(recent.inputs for recent in recents)
