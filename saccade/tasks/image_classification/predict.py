"""Predicting the class of images: paths of files, bytes, arrays or Pillow images."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from saccade.config import Config
from saccade.data.images.decode import (
    DecodedImage,
    ImageForm,
    RawImage,
    UnreadableImage,
    decode_images,
)
from saccade.data.images.labelled import printable
from saccade.data.images.published import read_image
from saccade.errors import ConfigError, DataError
from saccade.tasks.base import PredictContext, Predictor
from saccade.tasks.image_classification.scorer import PREDICT_IMAGES, ImageEncoder, ImageScorer
from saccade.tasks.text_classification.predict import (
    MAX_LISTED_PROBABILITIES,
    RankedOptions,
)
from saccade.types.arrays import ByteArray, FloatArray
from saccade.types.results import Prediction


class ImageInput(NamedTuple):
    """An image, or the name of one that is read when it is predicted."""

    name: str
    raw: RawImage | None = None

    def read(self) -> RawImage:
        """Return the bytes of the file, or the image; UnreadableImage if there is no file."""
        if self.raw is not None:
            return self.raw
        if not self.name.strip():
            raise UnreadableImage("got an empty path; expected the path of an image")
        return read_image(self.name)


class ImageInputPredictor(Predictor[ImageInput]):
    """Base of predictors of images: parses, reads and decodes them."""

    input_types = (str, os.PathLike, bytes, Image.Image, np.ndarray)

    def __init__(self, form: ImageForm, max_pixels: int):
        self.form, self.max_pixels = form, max_pixels

    def parse(self, raw: object, number: int) -> ImageInput:
        """Return the image, not read yet."""
        if isinstance(raw, str | os.PathLike):
            return ImageInput(os.fspath(raw))
        if isinstance(raw, bytes | Image.Image | np.ndarray):
            return ImageInput(f"input {number}", raw)
        raise ConfigError(
            f"input {number}: got a {type(raw).__name__}; expected the path of an image, a Pillow "
            "image, an array (Y, X[, C]) or the bytes of a file."
        )

    def decode(self, inputs: Sequence[ImageInput]) -> list[DecodedImage]:
        """Return the pixels of each image, or why it cannot be read."""
        rows = range(len(inputs))
        found = decode_images(lambda row: inputs[row].read(), rows, self.form, self.max_pixels)
        shape = self.form.shape
        return [
            image if image.pixels is None else DecodedImage(image.pixels.reshape(shape))
            for image in found
        ]

    def pixels(self, raw: object) -> ByteArray:
        """Return one decoded image (Y, X, C); DataError if it cannot be read."""
        given = self.parse(raw, 1)
        [image] = self.decode([given])
        if image.pixels is None:
            raise DataError(f"{given.name}: {image.error}.")
        return image.pixels


def unreadable(given: ImageInput, image: DecodedImage) -> Prediction:
    """Return the prediction of an image that cannot be read."""
    return Prediction("", error=f"{printable(given.name) or 'no path'}: {image.error}")


class ImageReader(ImageInputPredictor):
    """Base of predictors that answer each image by itself, an unreadable one with an error."""

    def __init__(self, scorer: ImageEncoder):
        super().__init__(scorer.transform.form, scorer.recipe.data.max_pixels)
        self.scorer = scorer

    @abstractmethod
    def answer(self, pixels: ByteArray, options: Config) -> list[Prediction]:
        """Return a prediction for each of some decoded images (N, Y, X, C)."""

    def predict(
        self, inputs: Sequence[ImageInput], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return a prediction for each image, batch by batch."""
        predictions: list[Prediction] = []
        for start in range(0, len(inputs), PREDICT_IMAGES):
            some = inputs[start : start + PREDICT_IMAGES]
            predictions += self._predict(some, options)
            context.on_progress("predicting", len(predictions), len(inputs))
        return predictions

    def _predict(self, inputs: Sequence[ImageInput], options: Config) -> list[Prediction]:
        decoded = self.decode(inputs)
        readable = [image.pixels for image in decoded if image.pixels is not None]
        answers = iter(self.answer(np.stack(readable), options) if readable else ())
        return [
            next(answers) if image.pixels is not None else unreadable(given, image)
            for given, image in zip(inputs, decoded, strict=True)
        ]


class ImagePredictor(ImageReader):
    """Predicts the class of an image."""

    options = RankedOptions

    def __init__(self, scorer: ImageScorer):
        super().__init__(scorer)
        self.classifier, self.labels = scorer, scorer.labels

    def answer(self, pixels: ByteArray, options: Config) -> list[Prediction]:
        """Return the `n_best` classes of each image with their probabilities."""
        assert isinstance(options, RankedOptions)
        rows = self.classifier.probabilities(pixels)
        return [self._ranked(row, options.n_best) for row in rows]

    def _ranked(self, row: FloatArray, n_best: int) -> Prediction:
        order = np.argsort(-row, kind="stable")[:n_best].tolist()
        ranked = [Prediction(self.labels[i], float(row[i])) for i in order]
        best = ranked[0]._replace(alternatives=tuple(ranked[1:]))
        if len(self.labels) > MAX_LISTED_PROBABILITIES:
            return best
        return best._replace(probabilities=dict(zip(self.labels, row.tolist(), strict=True)))
