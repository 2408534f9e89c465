r"""BERT with its two heads for pretraining: masked tokens and next sentences.

Devlin et al. 2019, section 3.1 and appendix A. With the encoder's h_t and pooled vector p,

    z_t    = LayerNorm(gelu(W h_t + b)),    logits_t = E z_t + b_V     masked language modelling
    logits = W_n p + b_n, class 0: next, class 1: not next             next-sentence prediction

with E the token embeddings (tied). In training only the targets need z_t, so `forward_targets`
computes the queries and the feed-forward network of the last layer, the head and the output
projection for them alone. The projection of all positions would cost as much as several layers.
"""

from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.base import TokenModel
from saccade.models.bert import BERT_INIT_STD, BertEncoder
from saccade.models.bert_config import BertConfig
from saccade.nn.activations import make_activation
from saccade.nn.kernels.linear_cross_entropy import OutputLayer
from saccade.nn.transformer import EncoderBlock
from saccade.types.shapes import Hidden, Lengths, Logits, TokenIds


class TargetHidden(NamedTuple):
    """Hidden vectors of the last layer, where they are needed."""

    targets: Float[Tensor, "N D"]
    first: Float[Tensor, "B 1 D"]  # of [CLS]


class BertPretraining(TokenModel):
    """A BERT encoder, the head for masked tokens and, with a pooler, that for next sentences.

    With `pretraining_heads=False` it is the encoder alone, as of an imported sentence encoder.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        width = config.width
        self.encoder = BertEncoder(config)
        self.has_heads: bool = config.pretraining_heads
        self.next_sentence: nn.Linear | None = None
        if not self.has_heads:
            return
        self.transform = nn.Linear(width, width)
        self.activation = make_activation(config.activation, config.activation_alpha)
        self.norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        if config.pooler:
            self.next_sentence = nn.Linear(width, 2)
        for linear in (self.transform, self.next_sentence):
            if linear is not None:
                nn.init.normal_(linear.weight, std=BERT_INIT_STD)
                nn.init.zeros_(linear.bias)

    @property
    def output_layer(self) -> OutputLayer:
        """The token embeddings (tied) and a bias."""
        return OutputLayer(self.encoder.table.weight, self.bias)

    def forward(
        self,
        ids: TokenIds,
        segments: Int[Tensor, "B T"] | None = None,
        lengths: Lengths | None = None,
    ) -> Logits | Hidden:
        """Return the logits of the token at each position; without heads the hidden vectors."""
        hidden = self.encoder(ids, segments, lengths)
        return self.compute_logits(hidden) if self.has_heads else hidden

    def forward_targets(
        self, ids: TokenIds, segments: Int[Tensor, "B T"] | None, positions: Int[Tensor, " N"]
    ) -> TargetHidden:
        """Return the hidden vectors of some positions of rows without padding, and of [CLS].

        Args:
            ids: token ids.
            segments: the segment of each position; None: all are in segment 0.
            positions: ascending indices into the flattened ids.
        """
        B, T = ids.shape
        x = self.encoder.embed(ids, segments)
        *blocks, last = cast("list[EncoderBlock]", list(self.encoder.blocks))
        for block in blocks:
            x = block(x)
        row = positions // T
        counts = torch.bincount(row, minlength=B)
        column = 1 + torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
        width = 1 + (int(counts.max()) if B else 0)
        chosen = torch.zeros(B, width, dtype=torch.long, device=row.device)  # column 0: [CLS]
        chosen[row, column] = positions % T
        queries = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[2]))
        y = last.around_attention.add(queries, last.self_attention(queries, x))
        y = last.around_feed_forward(y, last.feed_forward)
        return TargetHidden(y[row, column], y[:, :1])

    def pre_logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        """Return the inputs of the output projection for hidden vectors of the encoder."""
        if not self.has_heads:
            raise ValueError(
                "got a BERT without heads; expected pretraining_heads=True to predict tokens; try "
                "model.encoder, whose hidden vectors it has."
            )
        return self.norm(self.activation(self.transform(hidden)))

    def next_sentence_logits(self, hidden: Hidden) -> Float[Tensor, "B 2"]:
        """Return the logits of "b follows a" and "b does not follow a" of pairs."""
        if self.next_sentence is None:
            raise ValueError(
                "got a BERT without the head for next sentences; expected pooler=True and "
                "pretraining_heads=True."
            )
        return self.next_sentence(self.encoder.pool(hidden))
