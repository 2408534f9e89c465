"""Training objective of BERT: cross-entropy of masked tokens and of next sentences."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from saccade.data.samplers import shuffled_batches
from saccade.data.text.masking import mask_rows
from saccade.data.text.packing import Packing, TokenStream
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.models.bert_pretraining import BertPretraining
from saccade.nn.kernels.linear_cross_entropy import TokenLoss, linear_cross_entropy
from saccade.seeding import seed_for
from saccade.tasks.masked_language_modeling.config import BertRecipe, PretrainingTextConfig
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.objective import Loss
from saccade.types.arrays import IntArray

MIN_PART_ROWS = 2  # sequences below which a thread of its own does not pay
NEXT, NOT_NEXT = 0, 1  # classes, as in Devlin et al.'s weights


class MaskedBatch(NamedTuple):
    """Masked sequences of equal length, the tokens to predict, and the labels of pairs."""

    ids: Tensor  # (B, T)
    segments: Tensor | None  # (B, T); None: one segment each
    positions: Tensor  # (N,), indices of the targets in the flattened ids
    targets: Tensor  # (N,)
    labels: Tensor | None  # (B,), NEXT or NOT_NEXT; None: no pairs
    pair_weight: float  # of a pair's loss: with it, the summed loss is N · (mean + mean)

    @property
    def tokens(self) -> int:
        """Number of targets."""
        return len(self.targets)


class SequenceMaker:
    """Makes the masked sequences of a stream: functions of the seed, the epoch and the window."""

    def __init__(self, stream: TokenStream, data: PretrainingTextConfig, vocab_size: int):
        self.packing = Packing(stream, data.sequence_length, data.pairs)
        self.data, self.vocab_size = data, vocab_size

    def batch(self, windows: IntArray, seed: int, epoch: int) -> MaskedBatch:
        """Return the sequences of these windows of an epoch."""
        data = self.data
        epoch = epoch if data.masking == "dynamic" else 0
        key = seed_for(seed, "masking", epoch)
        rows = self.packing.rows(self.packing.window_starts(windows, seed, epoch), key)
        masked = mask_rows(rows, data.mask_share, self.vocab_size, key, data.whole_words)
        labels, weight = None, 0.0
        if rows.is_next is not None:
            labels = torch.from_numpy(np.where(rows.is_next, NEXT, NOT_NEXT))
            weight = len(masked.targets) / len(labels)
        return MaskedBatch(
            torch.from_numpy(masked.ids),
            torch.from_numpy(rows.segments) if data.pairs else None,
            torch.from_numpy(np.flatnonzero(masked.is_target)),
            torch.from_numpy(masked.targets),
            labels,
            weight,
        )


class MaskedLMObjective(StatelessObjective[MaskedBatch]):
    """Summed cross-entropy of the targets, and of the labels of pairs with the same total weight.

    As in Devlin et al., the two mean losses are added.
    """

    model: BertPretraining

    def __init__(
        self,
        recipe: BertRecipe,
        model: BertPretraining,
        tokenizer: WordPieceTokenizer,
        splits: Mapping[str, TokenStream],
    ):
        super().__init__(recipe, model)
        self.makers = {
            split: SequenceMaker(stream, recipe.data, tokenizer.vocab_size)
            for split, stream in splits.items()
        }
        self.batch_rows = max(1, self.settings.batch_tokens // recipe.data.sequence_length)

    def batches(self, split: str, start: int = 0) -> Iterator[MaskedBatch]:
        """Yield shuffled batches without end; the n-th is a function of the seed and n."""
        maker, seed = self.makers[split], self.settings.seed
        batches = shuffled_batches(maker.packing.count, self.batch_rows, seed, start)
        per_epoch = -(-maker.packing.count // self.batch_rows)
        for step, windows in enumerate(batches, start):
            yield maker.batch(windows, seed, step // per_epoch)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain all training tokens once."""
        return -(-self.makers["train"].packing.count // self.batch_rows)

    def loss(self, batch: MaskedBatch) -> Loss:
        """Return the summed loss, and the number of targets that are predicted correctly."""
        tokens, pairs = pretraining_losses(self.model, batch, self.settings.label_smoothing)
        total = tokens.total
        if pairs is not None:
            total = total + batch.pair_weight * pairs.total
        return Loss(total, tokens.correct)

    def split_batch(self, batch: MaskedBatch, limit: int) -> list[MaskedBatch]:
        """Split the rows into parts whose losses add up to that of the batch."""
        rows, width = batch.ids.shape
        count = max(1, min(limit, rows // MIN_PART_ROWS))
        cuts = [rows * part // count for part in range(count + 1)]
        bounds = torch.searchsorted(batch.positions, torch.tensor(cuts) * width).tolist()
        return [
            MaskedBatch(
                batch.ids[first:last],
                None if batch.segments is None else batch.segments[first:last],
                batch.positions[start:stop] - first * width,
                batch.targets[start:stop],
                None if batch.labels is None else batch.labels[first:last],
                batch.pair_weight,
            )
            for (first, last), (start, stop) in zip(pairwise(cuts), pairwise(bounds), strict=True)
        ]

    def describe_batch(self, batch: MaskedBatch) -> str:
        """Return the name of the data and the size of the batch."""
        return f"{self.recipe.data_name}, {len(batch.ids)} sequences"


def pretraining_losses(
    model: BertPretraining, batch: MaskedBatch, label_smoothing: float = 0.0
) -> tuple[TokenLoss, TokenLoss | None]:
    """Return the losses of the masked tokens and of the pairs; None without pairs."""
    device = device_of(model)
    segments = None if batch.segments is None else batch.segments.to(device)
    hidden = model.forward_targets(batch.ids.to(device), segments, batch.positions.to(device))
    tokens = linear_cross_entropy(
        model.pre_logits(hidden.targets),
        model.output_layer,
        batch.targets.to(device),
        label_smoothing,
    )
    if batch.labels is None:
        return tokens, None
    labels = batch.labels.to(device)
    logits = model.next_sentence_logits(hidden.first)
    correct = (logits.argmax(dim=1) == labels).sum()
    return tokens, TokenLoss(F.cross_entropy(logits, labels, reduction="sum"), correct)
