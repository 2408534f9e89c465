"""Images: read or generated, and scaled."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.source import SyntheticSource, resolve_source
from saccade.data.splits import SPLIT_NAMES
from saccade.seeding import generator
from saccade.tasks.base import PrepareContext, PreparedData, fingerprint_arrays
from tests.tasks.toy_images.config import ToyImageRecipe

CLASSES = ("horizontal", "vertical")
IMAGE_SIZE = 6


class ImageSplit(NamedTuple):
    """Raw images (N, Y, X) and their labels (N)."""

    images: NDArray[np.float64]
    labels: NDArray[np.int64]


class PixelScaler(NamedTuple):
    """Preprocessor: subtracts the mean of the training pixels and divides by their deviation."""

    mean: float
    deviation: float

    def __call__(self, images: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scaled images."""
        return (images - self.mean) / self.deviation

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self._asdict()


def read_scaler(values: dict[str, Any]) -> PixelScaler:
    """Return the scaler that `to_json` saved."""
    return PixelScaler(values["mean"], values["deviation"])


def make_bars(size: int, seed: int, split: str) -> ImageSplit:
    """Return noisy images of one bright row or column."""
    random = generator(seed, "bars", SPLIT_NAMES.index(split))
    images = random.normal(0.0, 0.2, (size, IMAGE_SIZE, IMAGE_SIZE))
    labels = random.integers(len(CLASSES), size=size)
    for image, label, position in zip(
        images, labels, random.integers(IMAGE_SIZE, size=size), strict=True
    ):
        (image if label == 0 else image.T)[position] += 1.0
    return ImageSplit(images, labels)


SYNTHETIC_IMAGES = {"bars": make_bars}
PreparedImages = PreparedData[ToyImageRecipe, PixelScaler, ImageSplit]


def prepare_images(recipe: ToyImageRecipe, context: PrepareContext[PixelScaler]) -> PreparedImages:
    """Read or generate the splits; fit the scaler."""
    source = resolve_source(recipe.data, SYNTHETIC_IMAGES, what="image")
    assert isinstance(source, SyntheticSource)
    splits = {name: source.generate(recipe.data.size, 1, name) for name in SPLIT_NAMES}
    images = splits["train"].images
    scaler = context.preprocessor or PixelScaler(float(images.mean()), float(images.std()))
    sizes = {"inputs": IMAGE_SIZE**2, "outputs": len(CLASSES)}
    recipe = recipe.with_values(model=recipe.model.model_dump(exclude_unset=True) | sizes)
    return PreparedData(recipe, scaler, splits, lambda: fingerprint_arrays(*splits["train"]))


def load_images(recipe: ToyImageRecipe, scaler: PixelScaler, path: str | Path) -> ImageSplit:
    """Read an .npz file."""
    with np.load(path) as arrays:
        return ImageSplit(arrays["images"], arrays["labels"])
