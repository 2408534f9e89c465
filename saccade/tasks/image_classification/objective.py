"""Training objective of images: augmented batches, cross-entropy of the class."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from saccade.data.images.augment import augment_images, normalise_images, scale_pixels
from saccade.data.images.transform import ImageTransform
from saccade.data.samplers import shuffled_batches
from saccade.models.image_base import ImageNetwork
from saccade.nn.losses import cross_entropy
from saccade.tasks.image_classification.config import ImageRecipe
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.objective import Loss
from saccade.types.shapes import Images

MAX_NAMED_ROWS = 3  # images of a batch, in a message


class ImageBatch(NamedTuple):
    """Augmented and normalised images with their classes."""

    images: Images
    target: Int[Tensor, " B"]
    names: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Number of loss terms: the images."""
        return len(self.images)


class ImageObjective(StatelessObjective[ImageBatch]):
    """Cross-entropy of the class of each image."""

    unit = "images"
    model: ImageNetwork

    def __init__(
        self,
        recipe: ImageRecipe,
        model: ImageNetwork,
        transform: ImageTransform,
        splits: Mapping[str, ImageSplit],
    ):
        super().__init__(recipe, model)
        self.splits, self.augment = splits, recipe.data.augment
        self.mean = torch.tensor(transform.mean)
        self.deviation = torch.tensor(transform.deviation)
        self.batch_images = even_batch_size(len(splits["train"]), self.settings.batch_tokens)

    def batches(self, split: str, start: int = 0) -> Iterator[ImageBatch]:
        """Yield shuffled batches without end; the n-th is a function of the seed and n."""
        images, seed = self.splits[split], self.settings.seed
        batches = shuffled_batches(len(images), self.batch_images, seed, start)
        for step, rows in enumerate(batches, start):
            pixels = scale_pixels(torch.from_numpy(images.pixels_at(rows)))
            pixels = augment_images(pixels, self.augment, self.mean, seed, step)
            yield ImageBatch(
                normalise_images(pixels, self.mean, self.deviation),
                torch.from_numpy(images.classes[rows]),
                tuple(images.names[row] for row in rows[:MAX_NAMED_ROWS].tolist()),
            )

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every image once."""
        return -(-len(self.splits["train"]) // self.batch_images)

    def loss(self, batch: ImageBatch) -> Loss:
        """Return the summed loss of a batch."""
        device = device_of(self.model)
        target = batch.target.to(device)
        logits = self.model(batch.images.to(device))
        smoothing = self.settings.label_smoothing
        total = cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
        return Loss(total, (logits.argmax(1) == target).sum())

    def describe_batch(self, batch: ImageBatch) -> str:
        """Return the names of the first images."""
        return f"{self.recipe.data_name}, images {', '.join(batch.names)}, …"


def even_batch_size(images: int, limit: int) -> int:
    """Return a batch size of at most `limit` whose last batch has two images or more.

    The variance of a single image is undefined, which batch normalisation needs.
    """
    size = max(1, -(-images // -(-images // limit)))
    while size > 2 and images % size == 1:
        size -= 1
    return size
