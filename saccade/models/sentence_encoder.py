r"""Encoders of sentences: ids (B, T) and their lengths in, a vector (B, D) for each out.

    words             1/n Σ_t e_t over the n pieces of words, without [CLS] and [SEP]
    bert, cls         h_0, the vector of [CLS] in the last layer
    bert, mean        1/n Σ_t h_t over all n tokens, [CLS] and [SEP] included
    bert, first_last_mean    1/2n Σ_t (h_t of the first layer + h_t of the last)

(Reimers and Gurevych 2019; Gao, Yao and Chen 2021.) Vectors are compared by their cosine. Padding
is at the end of a row and never changes a result.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.bert import BertEncoder
from saccade.models.sentence_config import SentenceBertConfig, WordMeanConfig
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Hidden, Lengths, TokenIds

SentenceVectors = Float[Tensor, "B D"]


class WordMean(nn.Module):
    """The mean of the vectors of the pieces of words."""

    def __init__(self, config: WordMeanConfig):
        super().__init__()
        self.table = nn.Embedding(config.vocab_size, config.width)
        self.dropout = Dropout(config.dropout)

    @property
    def token_vectors(self) -> Float[Tensor, "V D"]:
        """The vector of each token, without its context."""
        return self.table.weight

    def hidden(self, ids: TokenIds, lengths: Lengths | None = None) -> Hidden:
        """Return the vector of each token."""
        return self.dropout(self.table(ids))

    def forward(self, ids: TokenIds, lengths: Lengths | None = None) -> SentenceVectors:
        """Return the vector of each sentence; zeros for one without words.

        Args:
            ids: [CLS], the pieces, [SEP], and padding.
            lengths: number of tokens of each row; None if no row is padded.
        """
        last = ids.shape[1] if lengths is None else lengths[:, None]
        columns = torch.arange(ids.shape[1], device=ids.device)
        is_word = ((columns > 0) & (columns < last - 1)).expand(ids.shape)[..., None]
        total = (self.hidden(ids) * is_word).sum(1)
        return total / is_word.sum(1).clamp(min=1)


class SentenceBert(nn.Module):
    """A BERT encoder and a pooling over its positions."""

    def __init__(self, config: SentenceBertConfig):
        super().__init__()
        # the pooler was trained for next sentences
        self.encoder = BertEncoder(config.model_copy(update={"pooler": False}))
        self.pooling = config.pooling

    @property
    def token_vectors(self) -> Float[Tensor, "V D"]:
        """The vector of each token, without its context."""
        return self.encoder.table.weight

    def hidden(self, ids: TokenIds, lengths: Lengths | None = None) -> Hidden:
        """Return the vector of each token, in the last layer or as the pooling takes it."""
        if self.pooling != "first_last_mean":
            return self.encoder(ids, lengths=lengths)
        _, first, *rest = self.encoder.hidden_states(ids, lengths=lengths)
        return (first + rest[-1]) / 2 if rest else first

    def forward(self, ids: TokenIds, lengths: Lengths | None = None) -> SentenceVectors:
        """Return the vector of each sentence; `lengths` is None if no row is padded."""
        hidden = self.hidden(ids, lengths)
        return hidden[:, 0] if self.pooling == "cls" else mean_of_rows(hidden, lengths)


def mean_of_rows(hidden: Hidden, lengths: Lengths | None) -> SentenceVectors:
    """Return the mean over the positions of each row, without its padding."""
    if lengths is None:
        return hidden.mean(1)
    is_real = torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]
    return (hidden * is_real[..., None]).sum(1) / lengths[:, None]
