"""Tags and their probabilities of sentences, in batches of similar length."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from saccade.models.bert_tagger import PieceInputs
from saccade.models.taggers import Tagger, WordInputs
from saccade.tasks.neural import device_of
from saccade.tasks.tagging.config import TagRecipe
from saccade.tasks.tagging.objective import tagger_inputs
from saccade.tasks.tagging.sentences import AnyTable, TagVocabulary, make_encoder
from saccade.types.arrays import FloatArray, IntArray

SCORE_SENTENCES = 64  # of a batch


class TaggedTokens(NamedTuple):
    """The tags of a sentence and the probability of each."""

    tags: tuple[str, ...]
    probabilities: FloatArray


class TagScorer:
    """Tags of tokenized sentences by a model. Keeps no state between calls."""

    def __init__(self, recipe: TagRecipe, model: Tagger, vocabulary: TagVocabulary):
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.encoder = make_encoder(recipe, vocabulary)

    def with_model(self, model: Tagger) -> "TagScorer":
        """Return the scorer of another model with the same settings."""
        return type(self)(self.recipe, model, self.vocabulary)

    def encode(self, sentences: Sequence[Sequence[str]]) -> AnyTable:
        """Return the table of sentences, each of one token or more."""
        return self.encoder.encode(sentences)

    def inputs(self, table: AnyTable, rows: IntArray) -> WordInputs | PieceInputs:
        """Return some sentences as tensors on the device of the model."""
        return tagger_inputs(table, rows).to(device_of(self.model))

    def emissions(self, table: AnyTable) -> Iterator[tuple[IntArray, Any, Tensor]]:
        """Yield batches of similar length: their rows, inputs and emissions."""
        was_training = self.model.training
        self.model.eval()
        order = np.argsort(np.diff(table.rows.starts), kind="stable")
        for first in range(0, len(order), SCORE_SENTENCES):
            rows = order[first : first + SCORE_SENTENCES]
            inputs = self.inputs(table, rows)
            with torch.no_grad():
                emissions = self.model(inputs).float()
            yield rows, inputs, emissions
        self.model.train(was_training)

    def predict(self, table: AnyTable) -> list[TaggedTokens]:
        """Return the most probable tags of each sentence."""
        names = self.vocabulary.tags
        found: dict[int, TaggedTokens] = {}
        for rows, inputs, emissions in self.emissions(table):
            ids = self.model.decode(emissions, inputs.lengths)
            probabilities = self.model.probabilities(emissions, inputs.lengths)
            chosen = probabilities.gather(2, ids[..., None])[..., 0].double().cpu().numpy()
            for row, some, p, n in zip(
                rows.tolist(), ids.tolist(), chosen, inputs.lengths.tolist(), strict=True
            ):
                found[row] = TaggedTokens(tuple(names[tag] for tag in some[:n]), p[:n].clip(0, 1))
        return [found[row] for row in range(len(found))]
