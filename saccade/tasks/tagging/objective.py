"""Training objective of tags: padded batches of sentences, -log p of their tags."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch

from saccade.data.samplers import bucketed_batches
from saccade.models.bert_tagger import PieceInputs
from saccade.models.taggers import Tagger, WordInputs
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.tasks.tagging.config import TagRecipe
from saccade.tasks.tagging.sentences import (
    AnyTable,
    FormTable,
    PieceTable,
    TaggedSplit,
    TagVocabulary,
)
from saccade.training.objective import Loss
from saccade.types.arrays import IntArray
from saccade.types.bags import Bags
from saccade.types.shapes import TokenIds


class TaggedBatch(NamedTuple):
    """Sentences of similar length with the tags of their tokens."""

    inputs: WordInputs | PieceInputs
    tags: TokenIds

    @property
    def tokens(self) -> int:
        """Number of loss terms: the tokens."""
        return int(self.inputs.lengths.sum())


def pad_bags(bags: Bags, rows: IntArray) -> IntArray:
    """Return some rows as one array, padded with 0."""
    starts = bags.starts[rows]
    lengths = bags.starts[rows + 1] - starts
    columns = np.arange(int(lengths.max(initial=1)))
    is_real = columns < lengths[:, None]
    padded = np.zeros(is_real.shape, np.int64)
    padded[is_real] = bags.rows[(starts[:, None] + columns)[is_real]]
    return padded


def word_inputs(table: FormTable, rows: IntArray) -> WordInputs:
    """Return some sentences as tensors, each different word spelt once."""
    forms = pad_bags(table.rows, rows)
    lengths = np.diff(table.rows.starts)[rows]
    is_token = np.arange(forms.shape[1]) < lengths[:, None]
    used, index = np.unique(forms, return_inverse=True)
    spelling = table.spelling[used]
    spelling = spelling[:, : int((spelling > 0).sum(1).max())]
    words = np.where(is_token, table.words[forms], 0)
    arrays = (words, index.reshape(forms.shape), spelling, lengths)
    return WordInputs(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))


def piece_inputs(table: PieceTable, rows: IntArray) -> PieceInputs:
    """Return some sentences as tensors."""
    lengths = (np.diff(bags.starts)[rows] for bags in (table.ids, table.rows))
    id_lengths, words = (torch.from_numpy(array) for array in lengths)
    ids, first = (torch.from_numpy(pad_bags(bags, rows)) for bags in (table.ids, table.rows))
    return PieceInputs(ids, id_lengths, first, words)


def tagger_inputs(table: AnyTable, rows: IntArray) -> WordInputs | PieceInputs:
    """Return some sentences as the tensors that the model of their table reads."""
    if isinstance(table, PieceTable):
        return piece_inputs(table, rows)
    return word_inputs(table, rows)


class TagObjective(StatelessObjective[TaggedBatch]):
    """Mean -log p of the tags, by token: of whole sequences with a CRF, else of each tag."""

    model: Tagger

    def __init__(
        self,
        recipe: TagRecipe,
        model: Tagger,
        vocabulary: TagVocabulary,
        splits: Mapping[str, TaggedSplit],
    ):
        super().__init__(recipe, model)
        self.splits = splits
        self.lengths = splits["train"].lengths
        mean = float(self.lengths.mean())
        self.batch_rows = max(1, int(self.settings.batch_tokens // mean))

    def batches(self, split: str, start: int = 0) -> Iterator[TaggedBatch]:
        """Yield batches of sentences of similar length without end."""
        some = self.splits[split]
        for rows in bucketed_batches(self.lengths, self.batch_rows, self.settings.seed, start):
            tags = torch.from_numpy(pad_bags(some.tags, rows))
            yield TaggedBatch(tagger_inputs(some.table, rows), tags)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every sentence once."""
        return -(-len(self.lengths) // self.batch_rows)

    def loss(self, batch: TaggedBatch) -> Loss:
        """Return the summed loss of a batch."""
        device = device_of(self.model)
        inputs, tags = batch.inputs.to(device), batch.tags.to(device)
        return Loss(self.model.loss(inputs, tags, self.settings.label_smoothing))
