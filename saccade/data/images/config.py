"""Settings of labelled images. Does not import torch."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.source import DatasetSourceConfig
from saccade.data.splits import SplitConfig
from saccade.types.limits import MAX_COUNT, MAX_LENGTH, MAX_WIDTH

MAX_IMAGE_PIXELS = 80_000_000  # of one image; 20,000 × 20,000 would take 1.2 GB
FitName = Literal["crop", "pad", "stretch"]


class AugmentConfig(Config):
    """Random changes of training images; each is a function of the seed and the step."""

    flip: bool = False
    """Mirror half of the images."""
    crop: int = Field(0, ge=0, le=MAX_WIDTH)
    """Pixels by which an image is padded (reflected) on each side before a random crop."""
    min_area: float = Field(1.0, gt=0, le=1)
    """Smallest share of the area that a random resized crop keeps; 1: no resized crop."""
    jitter: float = Field(0.0, ge=0, lt=1)
    """Largest relative change of brightness, contrast and saturation."""
    blur: float = Field(0.0, ge=0, le=100)
    """Largest standard deviation, in pixels, of the Gaussian blur of half of the images."""
    cutout: int = Field(0, ge=0, le=MAX_WIDTH)
    """Side, in pixels, of a random square that is replaced by the mean colour."""


class ImageSourceConfig(SplitConfig, DatasetSourceConfig):
    """Source of images, how they are divided, decoded and augmented."""

    image: str | None = None
    """Column of a table with the paths of the images; inferred if not set."""
    fit: FitName = "crop"
    """How an image becomes a square: its centre, padded with black, or stretched."""
    unreadable: Literal["skip", "refuse"] = "skip"
    """Images that cannot be decoded are named and left out, or end the command."""
    max_pixels: int = Field(MAX_IMAGE_PIXELS, ge=1, le=1 << 40)
    """Largest image, in pixels; the header of a file has its size, before it is decoded."""
    augment: AugmentConfig = AugmentConfig()


class ImagesConfig(ImageSourceConfig):
    """Source of images that may have classes, how they are divided, decoded and augmented."""

    label: str | None = None
    """Column of a table with the classes; inferred if not set."""


class LabelledImagesConfig(ImagesConfig):
    """Source of images of which each has a class."""

    per_class: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Largest number of training images of a class, chosen by their hashes and the seed of the
    choice; dev and test keep theirs."""
    per_class_seed: int = Field(0, ge=0, le=MAX_COUNT)
    """Seed of the choice of `per_class`."""
    test_time_flip: bool = False
    """Predict from the mean of the logits of an image and of its mirror image."""


class CaptionsConfig(ImageSourceConfig):
    """Source of images with captions, how they are divided, decoded and augmented."""

    REFUSED: ClassVar[Mapping[str, str]] = {"stratify": "captions are no classes; try without it"}

    caption: str | None = None
    """Column of a table with the captions; inferred if not set."""
    size: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Number of generated training scenes; 20,000 if not set."""
    min_count: int = Field(2, ge=1, le=MAX_COUNT)
    """Occurrences in the training captions below which a word is unknown."""
    max_new_tokens: int = Field(40, ge=1, le=MAX_LENGTH)
    """Number of words after which generation stops."""
