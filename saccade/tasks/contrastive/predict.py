"""The features of images: paths of files, bytes, arrays or Pillow images."""

from saccade.config import Config
from saccade.tasks.base import NoOptions
from saccade.tasks.image_classification.predict import ImageReader
from saccade.types.arrays import ByteArray
from saccade.types.results import Prediction


class FeaturePredictor(ImageReader):
    """Computes the feature vector of an image."""

    options = NoOptions

    def answer(self, pixels: ByteArray, options: Config) -> list[Prediction]:
        """Return the features of each image as `values`, and as text with spaces between."""
        rows = self.scorer.features(pixels).tolist()
        return [
            Prediction(" ".join(f"{value:.5g}" for value in row), values=tuple(row)) for row in rows
        ]
