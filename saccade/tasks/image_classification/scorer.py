"""Logits and probabilities of images, of stored pixels or raw inputs. Keeps no state."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.images.augment import normalise_images, scale_pixels
from saccade.data.images.transform import ImageTransform
from saccade.estimators.temperature import stable_softmax
from saccade.models.image_base import ImageNetwork
from saccade.tasks.image_classification.config import ImageRecipe
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.neural import device_of
from saccade.types.arrays import ByteArray, FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.shapes import Images

PREDICT_IMAGES = 256  # images of a batch in prediction


class ImageScorer:
    """A network with the preprocessor of its images."""

    def __init__(self, recipe: ImageRecipe, model: ImageNetwork, transform: ImageTransform):
        self.recipe, self.model, self.transform = recipe, model, transform
        self.labels = transform.labels
        self.mean = torch.tensor(transform.mean)
        self.deviation = torch.tensor(transform.deviation)

    def inputs(self, pixels: ByteArray) -> Images:
        """Return stored pixels (N, Y, X, C) as the network takes them, on its device."""
        images = scale_pixels(torch.from_numpy(np.array(pixels)))
        return normalise_images(images, self.mean, self.deviation).to(device_of(self.model))

    @torch.no_grad()
    def logits(self, pixels: ByteArray) -> FloatArray:
        """Return (images, classes) of one batch."""
        return self._logits(self.inputs(pixels)).double().cpu().numpy()

    def _logits(self, images: Images) -> Float[Tensor, "B V"]:
        was_training = self.model.training
        self.model.eval()
        logits: Tensor = self.model(images)
        self.model.train(was_training)
        return logits

    def split_logits(
        self, split: ImageSplit, on_progress: Progress = ignore_progress
    ) -> FloatArray:
        """Return (images, classes) of a split, batch by batch."""
        found = np.zeros((len(split), len(self.labels)))
        for start in range(0, len(split), PREDICT_IMAGES):
            rows = np.arange(start, min(start + PREDICT_IMAGES, len(split)))
            found[rows] = self.logits(split.pixels_at(rows))
            on_progress("evaluating", int(rows[-1]) + 1, len(split))
        return found

    def probabilities(self, pixels: ByteArray) -> FloatArray:
        """Return (images, classes): probabilities that sum to 1 for each image."""
        return stable_softmax(self.logits(pixels))
