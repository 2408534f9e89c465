r"""Convolutional language model: h_t from the last R tokens, R the stack's receptive field.

Gated causal convolutions (Dauphin et al. 2017), dilated as in van den Oord et al. 2016, with tied
embeddings: logits_t = h_t Eᵀ + b.
"""

from saccade.models.config import ConvLMConfig
from saccade.models.tied_embedding_lm import LMCache, TiedEmbeddingLM
from saccade.nn.conv1d import ConvolutionStack, ConvState
from saccade.types.shapes import Hidden


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
