r"""Networks that classify a text: ids (B, T) and their lengths in, a logit for each label out.

    cnn           c_k = max over t of relu(W_k x_{t : t+k} + b_k) for each kernel size k, then
                  logits = W [c_3; c_4; c_5] + b                                   (Kim 2014)
    bilstm        h_t = [forward LSTM; backward LSTM],  α = softmax(wᵀ tanh(W_k h_t + b)),
                  logits = W Σ_t α_t h_t + b          (Zhou et al. 2016; Yang et al. 2016)
    set           h_t = x_t + attend(x_t; keys x, values x),  c = attend(u; keys x, values h),
                  logits = W c + b        (as in Set Transformers, Lee et al. 2019, one head each)
    transformer   encoder of Vaswani et al. 2017, logits = W mean_t(h_t) + b

Padding has id 0 and is at the end of a row; it never changes a result. The pooled vector of a text
without a known word is zeros, so that its logits are the bias alone.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.config import (
    BiLSTMConfig,
    SetClassifierConfig,
    TextClassifierConfig,
    TextCNNConfig,
    TextTransformerConfig,
)
from saccade.nn.attention_scores import AdditiveScore, make_score
from saccade.nn.conv1d import Convolution
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.feedforward import FeedForward
from saccade.nn.functional import Attention
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import SinusoidalPositions
from saccade.nn.rnn import RNN
from saccade.nn.transformer import AttentionLayer, EncoderBlock, MultiHeadAttention
from saccade.types.shapes import Hidden, Lengths, TokenIds


class TextNetwork(nn.Module):
    """Base of the classifiers: embed the ids, encode, pool, project to logits.

    `calibration` is the temperature of its probabilities and the threshold of several labels, which
    are fitted after training; the logits do not depend on it.
    """

    embedding: nn.Module
    output: nn.Linear
    calibration: Tensor
    pooling_attentions: ClassVar[tuple[str, ...]] = ()  # names of those with one query for a text

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calibration", torch.tensor([1.0, 0.5]))

    @property
    def num_labels(self) -> int:
        """Number of labels."""
        return self.output.out_features

    @property
    def word_vectors(self) -> Float[Tensor, "N D"]:
        """The vector of each id, without its position."""
        embedding: Any = self.embedding
        if isinstance(embedding, TokenEmbedding):
            return embedding.table.weight * math.sqrt(embedding.table.embedding_dim)
        table: Tensor = embedding.weight
        return table

    def forward(self, ids: TokenIds, lengths: Lengths | None = None) -> Float[Tensor, "B V"]:
        """Return the logits of each text; `lengths` is None if no row is padded."""
        return self.classify(self.embed(ids), lengths)

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the vectors that `classify` reads."""
        return self.embedding(ids)

    def classify(self, x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B V"]:
        """Return the logits of embedded texts, for attributions to the words."""
        raise NotImplementedError


class TextCNN(TextNetwork):
    """Convolution filters of several sizes, each reduced to its maximum over the text.

    Unlike Kim's, windows may reach over either end of the text, where the inputs are zeros, so that
    a text may be shorter than a kernel.
    """

    def __init__(self, config: TextCNNConfig):
        super().__init__()
        self.embedding = _word_vectors(config)
        self.convolutions = nn.ModuleList(
            Convolution(config.width, config.filters, size) for size in config.kernels
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(len(config.kernels) * config.filters, config.outputs)

    def classify(self, x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B V"]:
        """Return the logits of embedded texts."""
        is_word = mask_words(x, lengths)
        x = self.dropout(x)
        # relu is not negative, so that zeros at the padding never are the maximum
        pooled = [
            (convolution(x, lengths).relu() * is_word).amax(1) for convolution in self.convolutions
        ]
        return self.output(self.dropout(torch.cat(pooled, dim=1)))


class BiLSTMClassifier(TextNetwork):
    """Bidirectional LSTM whose outputs are pooled by an additive attention with one query."""

    pooling_attentions = ("attention",)

    def __init__(self, config: BiLSTMConfig):
        super().__init__()
        self.embedding = _word_vectors(config)
        self.encoder = RNN(
            "lstm", config.width, config.hidden, config.depth, True, dropout=config.dropout
        )
        # with the query 1, the score's W_q is the bias b of wᵀ tanh(W_k h_t + b)
        self.attention = Attention(AdditiveScore(1, 2 * config.hidden, config.hidden))
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(2 * config.hidden, config.outputs)

    def classify(self, x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B V"]:
        """Return the logits of embedded texts."""
        # an LSTM reads at least one position
        read_lengths = None if lengths is None else lengths.clamp(min=1)
        encoded = self.encoder(self.dropout(x), read_lengths).outputs[:, None]  # (B, 1, T, D)
        keys = self.attention.score.prepare(encoded)
        query = x.new_ones(len(x), 1, 1, 1)
        pooled = self.attention(query, keys, encoded, Mask.lengths(lengths))[:, 0, 0]
        return self.output(self.dropout(pooled))


class SetClassifier(TextNetwork):
    r"""A classifier of a text as a set of words: no order of them changes its logits.

        h_t = x_t + Σ_s softmax_s((W_q x_t)ᵀ W_k x_s / √D) W_v x_s      permutation equivariant
        c   = Σ_t softmax_t(qᵀ U_k x_t / √D) U_v h_t                    permutation invariant

    Both are `AttentionLayer`s, without positions. The second has a learned query, keys from the
    words themselves and values from the words in their context: how much a word counts depends on
    the word, its contribution on the others as well.
    """

    pooling_attentions = ("pool.attention",)

    def __init__(self, config: SetClassifierConfig):
        super().__init__()
        width = config.width
        self.embedding = _word_vectors(config)
        self.context = AttentionLayer(width, width, width, make_score(config.score, width))
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.pool = AttentionLayer(width, width, width, make_score(config.score, width))
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, config.outputs)

    def classify(self, x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B V"]:
        """Return the logits of embedded texts."""
        mask, x = Mask.lengths(lengths), self.dropout(x)
        hidden = x + self.context(x, mask=mask)
        query = self.query.expand(len(x), 1, -1)
        pooled = self.pool(query, x, mask, values=hidden)[:, 0]
        return self.output(self.dropout(pooled))


class TextTransformer(TextNetwork):
    """Pre-norm Transformer encoder, pooled by the mean over the words."""

    def __init__(self, config: TextTransformerConfig):
        super().__init__()
        positions = SinusoidalPositions(config.width)
        self.embedding = TokenEmbedding(
            config.vocab_size, config.width, positions, dropout=config.dropout
        )
        self.blocks = nn.ModuleList(
            EncoderBlock(
                MultiHeadAttention(config.width, config.heads),
                FeedForward(config.width, config.hidden),
                config.dropout,
            )
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, config.outputs)

    def classify(self, x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B V"]:
        """Return the logits of embedded texts."""
        is_word = mask_words(x, lengths)
        mask = Mask.lengths(lengths)
        blocks: Iterable[nn.Module] = self.blocks
        for block in blocks:
            x = block(x, mask)
        total = (self.norm(x) * is_word).sum(1)
        return self.output(self.dropout(total / is_word.sum(1).clamp(min=1)))


def _word_vectors(config: TextClassifierConfig) -> nn.Embedding:
    """Return word vectors, uniform in ±0.25; those of padding are zero and get no gradient."""
    table = nn.Embedding(config.vocab_size, config.width, padding_idx=0)
    nn.init.uniform_(table.weight, -0.25, 0.25)  # Kim 2014, section 3.1
    with torch.no_grad():
        table.weight[0] = 0
    return table


def mask_words(x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B T 1"]:
    """Return 1 at the words of each row and 0 at its padding."""
    if lengths is None:
        return torch.ones_like(x[..., :1])
    positions = torch.arange(x.shape[1], device=x.device)
    return (positions < lengths[:, None])[..., None].to(x.dtype)
