"""Inspection: batch invariance and reload consistency."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from torch import nn

from saccade.inspection.checks import BATCH_INVARIANCE, RELOAD_CONSISTENCY, CheckResult
from saccade.tasks.base import Inspector
from tests.tasks.toy_images.config import ToyImageRecipe
from tests.tasks.toy_images.data import ImageSplit, PixelScaler
from tests.tasks.toy_images.predict import ImagePredictor

TOLERANCE = 1e-5


class ImageInspector(Inspector[ImageSplit]):
    """Checks a classifier."""

    def __init__(self, recipe: ToyImageRecipe, model: nn.Module, scaler: PixelScaler):
        self.recipe, self.scaler = recipe, scaler
        self.predictor = ImagePredictor(recipe, model, scaler)

    def example_input(self, split: ImageSplit) -> NDArray[np.float64]:
        """Return the first image."""
        return split.images[0]

    def compare_reloaded(self, other: nn.Module, split: ImageSplit, count: int) -> CheckResult:
        """Compare the logits of both models."""
        reloaded = ImagePredictor(self.recipe, other, self.scaler)
        images = split.images[:count]
        difference = self.predictor.logits(images) - reloaded.logits(images)
        return CheckResult(RELOAD_CONSISTENCY, len(images), float(difference.abs().max()), 0.0)

    def checks(self, split: ImageSplit, count: int) -> Iterator[CheckResult]:
        """Compare the logits of a batch with those of each image."""
        images = split.images[:count]
        together = self.predictor.logits(images)
        differences = [
            float((self.predictor.logits(image[None])[0] - row).abs().max())
            for image, row in zip(images, together, strict=True)
        ]
        yield CheckResult(BATCH_INVARIANCE, len(images), max(differences), TOLERANCE)
