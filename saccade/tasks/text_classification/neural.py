"""Networks that classify texts: padded batches, the training objective, probabilities."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.data.samplers import bucketed_batches
from saccade.models.text_classifiers import TextNetwork
from saccade.nn.losses import binary_cross_entropy_with_logits, cross_entropy
from saccade.tasks.base import Recipe
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.objective import Loss
from saccade.types.arrays import IntArray
from saccade.types.bags import Bags
from saccade.types.shapes import Lengths, TokenIds

PREDICT_TEXTS = 256  # texts of a batch in prediction


@runtime_checkable
class LabelledSplit(Protocol):
    """Texts as word ids and labels as label ids (`EncodedTexts`)."""

    @property
    def words(self) -> Bags:
        """The word ids of each text."""
        ...

    @property
    def labels(self) -> Bags:
        """The label ids of each text; −1 is an unknown label."""
        ...


class TextBatch(NamedTuple):
    """Padded word ids with their labels, one or several (multi-hot) for each text."""

    ids: TokenIds  # word id + 1; 0 is padding
    lengths: Lengths
    target: Int[Tensor, " B"] | Float[Tensor, "B V"]

    @property
    def tokens(self) -> int:
        """Number of loss terms: the texts."""
        return len(self.ids)


def pad_texts(words: Bags, rows: IntArray, max_length: int) -> tuple[TokenIds, Lengths]:
    """Return the ids of some texts, truncated and padded, and their lengths."""
    starts = words.starts[rows]
    lengths = np.minimum(words.starts[rows + 1] - starts, max_length)
    width = max(1, int(lengths.max(initial=0)))
    columns = np.arange(width)
    is_word = columns < lengths[:, None]
    ids = np.zeros((len(rows), width), np.int64)
    ids[is_word] = words.rows[(starts[:, None] + columns)[is_word]] + 1
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def text_logits(model: TextNetwork, words: Bags, max_length: int) -> Float[Tensor, "N V"]:
    """Return the logits of texts, in batches of similar length, without gradients."""
    count = len(words.starts) - 1
    order = np.argsort(np.diff(words.starts), kind="stable")
    logits = torch.zeros(count, model.output.out_features)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for first in range(0, count, PREDICT_TEXTS):
            rows = order[first : first + PREDICT_TEXTS]
            ids, lengths = pad_texts(words, rows, max_length)
            device = device_of(model)
            logits[torch.from_numpy(rows)] = model(ids.to(device), lengths.to(device)).cpu()
    model.train(was_training)
    return logits


def class_weights(labels: Bags, size: int) -> Float[Tensor, " V"]:
    r"""Return N / (V · N_v) for each label v: all labels have the same total weight."""
    counts = np.bincount(labels.rows[labels.rows >= 0], minlength=size)
    return torch.from_numpy(counts.sum() / (size * np.maximum(counts, 1))).float()


class TextObjective(StatelessObjective[TextBatch]):
    """Cross-entropy of the label, or for several labels the sum of binary cross-entropies."""

    model: TextNetwork

    def __init__(
        self,
        recipe: Recipe,
        model: TextNetwork,
        vocabulary: object,
        splits: Mapping[str, LabelledSplit],
        *,
        multi_label: bool = False,
        balanced: bool = False,
    ):
        super().__init__(recipe, model)
        self.splits, self.multi_label = splits, multi_label
        self.max_length = int(recipe.model.model_dump()["max_length"])
        train = splits["train"]
        lengths = np.minimum(np.diff(train.words.starts), self.max_length)
        self.lengths = lengths
        self.batch_rows = max(1, int(self.settings.batch_tokens // max(1.0, float(lengths.mean()))))
        size = model.output.out_features
        self.weights = class_weights(train.labels, size) if balanced else None

    def batches(self, split: str, start: int = 0) -> Iterator[TextBatch]:
        """Yield batches of texts of similar length without end."""
        for rows in bucketed_batches(self.lengths, self.batch_rows, self.settings.seed, start):
            yield self.batch(self.splits[split], rows)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every text once."""
        return -(-len(self.lengths) // self.batch_rows)

    def batch(self, split: LabelledSplit, rows: IntArray) -> TextBatch:
        """Return some texts of a split as tensors."""
        ids, lengths = pad_texts(split.words, rows, self.max_length)
        labels = split.labels
        if not self.multi_label:
            target = labels.rows[labels.starts[rows]].astype(np.int64)
            return TextBatch(ids, lengths, torch.from_numpy(target))
        found = np.zeros((len(rows), self.model.output.out_features), np.float32)
        for row, text in enumerate(rows):
            own = labels.rows[labels.starts[text] : labels.starts[text + 1]]
            found[row, own[own >= 0]] = 1
        return TextBatch(ids, lengths, torch.from_numpy(found))

    def loss(self, batch: TextBatch) -> Loss:
        """Return the summed loss of a batch."""
        device = device_of(self.model)
        logits = self.model(batch.ids.to(device), batch.lengths.to(device))
        target = batch.target.to(device)
        if self.multi_label:
            flat = logits.reshape(-1), target.reshape(-1)
            return Loss(binary_cross_entropy_with_logits(*flat, reduction="sum"))
        total = cross_entropy(
            logits,
            target,
            label_smoothing=self.settings.label_smoothing,
            weight=None if self.weights is None else self.weights.to(device),
            reduction="sum",
        )
        return Loss(total, (logits.argmax(1) == target).sum())
