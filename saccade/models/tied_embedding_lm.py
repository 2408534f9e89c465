"""Base class of language models whose output projection is the embedding table."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from saccade.models.base import CausalLM
from saccade.nn.dropout import Dropout
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.types.shapes import Hidden, TokenIds

LMCache = tuple[Tensor, ...]  # batch first


class TiedEmbeddingLM(CausalLM, ABC):
    """Embeddings, the layers of a subclass, logits h_t Eᵀ + b (Press and Wolf 2017)."""

    def __init__(
        self, vocab_size: int, width: int, dropout: float, embedding_std: float | None = None
    ):
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.table.weight, std=embedding_std or width**-0.5)
        # the table is small because it also computes the logits; inputs are scaled to variance 1
        self.embedding_scale = 1 / embedding_std if embedding_std else width**0.5
        self.dropout = Dropout(dropout)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    @abstractmethod
    def hidden(self, x: Hidden, cache: LMCache) -> tuple[Hidden, LMCache]:
        """Return the hidden vectors of embedded tokens, and the cache after them."""

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the inputs of the layers: embeddings of variance 1, with dropout."""
        return self.dropout(self.table(ids) * self.embedding_scale)

    def forward_hidden(self, ids: TokenIds, cache: LMCache) -> tuple[Hidden, LMCache]:
        """Return the hidden vectors of T more tokens, and the cache after them."""
        hidden, cache = self.hidden(self.embed(ids), cache)
        return self.dropout(hidden), cache

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings (tied) and a bias."""
        return OutputLayer(self.table.weight, self.bias)
