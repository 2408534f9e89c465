r"""Models of text: each token from those before it, p(x_t | x_1 … x_{t-1}).

    recurrent    h_t = f(x_{t-1}, h_{t-1})              all that was read is in the state
    convolution  h_t from the last R inputs alone       R = the stack's receptive field

Both end in logits h_t E^T, E the table of embeddings (tied, Press and Wolf 2017). A state is a
tuple of tensors, batch first, so that whoever carries it from one piece of text to the next needs
to know nothing of the model.
"""

from abc import ABC, abstractmethod
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from saccade.config import Config
from saccade.models.base import CausalLM
from saccade.nn.conv1d import ConvolutionStack, ConvState
from saccade.nn.dropout import Dropout
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.rnn import RNN
from saccade.types.shapes import Hidden, TokenIds

LMCache = tuple[Tensor, ...]


class RecurrentLMConfig(Config):
    """A language model with a recurrent state."""

    name: Literal["rnn", "gru", "gru_reset_first", "lstm"] = "gru"
    vocab_size: int = 0  # from the data
    width: int = Field(256, ge=1)
    depth: int = Field(1, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    embedding_std: float | None = Field(
        None, gt=0
    )  # size of an embedding's numbers; width^-½ if not said
    # how far back a gradient goes: to the segment's beginning, `window` steps, or a random number
    truncation: Literal["segment", "window", "random"] = "segment"
    window: int = Field(16, ge=1)
    keep_probability: float = Field(0.9, gt=0, le=1)  # chance that a gradient goes one step farther


class ConvLMConfig(Config):
    """A causal convolutional language model."""

    name: Literal["conv_lm"] = "conv_lm"
    vocab_size: int = 0
    width: int = Field(256, ge=1)
    depth: int = Field(4, ge=1)
    kernel_size: int = Field(3, ge=1)
    dilation_growth: int = Field(2, ge=1)  # of the dilation, from layer to layer
    dropout: float = Field(0.1, ge=0, lt=1)


class NGramConfig(Config):
    """Counting: the last `order` - 1 tokens tell the next (`fitted.ngram`)."""

    name: Literal["ngram"] = "ngram"
    vocab_size: int = 0
    order: int = Field(3, ge=1)
    smoothing: Literal["none", "laplace", "back-off", "kneser-ney"] = "kneser-ney"


class TiedEmbeddingLM(CausalLM, ABC):
    """Embedding in, logits by likeness to the embeddings out; what is between is the model."""

    def __init__(
        self, vocab_size: int, width: int, dropout: float, embedding_std: float | None = None
    ):
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        nn.init.normal_(self.table.weight, std=embedding_std or width**-0.5)
        # the table is small in each number, for the sake of the logits; what is read is of size 1
        self.embedding_scale = 1 / embedding_std if embedding_std else width**0.5
        self.dropout = Dropout(dropout)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    @abstractmethod
    def hidden(self, x: Hidden, cache: LMCache) -> tuple[Hidden, LMCache]:
        """Read some steps more, already embedded."""

    def forward_hidden(self, ids: TokenIds, cache: LMCache) -> tuple[Hidden, LMCache]:
        """Read T more tokens."""
        x = self.table(ids) * self.embedding_scale
        hidden, cache = self.hidden(self.dropout(x), cache)
        return self.dropout(hidden), cache

    @property
    def output_layer(self) -> OutputLayer:
        """The embeddings, and a bias for each."""
        return OutputLayer(self.table.weight, self.bias)


class RecurrentLM(TiedEmbeddingLM):
    r"""h_t = f(E x_{t-1}, h_{t-1}), layer upon layer (Mikolov et al. 2010 for the first)."""

    def __init__(self, config: RecurrentLMConfig):
        super().__init__(config.vocab_size, config.width, config.dropout, config.embedding_std)
        self.layers = RNN(
            config.name, config.width, config.width, config.depth, dropout=config.dropout
        )
        size = 2 * config.width if config.name == "lstm" else config.width
        self.shape = (config.depth, size)

    def init_cache(self, rows: int) -> LMCache:
        """Zeros."""
        return (self.table.weight.new_zeros(rows, *self.shape),)

    def hidden(self, x: Hidden, cache: LMCache) -> tuple[Hidden, LMCache]:
        """The stack from its state on."""
        read = self.layers(x, None, cache[0])
        return read.outputs, (read.last_state,)


class ConvLM(TiedEmbeddingLM):
    r"""Gated causal convolutions (Dauphin et al. 2017), dilated as in van den Oord et al. 2016.

    What is remembered are each layer's last inputs, so that text can be read in pieces.
    """

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
        """What a token sees."""
        return f"the {self.layers.receptive_field} before it"

    def init_cache(self, rows: int) -> LMCache:
        """Zeros, as many as each layer reaches back."""
        return tuple(recent.inputs for recent in self.layers.init_state(rows))

    def hidden(self, x: Hidden, cache: LMCache) -> tuple[Hidden, LMCache]:
        """The stack, with what it last saw before the first of these steps."""
        y, recents = self.layers.step(x, tuple(ConvState(inputs) for inputs in cache))
        return y, tuple(recent.inputs for recent in recents)
