r"""Recurrent language models: h_t = f(E x_{t-1}, h_{t-1}), logits_t = h_t Eᵀ + b.

Mikolov et al. 2010, with any of the cells of `nn.rnn` and tied embeddings (Press and Wolf 2017).
"""

from typing import Literal

from pydantic import Field

from saccade.models.base import LanguageModelConfig
from saccade.models.tied_embedding_lm import LMCache, TiedEmbeddingLM
from saccade.nn.rnn import RNN
from saccade.types.shapes import Hidden


class RecurrentLMConfig(LanguageModelConfig):
    """Settings of a recurrent language model; the name is that of its cell."""

    name: Literal["rnn", "gru", "gru_reset_first", "lstm"] = "gru"
    width: int = Field(256, ge=1)
    depth: int = Field(1, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    embedding_std: float | None = Field(None, gt=0)  # of the initial embeddings; None: width^-½
    # truncated backpropagation: at the start of a segment, every `window` steps, or at random
    truncation: Literal["segment", "window", "random"] = "segment"
    window: int = Field(16, ge=1)
    keep_probability: float = Field(0.9, gt=0, le=1)  # of a step, in random truncation


class RecurrentLM(TiedEmbeddingLM):
    """A stack of recurrent layers between tied embeddings; the cache is the layers' states."""

    def __init__(self, config: RecurrentLMConfig):
        super().__init__(config.vocab_size, config.width, config.dropout, config.embedding_std)
        self.layers = RNN(
            config.name, config.width, config.width, config.depth, dropout=config.dropout
        )
        state_width = 2 * config.width if config.name == "lstm" else config.width
        self.state_shape = (config.depth, state_width)

    def init_cache(self, rows: int) -> LMCache:
        """Return states of zeros."""
        return (self.table.weight.new_zeros(rows, *self.state_shape),)

    def hidden(self, x: Hidden, cache: LMCache) -> tuple[Hidden, LMCache]:
        """Run the recurrent layers from the cached state."""
        read = self.layers(x, None, cache[0])
        return read.outputs, (read.last_state,)
