"""Training objective: cross-entropy of the class."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from saccade.data.samplers import shuffled_batches
from saccade.tasks.neural import StatelessObjective
from saccade.training.objective import Loss
from tests.tasks.toy_images.config import ToyImageRecipe
from tests.tasks.toy_images.data import ImageSplit, PixelScaler


class ImageBatch(NamedTuple):
    """Scaled images and labels."""

    images: Tensor
    labels: Tensor

    @property
    def tokens(self) -> int:
        """Number of images."""
        return len(self.labels)


class ImageObjective(StatelessObjective[ImageBatch]):
    """Summed cross-entropy."""

    def __init__(
        self,
        recipe: ToyImageRecipe,
        model: nn.Module,
        scaler: PixelScaler,
        splits: Mapping[str, ImageSplit],
    ):
        super().__init__(recipe, model)
        self.scaler, self.splits = scaler, splits

    def batches(self, split: str, start: int = 0) -> Iterator[ImageBatch]:
        """Yield shuffled batches."""
        images, labels = self.splits[split]
        size = self.settings.batch_tokens
        for rows in shuffled_batches(len(labels), size, self.settings.seed, start):
            scaled = torch.from_numpy(self.scaler(images[rows])).float()
            yield ImageBatch(scaled, torch.from_numpy(labels[rows]))

    def batches_in_epoch(self) -> int:
        """Return how many batches contain all images once."""
        return -(-len(self.splits["train"].labels) // self.settings.batch_tokens)

    def loss(self, batch: ImageBatch) -> Loss:
        """Return the summed cross-entropy."""
        return Loss(cross_entropy(self.model(batch.images), batch.labels, reduction="sum"))
