r"""A tagger over the frozen layers of an ELMo.

Peters et al. 2018, section 3.3: the vector of a word, from its table and its bytes, is next to

    γ Σ_j s_j h_{t,j},   s = softmax(w)

of the layers h_{t,j} of an ELMo, which stay as they are; w and γ are learned with the tagger.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.elmo import Elmo, ElmoLayers
from saccade.models.taggers import WordInputs, WordTagger
from saccade.models.tagging_config import ElmoTaggerConfig
from saccade.nn.layer_mix import LayerMix
from saccade.nn.rnn import RNN
from saccade.types.shapes import Hidden


class ElmoTagger(WordTagger):
    """Bidirectional LSTM over word vectors and a mixture of the layers of an ELMo."""

    def __init__(self, config: ElmoTaggerConfig):
        super().__init__(config)
        self.elmo = ElmoLayers(config)
        self.elmo.requires_grad_(not config.is_frozen)
        self.is_frozen = config.is_frozen
        self.mix = LayerMix(config.depth + 1)
        width = self.width + 2 * config.width
        self.encoder = RNN("lstm", width, config.hidden, 1, True)
        self.output = nn.Linear(2 * config.hidden, config.outputs)

    def train(self, mode: bool = True) -> "ElmoTagger":
        """Set the mode; frozen layers have no dropout."""
        super().train(mode)
        if self.is_frozen:
            self.elmo.eval()
        return self

    def layers_of(self, inputs: WordInputs) -> list[Hidden]:
        """Return the layers of the ELMo for each word."""
        words = self.elmo.characters(inputs.spelling)[inputs.forms]
        found: list[Tensor] = self.elmo(words, inputs.lengths)
        return found

    def embed(self, inputs: WordInputs) -> Hidden:
        """Return the vectors of each word next to the mixture of the layers."""
        return torch.cat([super().embed(inputs), self.mix(self.layers_of(inputs))], dim=-1)

    def encode(self, x: Hidden, inputs: WordInputs) -> Float[Tensor, "B T E"]:
        """Return the states of both directions."""
        return self.dropout(self.encoder(self.dropout(x), inputs.lengths).outputs)


def copy_elmo(model: ElmoTagger, other: Elmo) -> None:
    """Copy the layers of a pretrained ELMo."""
    weights, own = other.state_dict(), model.elmo.state_dict()
    model.elmo.load_state_dict({name: weights[name] for name in own})
