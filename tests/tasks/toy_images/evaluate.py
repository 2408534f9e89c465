"""Evaluation: loss and accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy

from saccade.tasks.base import Evaluator
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction
from tests.tasks.toy_images.config import ToyImageRecipe
from tests.tasks.toy_images.data import CLASSES, ImageSplit, PixelScaler
from tests.tasks.toy_images.predict import ImagePredictor


class ImageEvaluator(Evaluator[ImageSplit]):
    """Loss and accuracy of a classifier."""

    metric = ComparisonMetric("accuracy", True, 100.0)

    def __init__(self, recipe: ToyImageRecipe, model: nn.Module, scaler: PixelScaler):
        self.predictor = ImagePredictor(recipe, model, scaler)

    def evaluate(
        self,
        split: ImageSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of a split."""
        images, labels = (part[:limit] for part in split)
        logits, targets = self.predictor.logits(images), torch.from_numpy(labels)
        metrics = {
            "loss": float(cross_entropy(logits, targets)),
            "accuracy": float((logits.argmax(1) == targets).float().mean()),
            "examples": float(len(labels)),
        }
        return Evaluation(metrics, {"accuracy": "share of images of which the class is right"})

    def floors(self, train: ImageSplit, split: ImageSplit) -> dict[str, dict[str, float]]:
        """Return the accuracy of the majority class."""
        majority = np.bincount(train.labels).argmax()
        return {"majority class": {"accuracy": float((split.labels == majority).mean())}}

    def inputs(self, split: ImageSplit) -> list[NDArray[np.float64]]:
        """Return the images."""
        return list(split.images)

    def score_each(
        self, split: ImageSplit, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64]:
        """Return 100 for each image of which the class is right."""
        predicted = np.array([CLASSES.index(prediction.text) for prediction in predictions])
        return 100.0 * (predicted == split.labels)
