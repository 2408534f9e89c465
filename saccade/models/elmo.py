r"""ELMo: language models in both directions that read words as characters.

Peters et al. 2018, section 3. With x_t the vector of word w_t from its bytes (`nn.character_cnn`)
and a stack of LSTM layers in each direction,

    →h_{t,j} = LSTM_j(→h_{t,j-1}, →h_{t-1,j}),   ←h_{t,j} = LSTM_j(←h_{t,j-1}, ←h_{t+1,j}),
    p(w_{t+1} | w_1 … w_t) = softmax(U →h_{t,L} + b),   p(w_{t-1} | w_t …) = softmax(U ←h_{t,L} + b)

and the layers of position t are [x_t; x_t] and [→h_{t,j}; ←h_{t,j}]. The directions share the word
vectors and the output layer (U, b). Unlike the paper's, layers have neither projections nor
residual connections, and all words of the output layer are summed over. A gap is filled by the sum
of the logits of both directions.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.bidirectional_lm import BidirectionalBase
from saccade.models.elmo_config import ELMO_KERNELS, ElmoConfig
from saccade.nn.character_cnn import CharacterCNN
from saccade.nn.dropout import Dropout
from saccade.nn.rnn import RNN, reverse_sequences
from saccade.types.shapes import Hidden, Lengths, TokenIds
from saccade.types.word_ids import MAX_SPELLED_BYTES


class ElmoParts(NamedTuple):
    """The word vectors and the stack of each direction."""

    characters: CharacterCNN
    forward_stack: RNN
    backward_stack: RNN


def elmo_parts(config: ElmoConfig) -> ElmoParts:
    """Return the parts of an ELMo without its output layer."""
    width = config.width
    filters = [config.filters] * len(ELMO_KERNELS)
    characters = CharacterCNN(config.byte_width, ELMO_KERNELS, filters, config.highway, width)
    stacks = (RNN("lstm", width, width, config.depth, dropout=config.dropout) for _ in range(2))
    return ElmoParts(characters, *stacks)


class ElmoLayers(nn.Module):
    """The layers of an ELMo without its output layer, as the input of a tagger."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.characters, self.forward_stack, self.backward_stack = elmo_parts(config)

    def forward(self, x: Hidden, lengths: Lengths | None) -> list[Float[Tensor, "B T E"]]:
        """Return [x; x] and the states of both directions after each layer."""
        forward = self.forward_stack.layer_outputs(x, lengths)
        reversed_layers = self.backward_stack.layer_outputs(reverse_sequences(x, lengths), lengths)
        backward: Iterator[Tensor] = (reverse_sequences(h, lengths) for h in reversed_layers)
        pairs = zip(forward, backward, strict=True)
        return [torch.cat([x, x], dim=-1), *(torch.cat(pair, dim=-1) for pair in pairs)]


class Elmo(BidirectionalBase):
    """A forward and a backward language model with the word vectors and the output in common."""

    spelling: Tensor

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.characters, self.forward_stack, self.backward_stack = elmo_parts(config)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.width, config.vocab_size)
        empty = torch.zeros(config.vocab_size, MAX_SPELLED_BYTES + 2, dtype=torch.int64)
        self.register_buffer("spelling", empty)

    def spell(self, spelling: Int[Tensor, "V L"]) -> None:
        """Set the byte ids of each token of the vocabulary."""
        self.spelling.zero_()[:, : spelling.shape[1]] = spelling

    def embed(self, ids: TokenIds) -> Hidden:
        """Return the vectors of the words, each different one computed once."""
        used, index = ids.unique(return_inverse=True)
        spelling = self.spelling[used]
        if not torch.compiler.is_exporting():  # whose shapes cannot depend on values
            spelling = spelling[:, : max(1, int((spelling > 0).sum(1).max()))]
        return self.dropout(self.characters(spelling)[index])

    def joined(self, before: Hidden, after: Hidden) -> Hidden:
        """Return the sum of both directions, whose logits are the sum of theirs."""
        return before + after

    def predictors(self, ids: TokenIds, lengths: Lengths | None) -> tuple[Hidden, ...]:
        """Return the hidden vectors of each direction: each predicts the token by itself."""
        before, after = self.directions(ids, lengths)
        return self.dropout(before), self.dropout(after)
