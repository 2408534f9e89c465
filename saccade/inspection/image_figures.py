"""Images and maps of them, as data for pictures. Does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from saccade.types.arrays import ByteArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ImageMap:
    """A value for each pixel of an image, or for each cell of a grid over it."""

    name: str
    values: FloatArray  # (Y, X), of the image or of a coarser grid
    description: str = ""
    is_signed: bool = False  # negative values count against the class


@dataclass(frozen=True, eq=False)
class ImageMaps:
    """An image, the class or the caption that is explained, and maps of it or of its words."""

    image: ByteArray  # (Y, X, C)
    output: str
    probability: float
    maps: Sequence[ImageMap]
    source: str = ""  # name of the image


@dataclass(frozen=True, eq=False)
class ImageGrid:
    """Small images with captions: a contact sheet, filters, or feature maps.

    Tiles of bytes are drawn as they are; each of real numbers has its own scale.
    """

    tiles: Sequence[ByteArray | FloatArray]  # (Y, X) or (Y, X, C)
    captions: Sequence[str]
    title: str = ""


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """Features of images in two dimensions, with their classes and some of the images."""

    coordinates: FloatArray  # (N, 2)
    variance_ratios: tuple[float, float]  # of the two axes
    classes: IntArray  # of the images; −1: unknown
    labels: Sequence[str]  # of the classes
    names: Sequence[str]  # of the images
    thumbnail_rows: IntArray
    thumbnails: Sequence[ByteArray]  # (Y, X, C) each
