r"""BERT with a linear layer on top: fine-tuning for the labels of texts and pairs of texts.

Devlin et al. 2019, section 4.1: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` is encoded, and

    logits = W c + b,    c = the pooled vector of [CLS], or with `pooling="mean"` the mean of h_t

A model of sentence vectors was trained with the mean, so its runs are fine-tuned with it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.data.wordpiece import SEP
from saccade.models.bert import BERT_INIT_STD, BertEncoder
from saccade.models.bert_config import BertClassifierConfig
from saccade.models.text_classifiers import TextNetwork, mask_words
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Hidden, Lengths, TokenIds


def segments_of(ids: TokenIds) -> Int[Tensor, "B T"]:
    """Return 0 up to the first [SEP] of each row, and 1 after it."""
    is_end = (ids == SEP).long()
    return ((is_end.cumsum(1) - is_end) > 0).long()


class BertClassifier(TextNetwork):
    """A BERT encoder and a linear layer on its pooled vector; segments follow from [SEP]."""

    def __init__(self, config: BertClassifierConfig):
        super().__init__()
        uses_pooler = config.pooler and config.pooling == "cls"
        self.encoder = BertEncoder(config.with_values(pooler=uses_pooler))
        self.pooling, self.has_segments = config.pooling, config.segments > 1
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, config.outputs)
        nn.init.normal_(self.output.weight, std=BERT_INIT_STD)
        nn.init.zeros_(self.output.bias)

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the inputs of the first layer: tokens, positions and segments."""
        return self.encoder.embed(ids, segments_of(ids) if self.has_segments else None)

    def classify(self, x: Hidden, lengths: Lengths | None) -> Float[Tensor, "B V"]:
        """Return the logits of embedded texts."""
        hidden = self.encoder.encode(x, lengths)
        is_word = mask_words(x, lengths)
        if self.pooling == "mean":
            pooled = (hidden * is_word).sum(1) / is_word.sum(1).clamp(min=1)
        else:
            has_pooler = self.encoder.pooler is not None
            pooled = self.encoder.pool(hidden) if has_pooler else hidden[:, 0]
            pooled = pooled * is_word[:, 0]
        return self.output(self.dropout(pooled))


def copy_bert_encoder(model: nn.Module, other: nn.Module) -> None:
    """Copy the encoder of another model into `model.encoder`, without a pooler that it lacks."""
    encoder, weights = model.encoder, other.encoder.state_dict()  # type: ignore[union-attr]
    assert isinstance(encoder, BertEncoder)
    own = encoder.state_dict()
    missing = own.keys() - weights.keys()
    assert not missing, missing
    with torch.no_grad():
        encoder.load_state_dict({name: weights[name] for name in own})
