"""Decoded images in one file of bytes, memory-mapped, with an index that has its checksum.

pixels.bin    uint8 (N, Y, X, C), one image after another
images.json   shape, CRC-32, and for each image its class, split and name

Only the pages that are read are in memory. Without a folder, pixels are in memory, or from 256 MB
on in a temporary file.
"""

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from zlib import crc32

import numpy as np
from pydantic import Field

from saccade.config import Config
from saccade.data.images.decode import DecodedImage, ImageForm
from saccade.data.splits import LEFT_OUT, SPLIT_NAMES, SplitArray
from saccade.errors import RunError
from saccade.io.atomic import corrupt_file_error, read_checksummed_json, write_checksummed_json
from saccade.io.documents import parse_structure
from saccade.types.arrays import ByteArray, IntArray

PIXELS_FILE = "pixels.bin"
IMAGE_INDEX_FILE = "images.json"
MAX_MEMORY_BYTES = 1 << 28  # of decoded images without a folder
CHECKSUM_BLOCK = 1 << 22

_Size = Annotated[int, Field(ge=0)]


class _Index(Config):
    """Contents of images.json."""

    shape: tuple[_Size, _Size, _Size, _Size]
    crc32: int
    classes: list[int]
    splits: list[int]
    names: list[str]


@dataclass(frozen=True, eq=False)
class StoredImages:
    """Decoded images with class, split and name; −1 is an unknown class, or left out."""

    pixels: ByteArray  # (N, Y, X, C)
    classes: IntArray
    splits: SplitArray
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """The images of a source that could be decoded, and the errors of the others."""

    pixels: ByteArray  # (N, Y, X, C)
    rows: IntArray  # of the source
    errors: dict[int, str]  # by row


def collect_images(
    decoded: Iterable[DecodedImage], count: int, form: ImageForm, folder: Path | None
) -> DecodedImages:
    """Write decoded images one after another, and leave out those that are unreadable."""
    rows: list[int] = []
    errors: dict[int, str] = {}
    size = int(np.prod(form.shape))
    if folder is None and count * size <= MAX_MEMORY_BYTES:
        pixels = np.empty((count, *form.shape), np.uint8)
        for row, image in enumerate(decoded):
            if image.pixels is None:
                errors[row] = image.error
            else:
                pixels[len(rows)] = image.pixels.reshape(form.shape)
                rows.append(row)
        return DecodedImages(pixels[: len(rows)], np.array(rows, np.int64), errors)
    with tempfile.TemporaryFile() if folder is None else _new_pixels(folder) as file:
        for row, image in enumerate(decoded):
            if image.pixels is None:
                errors[row] = image.error
            else:
                file.write(np.ascontiguousarray(image.pixels).tobytes())
                rows.append(row)
        file.flush()
        if folder is not None:
            os.fsync(file.fileno())
            _replace_pixels(Path(file.name), folder / PIXELS_FILE)
        shape = (len(rows), *form.shape)
        mapped = np.memmap(file, np.uint8, "r", shape=shape) if rows else np.empty(shape, np.uint8)
    return DecodedImages(mapped, np.array(rows, np.int64), errors)


def _new_pixels(folder: Path) -> Any:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise RunError(f"{folder}: got a file; expected a folder; try to remove it.") from None
    return (folder / f".{PIXELS_FILE}.part").open("w+b")


def _replace_pixels(part: Path, path: Path) -> None:
    try:
        os.replace(part, path)
    except OSError as error:
        part.unlink()
        raise RunError(
            f"{path} could not be written: {error.strerror or error}; try to remove it."
        ) from None


def write_image_index(folder: Path, stored: StoredImages) -> None:
    """Write the index of the images in a folder, without which they are not read."""
    index = _Index(
        shape=stored.pixels.shape,
        crc32=pixels_checksum(stored.pixels),
        classes=stored.classes.tolist(),
        splits=stored.splits.tolist(),
        names=list(stored.names),
    )
    write_checksummed_json(folder / IMAGE_INDEX_FILE, index.model_dump())


def read_stored_images(folder: Path, form: ImageForm, num_classes: int) -> StoredImages:
    """Return the images of a folder; RunError if a file of them is damaged."""
    path = folder / PIXELS_FILE
    values = read_checksummed_json(folder / IMAGE_INDEX_FILE)
    try:
        index: _Index = parse_structure(_Index, values)
        count = len(index.names)
        if index.shape != (count, *form.shape):
            raise ValueError(f"got images of shape {index.shape}")
        if not count == len(index.classes) == len(index.splits):
            raise ValueError("got lists of different lengths")
        if not all(-1 <= number < num_classes for number in index.classes):
            raise ValueError("got an unknown class")
        if not all(LEFT_OUT <= number < len(SPLIT_NAMES) for number in index.splits):
            raise ValueError("got an unknown split")
    except (TypeError, ValueError) as error:
        reason = f"it has another structure ({error})"
        raise corrupt_file_error(folder / IMAGE_INDEX_FILE, reason) from None
    expected = int(np.prod(index.shape))
    if not path.is_file() or path.stat().st_size != expected:
        raise corrupt_file_error(path, f"it is missing or has not {expected:,} bytes")
    pixels: ByteArray = np.empty(index.shape, np.uint8)
    if count:
        pixels = np.memmap(path, np.uint8, "r", shape=index.shape)
    if pixels_checksum(pixels) != index.crc32:
        raise corrupt_file_error(path, "its content does not match its checksum")
    return StoredImages(
        pixels, np.array(index.classes, np.int64), np.array(index.splits, np.int8), index.names
    )


def pixels_checksum(pixels: ByteArray) -> int:
    """Return the CRC-32 of pixels, read block by block."""
    flat, found = pixels.reshape(-1), 0
    for start in range(0, len(flat), CHECKSUM_BLOCK):
        found = crc32(flat[start : start + CHECKSUM_BLOCK].data, found)
    return found
