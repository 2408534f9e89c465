"""Images in memory with a text each: arrays, pairs, columns of a table; an image may be a path."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from saccade.data.images.decode import RawImage
from saccade.data.images.labelled import LabelledImages, decodable, refuse_rows
from saccade.data.images.trees import read_image_file
from saccade.data.records.role_names import IMAGE_FILE_SUFFIXES
from saccade.errors import DataError
from saccade.io.byte_source import plain_suffix

MISSING_LABELS = frozenset({"", "<NA>", "NaT", "None", "nan"})  # as text; a text may be "None"


def images_in_memory(data: object, needs_labels: bool = True) -> LabelledImages | None:
    """Return arrays with labels, or (image, label) pairs; None for other objects.

    Arrays are a pair (images, labels), or columns image and label of a mapping or a frame; without
    labels, an array (N, Y, X[, C]) or a list of images. An image may be a path.
    """
    if (columns := columns_in_memory(data, "label")) is not None:
        return _memory_source(*columns, needs_labels)
    if getattr(data, "ndim", 0) >= 3:
        if needs_labels:
            raise DataError(
                "got an array of images without labels; expected (images, labels), or a list of "
                "(image, label)."
            )
        images = list(np.asarray(data))
        return _memory_source(images, [""] * len(images), needs_labels)
    if not isinstance(data, Sequence) or isinstance(data, str | bytes) or not len(data):
        return None
    if not needs_labels and all(map(is_image_value, data)):
        return _memory_source(list(data), [""] * len(data), needs_labels)
    if not all(map(_is_image_pair, data)):
        return None
    return _memory_source([pair[0] for pair in data], [pair[1] for pair in data], needs_labels)


def columns_in_memory(data: Any, role: str) -> tuple[list[Any], list[Any]] | None:
    """Return the images of an array, or of a column, and a text for each; None for other objects.

    Args:
        data: (images, texts), or a mapping or a frame with columns; of a table with other names,
            the columns are found as in a file.
        role: name of the column of texts.
    """
    is_pair = isinstance(data, tuple | list) and len(data) == 2
    if is_pair and getattr(data[0], "ndim", 0) >= 3 and not is_raw_image(data[1]):
        return list(np.asarray(data[0])), list(data[1])
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = [*(data if isinstance(data, Mapping) else data.columns)]
        if "image" in names and role in names:
            return list(data["image"]), list(data[role])
    return None


def is_raw_image(value: object) -> bool:
    """Return True for a Pillow image, an array of two or more dimensions, or bytes of a file."""
    return isinstance(value, Image.Image | bytes) or getattr(value, "ndim", 0) >= 2


def is_image_value(value: object) -> bool:
    """Return True for an image, or the path of one."""
    if isinstance(value, str):
        return plain_suffix(value) in IMAGE_FILE_SUFFIXES
    return is_raw_image(value) or isinstance(value, os.PathLike)


def _is_image_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and is_image_value(value[0])


def read_memory_image(image: Any) -> RawImage:
    """Return an image in memory, or the content of the file at a path."""
    if isinstance(image, str | os.PathLike):
        return read_image_file(Path(os.path.expanduser(image)))
    return image if isinstance(image, Image.Image | bytes) else np.asarray(image)


def memory_names(images: Sequence[Any]) -> list[str]:
    """Return the paths of images, or "image 1", … of those that are not at a path."""
    return [
        decodable(os.fspath(image)) if isinstance(image, str | os.PathLike) else f"image {number}"
        for number, image in enumerate(images, 1)
    ]


def _memory_source(
    images: list[Any], labels: Sequence[object], needs_labels: bool
) -> LabelledImages:
    if len(images) != len(labels):
        raise DataError(
            f"got {len(images):,} images and {len(labels):,} labels; expected as many of both."
        )
    names = memory_names(images)
    texts = [
        "" if not isinstance(label, str) and str(label) in MISSING_LABELS else str(label)
        for label in labels
    ]
    if needs_labels:
        refuse_rows(
            "the images",
            [
                f"{name}: got no label ({label!r}); expected one; try without the image."
                for name, label, text in zip(names, labels, texts, strict=True)
                if not text.strip()
            ],
        )

    def read(row: int) -> RawImage:
        return read_memory_image(images[row])

    return LabelledImages("the images", names, list(map(decodable, texts)), read)
