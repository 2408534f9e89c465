"""Training objective of answers: windows of similar length, -log p of the first and last token."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from saccade.data.samplers import bucketed_batches
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.models.bert_answerer import BertAnswerer, WindowInputs
from saccade.tasks.answering.config import AnswerRecipe
from saccade.tasks.answering.data import QuestionSplit, batch_windows
from saccade.tasks.answering.windows import WindowTable
from saccade.tasks.neural import StatelessObjective, build_network, device_of
from saccade.tasks.tagging.objective import pad_bags
from saccade.training.objective import Loss
from saccade.types.arrays import IntArray


def build_answerer(recipe: AnswerRecipe, tokenizer: WordPieceTokenizer) -> BertAnswerer:
    """Build the network of a recipe."""
    return build_network(recipe, lambda: BertAnswerer(recipe.model))


class WindowBatch(NamedTuple):
    """Windows of similar length with the positions of their answers."""

    inputs: WindowInputs
    targets: Int[Tensor, "B 2"]

    @property
    def tokens(self) -> int:
        """Number of loss terms: the windows."""
        return len(self.targets)


def window_inputs(table: WindowTable, rows: IntArray) -> WindowInputs:
    """Return some windows as tensors."""
    lengths = np.diff(table.ids.starts)[rows]
    masks = (pad_bags(bags, rows).astype(bool) for bags in (table.may_start, table.may_end))
    arrays = (pad_bags(table.ids, rows), lengths, table.context[rows], *masks)
    return WindowInputs(*map(torch.from_numpy, arrays))


class AnswerObjective(StatelessObjective[WindowBatch]):
    """Mean -log p of the first and last token of the answer, or of [CLS] where there is none."""

    model: BertAnswerer

    def __init__(
        self,
        recipe: AnswerRecipe,
        model: BertAnswerer,
        tokenizer: WordPieceTokenizer,
        splits: Mapping[str, QuestionSplit],
    ):
        super().__init__(recipe, model)
        self.splits = splits
        self.lengths = splits["train"].lengths
        self.batch_rows = batch_windows(splits["train"], self.settings.batch_tokens)

    def batches(self, split: str, start: int = 0) -> Iterator[WindowBatch]:
        """Yield batches of windows of similar length without end."""
        table = self.splits[split].table
        for rows in bucketed_batches(self.lengths, self.batch_rows, self.settings.seed, start):
            yield WindowBatch(window_inputs(table, rows), torch.from_numpy(table.targets[rows]))

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every window once."""
        return -(-len(self.lengths) // self.batch_rows)

    def loss(self, batch: WindowBatch) -> Loss:
        """Return the summed loss of a batch."""
        device = device_of(self.model)
        inputs, targets = batch.inputs.to(device), batch.targets.to(device)
        return Loss(self.model.loss(inputs, targets, self.settings.label_smoothing))
