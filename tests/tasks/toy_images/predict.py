"""Prediction: an array in, a class with probabilities out."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from saccade.config import Config
from saccade.errors import DataError
from saccade.tasks.base import PredictContext, Predictor
from saccade.types.results import Prediction
from tests.tasks.toy_images.config import ToyImageRecipe
from tests.tasks.toy_images.data import CLASSES, IMAGE_SIZE, PixelScaler

Image = NDArray[np.float64]


class ImagePredictor(Predictor[Image]):
    """Predicts the class of images."""

    input_types = (np.ndarray,)

    def __init__(self, recipe: ToyImageRecipe, model: nn.Module, scaler: PixelScaler):
        self.model, self.scaler = model, scaler

    def parse(self, raw: object, number: int) -> Image:
        """Check the shape."""
        image = np.asarray(raw, np.float64)
        if image.shape != (IMAGE_SIZE, IMAGE_SIZE):
            raise DataError(
                f"input {number}: got an array of shape {image.shape}; expected "
                f"{(IMAGE_SIZE, IMAGE_SIZE)}."
            )
        return image

    def predict(
        self, inputs: Sequence[Image], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the most probable class of each image."""
        predictions = []
        for row in self.logits(np.stack(inputs)).softmax(1) if inputs else ():
            best = int(row.argmax())
            by_class = dict(zip(CLASSES, row.tolist(), strict=True))
            predictions.append(Prediction(CLASSES[best], float(row[best]), probabilities=by_class))
        return predictions

    @torch.no_grad()
    def logits(self, images: Image) -> torch.Tensor:
        """Return logits (B, V) of raw images."""
        self.model.eval()
        return self.model(torch.from_numpy(self.scaler(images)).float())
