"""Training objective of contrastive learning: two augmented views of each image, NT-Xent."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from saccade.data.images.augment import augment_images, normalise_images, scale_pixels
from saccade.data.images.config import AugmentConfig
from saccade.data.images.transform import ImageTransform
from saccade.data.samplers import shuffled_batches
from saccade.models.contrastive import ContrastiveNetwork
from saccade.nn.contrastive import nt_xent_of_views
from saccade.seeding import seed_for
from saccade.tasks.contrastive.config import ContrastiveRecipe, ContrastiveTrainConfig
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.image_classification.objective import MAX_NAMED_ROWS, even_batch_size
from saccade.tasks.neural import StatelessObjective, device_of
from saccade.training.objective import Loss
from saccade.types.arrays import ByteArray
from saccade.types.shapes import Images


class ViewBatch(NamedTuple):
    """Two augmented and normalised views of the same images."""

    one: Images
    two: Images
    names: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Number of loss terms: the views."""
        return 2 * len(self.one)


class ViewMaker:
    """Makes views of images, each a function of the seed, the step and the number of the view."""

    def __init__(self, augment: AugmentConfig, transform: ImageTransform, seed: int):
        self.augment, self.seed = augment, seed
        self.mean = torch.tensor(transform.mean)
        self.deviation = torch.tensor(transform.deviation)

    def views(self, pixels: ByteArray, step: int) -> tuple[Images, Images]:
        """Return two views of stored pixels (N, Y, X, C)."""
        images = scale_pixels(torch.from_numpy(pixels))
        one, two = (self._view(images, step, number) for number in range(2))
        return one, two

    def _view(self, images: Images, step: int, number: int) -> Images:
        seed = seed_for(self.seed, "view", number)
        changed = augment_images(images, self.augment, self.mean, seed, step)
        return normalise_images(changed, self.mean, self.deviation)


class ContrastiveObjective(StatelessObjective[ViewBatch]):
    """NT-Xent of two views of each image of a batch."""

    unit = "views"
    model: ContrastiveNetwork

    def __init__(
        self,
        recipe: ContrastiveRecipe,
        model: ContrastiveNetwork,
        transform: ImageTransform,
        splits: Mapping[str, ImageSplit],
    ):
        super().__init__(recipe, model)
        settings: ContrastiveTrainConfig = recipe.train
        self.splits, self.temperature = splits, settings.temperature
        self.maker = ViewMaker(recipe.data.augment, transform, settings.seed)
        self.batch_images = even_batch_size(len(splits["train"]), settings.batch_tokens)

    def batches(self, split: str, start: int = 0) -> Iterator[ViewBatch]:
        """Yield shuffled batches without end; the n-th is a function of the seed and n."""
        images = self.splits[split]
        batches = shuffled_batches(len(images), self.batch_images, self.settings.seed, start)
        for step, rows in enumerate(batches, start):
            one, two = self.maker.views(images.pixels_at(rows), step)
            names = tuple(images.names[row] for row in rows[:MAX_NAMED_ROWS].tolist())
            yield ViewBatch(one, two, names)

    def batches_in_epoch(self) -> int:
        """Return how many batches contain every image once."""
        return -(-len(self.splits["train"]) // self.batch_images)

    def loss(self, batch: ViewBatch) -> Loss:
        """Return the summed loss of the views, and how many are most similar to their pair."""
        views = torch.cat([batch.one, batch.two]).to(device_of(self.model))
        one, two = self.model(views).chunk(2)
        found = nt_xent_of_views(one, two, self.temperature)
        return Loss(found.each.sum(), found.correct)

    def describe_batch(self, batch: ViewBatch) -> str:
        """Return the names of the first images."""
        return f"{self.recipe.data_name}, images {', '.join(batch.names)}, …"
