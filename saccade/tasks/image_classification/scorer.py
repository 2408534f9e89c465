"""Features, logits and probabilities of stored pixels."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.data.images.augment import normalise_images, scale_pixels
from saccade.data.images.transform import ImageTransform
from saccade.estimators.temperature import stable_softmax
from saccade.models.image_base import ImageNetwork
from saccade.tasks.image_classification.config import ImageRecipe, ImagesRecipe
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.neural import device_of
from saccade.training.device import tune_malloc
from saccade.types.arrays import ByteArray, FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.shapes import Images

PREDICT_IMAGES = 128  # images of a batch in prediction


class ImageEncoder:
    """A network with the preprocessor of its images."""

    def __init__(self, recipe: ImagesRecipe, network: ImageNetwork, transform: ImageTransform):
        self.recipe, self.network, self.transform = recipe, network, transform
        self.labels = transform.labels
        self.mean = torch.tensor(transform.mean)
        self.deviation = torch.tensor(transform.deviation)
        tune_malloc()

    def inputs(self, pixels: ByteArray) -> Images:
        """Return stored pixels (N, Y, X, C) as the network takes them, on its device."""
        images = scale_pixels(torch.from_numpy(np.array(pixels)))
        return normalise_images(images, self.mean, self.deviation).to(device_of(self.network))

    @torch.no_grad()
    def compute(
        self, function: Callable[[Images], Tensor], pixels: ByteArray
    ) -> Float[np.ndarray, "B D"]:
        """Return what a function of the network computes of one batch, without dropout."""
        was_training = self.network.training
        self.network.eval()
        found = function(self.inputs(pixels))
        self.network.train(was_training)
        return found.double().cpu().numpy()

    def features(self, pixels: ByteArray) -> FloatArray:
        """Return the inputs of the output layer (images, width) of one batch."""
        return self.compute(self.network.embed, pixels)

    def outputs(self, pixels: ByteArray) -> FloatArray:
        """Return what the invariance checks compare: the features."""
        return self.features(pixels)

    def split_features(
        self, split: ImageSplit, on_progress: Progress = ignore_progress
    ) -> FloatArray:
        """Return the features of a split, batch by batch."""
        return by_batches(self.features, split, on_progress)


def by_batches(
    function: Callable[[ByteArray], FloatArray], split: ImageSplit, on_progress: Progress
) -> FloatArray:
    """Return what a function of pixels computes of all images of a split, batch by batch."""
    found = []
    for start in range(0, len(split), PREDICT_IMAGES):
        rows = np.arange(start, min(start + PREDICT_IMAGES, len(split)))
        found.append(function(split.pixels_at(rows)))
        on_progress("evaluating", int(rows[-1]) + 1, len(split))
    return np.concatenate(found)


class ImageScorer(ImageEncoder):
    """A classifier with the preprocessor of its images."""

    def __init__(self, recipe: ImageRecipe, model: ImageNetwork, transform: ImageTransform):
        super().__init__(recipe, model, transform)
        self.recipe: ImageRecipe = recipe
        self.model = model
        self._folded: tuple[list[tuple[int, int]], nn.Module] | None = None

    def inference_network(self) -> nn.Module:
        """Return the network with folded batch norms, of its present weights.

        It is kept until the weights change: folding takes longer than one image. In training it is
        not kept, since fused optimizers change weights without a new version.
        """
        if self.model.training:
            return self.model.folded()
        weights = (*self.model.parameters(), *self.model.buffers())
        versions = [(id(weight), weight._version) for weight in weights]
        kept = self._folded
        if kept is None or kept[0] != versions:
            kept = self._folded = versions, self.model.folded()
        return kept[1]

    def inference_logits(self) -> Callable[[Images], Tensor]:
        """Return the function that predicts: the network, or its mean over both mirror images."""
        network = self.inference_network()
        if not self.recipe.data.test_time_flip:
            return network
        return lambda images: (network(images) + network(images.flip(-1))) / 2

    def logits(self, pixels: ByteArray) -> FloatArray:
        """Return (images, classes) of one batch."""
        return self.compute(self.inference_logits(), pixels)

    def outputs(self, pixels: ByteArray) -> FloatArray:
        """Return what the invariance checks compare: the logits."""
        return self.logits(pixels)

    def split_logits(
        self, split: ImageSplit, on_progress: Progress = ignore_progress
    ) -> FloatArray:
        """Return (images, classes) of a split, batch by batch."""
        function = self.inference_logits()
        return by_batches(lambda pixels: self.compute(function, pixels), split, on_progress)

    def probabilities(self, pixels: ByteArray) -> FloatArray:
        """Return (images, classes): probabilities that sum to 1 for each image."""
        return stable_softmax(self.logits(pixels))
