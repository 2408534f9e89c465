r"""Networks that tag tokens: words and their bytes in, scores of the tags of each token out.

    x_t           [E w_t; CharacterCNN(bytes of w_t)]                             (B, T, D)
    bilstm_tagger h_t = [forward LSTM; backward LSTM]               (Lample et al. 2016)
    cnn_tagger    h ← h + relu(W * h) with dilation 1, 2, 4, …         (Strubell et al. 2017)
    emissions     e_t = W h_t + b

A CRF over the emissions gives the tags their probability (`nn.crf`), or each tag has its own
softmax. Padding is at the end of a row and never changes a result. The vectors of the characters
are computed once for each different word of a batch.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.tagging_config import (
    BiLSTMTaggerConfig,
    CNNTaggerConfig,
    TaggerConfig,
    WordTaggerConfig,
)
from saccade.nn.character_cnn import CharacterCNN
from saccade.nn.conv1d import Convolution
from saccade.nn.crf import LinearChainCRF
from saccade.nn.dropout import Dropout
from saccade.nn.losses import cross_entropy
from saccade.nn.rnn import RNN
from saccade.seeding import thread_generator
from saccade.types.shapes import Hidden, Lengths, Logits, TokenIds
from saccade.types.word_ids import UNKNOWN_WORD

CHARACTER_KERNEL = 3  # bytes


class WordInputs(NamedTuple):
    """Padded word ids, and the spelling of the different words of a batch."""

    words: TokenIds
    forms: TokenIds  # rows of `spelling`
    spelling: Int[Tensor, "N L"]  # byte ids
    lengths: Lengths

    def padded(self, extra: int) -> "WordInputs":
        """Return the same sentences and words with more padding, for checks."""
        first = (table[:, :1].expand(-1, extra) for table in (self.words, self.forms))
        words, forms = (
            torch.cat(pair, dim=1) for pair in zip((self.words, self.forms), first, strict=True)
        )
        return self._replace(words=words, forms=forms, spelling=F.pad(self.spelling, (0, extra)))

    def words_of_positions(self) -> list[int]:
        """Return the word of each position of a single sentence; −1: none."""
        return list(range(self.words.shape[1]))

    def to(self, device: torch.device) -> "WordInputs":
        """Return the tensors on a device."""
        return WordInputs(*(tensor.to(device) for tensor in self))


class Tagger(nn.Module):
    """Base of the taggers: `encode` the tokens, then `emissions` and a CRF or a softmax.

    Without lengths no row is padded.
    """

    output: nn.Linear
    crf: LinearChainCRF | None

    def __init__(self, config: TaggerConfig):
        super().__init__()
        self.crf = LinearChainCRF(config.outputs) if config.output == "crf" else None

    def embed(self, inputs: Any) -> Hidden:
        """Return the vectors that `encode` reads, for attributions to the tokens."""
        raise NotImplementedError

    def encode(self, x: Hidden, inputs: Any) -> Float[Tensor, "B N E"]:
        """Return a hidden vector for each of N words from the embedded inputs."""
        raise NotImplementedError

    def emissions(self, x: Hidden, inputs: Any) -> Float[Tensor, "B N V"]:
        """Return the score of each tag of each word from the embedded inputs."""
        scores: Tensor = self.output(self.encode(x, inputs))
        return scores

    def forward(self, inputs: Any) -> Logits:
        """Return the score of each tag at each position."""
        return self.emissions(self.embed(inputs), inputs)

    def loss(self, inputs: Any, tags: TokenIds, label_smoothing: float = 0.0) -> Float[Tensor, ""]:
        """Return the summed -log p of the tags; smoothing holds without a CRF only."""
        emissions = self(inputs).float()
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions, tags, inputs.lengths).sum()
        is_token = torch.arange(tags.shape[1], device=tags.device) < inputs.lengths[:, None]
        smoothing = label_smoothing
        return cross_entropy(
            emissions[is_token], tags[is_token], label_smoothing=smoothing, reduction="sum"
        )

    def decode(self, emissions: Logits, lengths: Lengths) -> TokenIds:
        """Return the most probable tags of each row."""
        if self.crf is not None:
            return self.crf.decode(emissions, lengths).tags
        return emissions.argmax(-1)

    def probabilities(self, emissions: Logits, lengths: Lengths) -> Logits:
        """Return the probability of each tag at each position."""
        if self.crf is not None:
            return self.crf.marginals(emissions, lengths)
        return emissions.softmax(-1)


class WordTagger(Tagger):
    """Base of taggers that read word vectors and characters."""

    def __init__(self, config: WordTaggerConfig):
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.word_width, padding_idx=0)
        nn.init.normal_(self.words.weight, std=config.word_width**-0.5)
        with torch.no_grad():
            self.words.weight[0] = 0
        self.words.weight.requires_grad_(not config.frozen_vectors)
        self.characters = CharacterCNN(
            config.character_width, (CHARACTER_KERNEL,), (config.character_filters,)
        )
        self.width = config.word_width + config.character_filters
        self.word_dropout, self.dropout = config.word_dropout, Dropout(config.dropout)

    def embed(self, inputs: WordInputs) -> Hidden:
        """Return the vector of each word next to that of its characters."""
        words = self._drop_words(inputs.words)
        characters = self.characters(inputs.spelling)[inputs.forms]
        return torch.cat([self.words(words), characters], dim=-1)

    def _drop_words(self, words: TokenIds) -> TokenIds:
        """Replace some words by the unknown one while training, so that its vector is learned."""
        if not self.training or self.word_dropout == 0:
            return words
        draws = torch.empty(words.shape).uniform_(generator=thread_generator()).to(words.device)
        return words.masked_fill((draws < self.word_dropout) & (words > 0), UNKNOWN_WORD)


class BiLSTMTagger(WordTagger):
    """Bidirectional LSTM over the words."""

    def __init__(self, config: BiLSTMTaggerConfig):
        super().__init__(config)
        self.encoder = RNN(
            "lstm", self.width, config.hidden, config.depth, True, dropout=config.dropout
        )
        self.output = nn.Linear(2 * config.hidden, config.outputs)

    def encode(self, x: Hidden, inputs: WordInputs) -> Float[Tensor, "B T E"]:
        """Return the states of both directions."""
        return self.dropout(self.encoder(self.dropout(x), inputs.lengths).outputs)


class CNNTagger(WordTagger):
    """Dilated convolutions with residual connections."""

    def __init__(self, config: CNNTaggerConfig):
        super().__init__(config)
        self.input = nn.Linear(self.width, config.hidden)
        self.layers = nn.ModuleList(
            Convolution(config.hidden, config.hidden, config.kernel_size, 2**layer)
            for layer in range(config.depth)
        )
        self.output = nn.Linear(config.hidden, config.outputs)

    def encode(self, x: Hidden, inputs: WordInputs) -> Float[Tensor, "B T E"]:
        """Return the output of the last layer."""
        h = self.input(self.dropout(x))
        layers: Iterable[nn.Module] = self.layers
        for layer in layers:
            h = h + layer(h, inputs.lengths).relu()
        return self.dropout(h)
