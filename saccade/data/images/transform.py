"""The preprocessor of images: classes, form of the pixels, and their mean and deviation."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from saccade.data.images.config import FitName
from saccade.data.images.decode import ImageForm, ImageHeader
from saccade.io.documents import parse_structure
from saccade.types.arrays import ByteArray, IntArray
from saccade.types.limits import MAX_WIDTH

MIN_DEFAULT_SIZE, MAX_DEFAULT_SIZE = 16, 64  # sides that are chosen from the data
STATISTICS_ROWS = 1024  # images of a block
MIN_DEVIATION = 1e-3  # of a channel that is constant


class ImageTransform(NamedTuple):
    """Classes with the number of their training images, and what is done to the pixels."""

    labels: list[str]
    met: list[int]  # training images of each class
    size: int
    channels: int
    fit: FitName
    mean: list[float]  # of each channel, of values from 0 to 1
    deviation: list[float]

    @property
    def form(self) -> ImageForm:
        """The form in which images are decoded."""
        return ImageForm(self.size, self.channels, self.fit)

    @property
    def label_ids(self) -> dict[str, int]:
        """Class to number."""
        return {label: number for number, label in enumerate(self.labels)}

    def model_sizes(self) -> dict[str, int]:
        """Return the settings of a network that follow from the images."""
        return {"classes": len(self.labels), **self.pixel_sizes()}

    def pixel_sizes(self) -> dict[str, int]:
        """Return the settings of a network that follow from the images without their classes."""
        return {"channels": self.channels, "image_size": self.size}

    def without_labels(self) -> "ImageTransform":
        """Return the same form and statistics of the pixels, for images of other classes."""
        return self._replace(labels=[], met=[])

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return self._asdict()

    @classmethod
    def from_json(cls, values: dict[str, Any], min_labels: int = 1) -> "ImageTransform":
        """Rebuild the preprocessor from plain values."""
        found: ImageTransform = parse_structure(cls, values)
        if len(found.labels) < min_labels or len(found.labels) != len(found.met):
            raise ValueError(f"got {len(found.labels):,} classes and {len(found.met):,} counts")
        if len({*found.labels}) < len(found.labels):
            raise ValueError("got a class twice")
        check_pixels(found.form, found.mean, found.deviation)
        return found


def check_pixels(form: ImageForm, mean: Sequence[float], deviation: Sequence[float]) -> None:
    """Raise a ValueError if no images have this form and these statistics."""
    if not 1 <= form.size <= MAX_WIDTH or form.channels not in (1, 3):
        raise ValueError(f"got images of {form.size} pixels and {form.channels} channels")
    if not form.channels == len(mean) == len(deviation):
        raise ValueError("got means and deviations of other channels")
    if not all(map(isfinite, mean)) or not all(0 < d < 1e3 for d in deviation):
        raise ValueError("got a mean or a deviation out of range")


def choose_form(
    headers: Sequence[ImageHeader], size: int, channels: int, fit: FitName
) -> tuple[ImageForm, str]:
    """Return the form of images by a sample of their headers, and the reason for their size.

    `size` and `channels` are those of the settings; 0: chosen.
    """
    shorter = int(np.median([min(header.width, header.height) for header in headers]))
    chosen = min(max(shorter, MIN_DEFAULT_SIZE), MAX_DEFAULT_SIZE)
    reason = f"the shorter side of the images is {shorter} (median)"
    if chosen < shorter:
        reason += "; more pixels take longer to train"
    channels = channels or (1 if all(header.is_grey for header in headers) else 3)
    return ImageForm(size or chosen, channels, fit), reason


def channel_statistics(pixels: ByteArray, rows: IntArray) -> tuple[list[float], list[float]]:
    """Return mean and deviation of each channel over some images, of values from 0 to 1."""
    counts = np.zeros((pixels.shape[-1], 256), np.int64)  # how often each channel has each value
    for start in range(0, len(rows), STATISTICS_ROWS):
        some = pixels[rows[start : start + STATISTICS_ROWS]]
        for channel, found in enumerate(counts):
            found += np.bincount(some[..., channel].ravel(), minlength=256)
    values, count = np.arange(256) / 255, max(1, len(rows) * pixels.shape[1] * pixels.shape[2])
    mean = counts @ values / count
    variance = (counts * (values - mean[:, None]) ** 2).sum(1) / count
    return mean.tolist(), np.maximum(np.sqrt(variance), MIN_DEVIATION).tolist()
