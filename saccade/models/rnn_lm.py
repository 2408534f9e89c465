r"""Recurrent language models: h_t = f(E x_{t-1}, h_{t-1}), logits_t = h_t Eᵀ + b.

Mikolov et al. 2010, with any of the cells of `nn.rnn` and tied embeddings (Press and Wolf 2017).
With one-hot input, h_t = f(x_{t-1}, h_{t-1}) and E only computes the logits. W x of a one-hot x is
a column of W, so this is an embedding as well: a model with embeddings has the same logits as a
one-hot model whose first layer has W E. The cost grows with the vocabulary, which suits characters.
"""

from jaxtyping import Float
from torch import Tensor

from saccade.models.config import RecurrentLMConfig
from saccade.models.tied_embedding_lm import LMCache, TiedEmbeddingLM
from saccade.nn.embedding import one_hot_inputs
from saccade.nn.rnn import RNN
from saccade.types.shapes import Hidden, TokenIds


class RecurrentLM(TiedEmbeddingLM):
    """A stack of recurrent layers between tied embeddings; the cache is the layers' states."""

    def __init__(self, config: RecurrentLMConfig):
        super().__init__(config.vocab_size, config.width, config.dropout, config.embedding_std)
        self.one_hot = config.input == "one_hot"
        inputs = config.vocab_size if self.one_hot else config.width
        self.layers = RNN(config.name, inputs, config.width, config.depth, dropout=config.dropout)
        state_width = 2 * config.width if config.name == "lstm" else config.width
        self.state_shape = (config.depth, state_width)

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the inputs of the first layer; one-hot vectors have no dropout."""
        return one_hot_inputs(ids, self.table.weight) if self.one_hot else super().embed(ids)

    def init_cache(self, rows: int) -> LMCache:
        """Return states of zeros."""
        return (self.table.weight.new_zeros(rows, *self.state_shape),)

    def hidden(
        self, x: Float[Tensor, "B T E"], cache: LMCache
    ) -> tuple[Float[Tensor, "B T D"], LMCache]:
        """Run the recurrent layers from the cached state."""
        read = self.layers(x, None, cache[0])
        return read.outputs, (read.last_state,)
