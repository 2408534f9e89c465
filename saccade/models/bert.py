r"""BERT: a Transformer encoder whose positions attend to the left and to the right.

Devlin et al. 2019, section 3. Of the tokens w_t in the segments s_t,

    x_t⁰     = LayerNorm(E_{w_t} + P_t + S_{s_t})
    x^{l+1}  = post-norm block(x^l): self-attention over all real positions, feed-forward network
    h_t      = x_t^{depth},    pooled = tanh(W h_0 + b)

A text is `[CLS] a [SEP]` in segment 0, a pair `[CLS] a [SEP] b [SEP]` with b in segment 1. RoBERTa
(Liu et al. 2019) is the same network with one segment.

Differs from the paper in having no dropout on the attention weights unless `attention_dropout` is
set (see `nn.Attention`). Padding is at the end of a row and never changes a result.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.bert_config import BertConfig
from saccade.nn.dropout import Dropout
from saccade.nn.feedforward import FeedForward
from saccade.nn.masks import Mask
from saccade.nn.positional_encoding import LearnedPositions
from saccade.nn.transformer import EncoderBlock, MultiHeadAttention
from saccade.types.shapes import Hidden, Lengths, TokenIds

BERT_INIT_STD = 0.02  # standard deviation of the initial weights


class BertEncoder(nn.Module):
    """Token, position and segment embeddings, and post-norm Transformer layers.

        hidden = encoder(ids, segments, lengths)        (B, T, D)
        pooled = encoder.pool(hidden)                   (B, D)
        layers = encoder.hidden_states(ids)             the embeddings, then each layer's output

    `embed` and `encode` are the two halves of `forward`, for attributions to the embeddings.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        width = config.width
        self.max_length = config.max_length
        self.table = nn.Embedding(config.vocab_size, width)
        self.positions = LearnedPositions(width, config.max_length)
        self.segments = nn.Embedding(config.segments, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            EncoderBlock(
                MultiHeadAttention(width, config.heads, dropout=config.attention_dropout),
                FeedForward(
                    width, config.hidden or 4 * width, config.activation, config.activation_alpha
                ),
                config.dropout,
                norm_first=False,
            )
            for _ in range(config.depth)
        )
        self.pooler = nn.Linear(width, width) if config.pooler else None
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=BERT_INIT_STD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm):
                module.eps = config.norm_eps

    def forward(
        self,
        ids: TokenIds,
        segments: Int[Tensor, "B T"] | None = None,
        lengths: Lengths | None = None,
    ) -> Hidden:
        """Return the hidden vector of each position.

        Args:
            ids: token ids, padded at the end of each row.
            segments: the segment of each position; None: all are in segment 0.
            lengths: number of tokens of each row; None if no row is padded.
        """
        return self.encode(self.embed(ids, segments), lengths)

    def embed(self, ids: TokenIds, segments: Int[Tensor, "B T"] | None = None) -> Hidden:
        """Return the inputs of the first layer: normalised sums of the three embeddings."""
        return self.embed_vectors(self.table(ids), segments)

    def embed_vectors(self, vectors: Hidden, segments: Int[Tensor, "B T"] | None = None) -> Hidden:
        """Return the inputs of the first layer for given token vectors."""
        if segments is None:
            of_segments = self.segments.weight[0]
        else:
            of_segments = self.segments(segments)
        x = vectors + self.positions(0, vectors.shape[1]) + of_segments
        return self.dropout(self.norm(x))

    def encode(self, x: Hidden, lengths: Lengths | None = None) -> Hidden:
        """Return the output of the last layer for embedded tokens."""
        mask = Mask.lengths(lengths)
        blocks: Iterable[nn.Module] = self.blocks
        for block in blocks:
            x = block(x, mask)
        return x

    def hidden_states(
        self,
        ids: TokenIds,
        segments: Int[Tensor, "B T"] | None = None,
        lengths: Lengths | None = None,
    ) -> list[Hidden]:
        """Return the embeddings and the output of each layer, depth + 1 tensors."""
        mask = Mask.lengths(lengths)
        states = [self.embed(ids, segments)]
        blocks: Iterable[nn.Module] = self.blocks
        for block in blocks:
            states.append(block(states[-1], mask))
        return states

    def pool(self, hidden: Hidden) -> Float[Tensor, "B D"]:
        """Return tanh(W h_0 + b) of the vector of [CLS]."""
        if self.pooler is None:
            raise ValueError(
                "got a BERT without a pooler; expected pooler=True; try hidden[:, 0], the vector "
                "of [CLS] itself."
            )
        return torch.tanh(self.pooler(hidden[:, 0]))
