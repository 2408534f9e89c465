r"""Recurrent language models: h_t = f(E x_{t-1}, h_{t-1}), logits_t = h_t Eᵀ + b.

Mikolov et al. 2010, with any of the cells of `nn.rnn` and tied embeddings (Press and Wolf 2017).
"""

from saccade.models.config import RecurrentLMConfig
from saccade.models.tied_embedding_lm import LMCache, TiedEmbeddingLM
from saccade.nn.rnn import RNN
from saccade.types.shapes import Hidden


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
