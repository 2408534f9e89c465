"""Training objective of sentence vectors: InfoNCE of SimCSE."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from saccade.data.samplers import bucketed_batches
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.models.registry import SENTENCE_MODELS
from saccade.nn.contrastive import PairedLoss
from saccade.nn.noise_contrast import sentence_contrast
from saccade.tasks.embedding.config import EmbeddingRecipe, EmbeddingTrainConfig
from saccade.tasks.embedding.data import SentenceSplit
from saccade.tasks.embedding.scorer import SPECIAL, pad_sentences
from saccade.tasks.neural import StatelessObjective, build_network, device_of
from saccade.training.objective import Loss
from saccade.types.arrays import IntArray
from saccade.types.shapes import Lengths, TokenIds


def build_encoder(recipe: EmbeddingRecipe, tokenizer: WordPieceTokenizer) -> Any:
    """Build the encoder of a recipe."""
    model_class: type[Any] = SENTENCE_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


def copy_encoder_weights(model: Any, other: Any) -> None:
    """Copy the encoder of a pretrained BERT; its heads and its pooler are left out."""
    own = model.encoder.state_dict()
    theirs = other.encoder.state_dict()
    model.encoder.load_state_dict({name: theirs[name] for name in own})


class Padded(NamedTuple):
    """Padded ids and lengths; None: no row is padded."""

    ids: TokenIds
    lengths: Lengths | None


class SentenceBatch(NamedTuple):
    """Sentences, and their positives and negatives where the data has them."""

    text: Padded
    positive: Padded | None
    negative: Padded | None

    @property
    def tokens(self) -> int:
        """Number of loss terms: the sentences."""
        return len(self.text.ids)


def make_batch(split: SentenceSplit, rows: IntArray, max_length: int) -> SentenceBatch:
    """Return some rows of a split as tensors."""
    roles = ("text", "positive", "negative") if split.is_supervised else ("text",)
    given = {
        role: Padded(*pad_sentences(split.ids[role], rows, max_length))
        for role in roles
        if role in split.ids
    }
    return SentenceBatch(given["text"], given.get("positive"), given.get("negative"))


def contrast_batch(model: Any, batch: SentenceBatch, settings: EmbeddingTrainConfig) -> PairedLoss:
    """Return the loss of each sentence.

    Without positives, each sentence is encoded twice, with different dropout masks.
    """
    device = device_of(model)

    def encode(part: Padded) -> Any:
        lengths = None if part.lengths is None else part.lengths.to(device)
        return model(part.ids.to(device), lengths)

    if batch.positive is None:
        lengths = batch.text.lengths
        twice = Padded(batch.text.ids.repeat(2, 1), None if lengths is None else lengths.repeat(2))
        anchors, positives = encode(twice).chunk(2)
    else:
        anchors, positives = encode(batch.text), encode(batch.positive)
    negatives = None if batch.negative is None else encode(batch.negative)
    return sentence_contrast(
        anchors,
        positives,
        negatives,
        temperature=settings.temperature,
        negative_weight=settings.negative_weight,
    )


class SentenceObjective(StatelessObjective[SentenceBatch]):
    """InfoNCE of each sentence of a batch with its positive, or with itself."""

    unit = "sentences"

    def __init__(
        self,
        recipe: EmbeddingRecipe,
        model: Any,
        tokenizer: WordPieceTokenizer,
        splits: Mapping[str, SentenceSplit],
    ):
        super().__init__(recipe, model)
        self.train_settings: EmbeddingTrainConfig = recipe.train
        self.splits = splits
        self.max_length = int(recipe.model.model_dump()["max_length"])
        ids = splits["train"].ids
        self.lengths = np.minimum(sum(each.lengths + SPECIAL for each in ids.values()), 1 << 30)
        self.batch_rows = compared_batch_size(len(self.lengths), self.train_settings.batch_tokens)

    def batches(self, split: str, start: int = 0) -> Iterator[SentenceBatch]:
        """Yield batches of sentences of similar length without end."""
        sentences = self.splits[split]
        for rows in bucketed_batches(self.lengths, self.batch_rows, self.settings.seed, start):
            yield make_batch(sentences, rows, self.max_length)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every sentence once."""
        return -(-len(self.lengths) // self.batch_rows)

    def loss(self, batch: SentenceBatch) -> Loss:
        """Return the summed loss, and how many sentences are most similar to their positive."""
        found = contrast_batch(self.model, batch, self.train_settings)
        return Loss(found.each.sum(), found.correct)


def compared_batch_size(count: int, limit: int) -> int:
    """Return a batch size of at most `limit`, so that all batches have nearly as many rows."""
    return -(-count // -(-count // limit))
