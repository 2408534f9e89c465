r"""BERT as a tagger: the first piece of each word has the scores of its tags.

Devlin et al. 2019, section 5.3: of `[CLS] pieces of all words [SEP]`, with f_w the position of the
first piece of word w,

    e_w = W h_{f_w} + b

Words beyond the positions of the encoder have the vector of [SEP].
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.bert import BERT_INIT_STD, BertEncoder
from saccade.models.taggers import Tagger
from saccade.models.tagging_config import BertTaggerConfig
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Hidden, Lengths, TokenIds


class PieceInputs(NamedTuple):
    """Padded ids of pieces, and the first piece of each word."""

    ids: TokenIds
    id_lengths: Lengths
    first: Int[Tensor, "B N"]  # position of the first piece of each word
    lengths: Lengths  # words

    def padded(self, extra: int) -> "PieceInputs":
        """Return the same sentences with more padding, for checks."""
        ids, first = (
            torch.cat([table, table[:, :1].expand(-1, extra)], dim=1)
            for table in (self.ids, self.first)
        )
        return self._replace(ids=ids, first=first)

    def words_of_positions(self) -> list[int]:
        """Return the word of each position of a single sentence; −1: special tokens."""
        positions = torch.arange(self.ids.shape[1])
        words = torch.searchsorted(self.first[0].cpu(), positions, right=True) - 1
        words[-1] = -1  # [SEP]
        return words.tolist()

    def to(self, device: torch.device) -> "PieceInputs":
        """Return the tensors on a device."""
        return PieceInputs(*(tensor.to(device) for tensor in self))


class BertTagger(Tagger):
    """A BERT encoder, and a linear layer on the first piece of each word."""

    def __init__(self, config: BertTaggerConfig):
        super().__init__(config)
        self.encoder = BertEncoder(config.with_values(pooler=False))
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, config.outputs)
        nn.init.normal_(self.output.weight, std=BERT_INIT_STD)
        nn.init.zeros_(self.output.bias)

    def embed(self, inputs: PieceInputs) -> Hidden:
        """Return the inputs of the first layer."""
        return self.encoder.embed(inputs.ids)

    def encode(self, x: Hidden, inputs: PieceInputs) -> Float[Tensor, "B N D"]:
        """Return the hidden vector of the first piece of each word."""
        return self.dropout(_first_pieces(self.encoder.encode(x, inputs.id_lengths), inputs))

    def layers_of(self, inputs: PieceInputs) -> list[Float[Tensor, "B N D"]]:
        """Return the embeddings and the output of each layer at the first piece of each word."""
        states = self.encoder.hidden_states(inputs.ids, lengths=inputs.id_lengths)
        return [_first_pieces(hidden, inputs) for hidden in states]


def _first_pieces(hidden: Hidden, inputs: PieceInputs) -> Float[Tensor, "B N D"]:
    index = inputs.first[..., None].expand(-1, -1, hidden.shape[-1])
    return hidden.gather(1, index)
