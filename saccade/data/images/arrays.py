r"""Images in binary arrays: idx files (MNIST, Fashion-MNIST) and CIFAR-10's binary batches.

idx     0 0 TYPE N, N sizes as big-endian 32-bit integers, then the values (LeCun et al.)
CIFAR   records of 1 + 3072 bytes: class, then 32 × 32 red, green and blue values
"""

import re
import struct
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.images.trees import FileTree
from saccade.errors import DataError
from saccade.io.byte_source import COMPRESSED_SUFFIXES
from saccade.types.arrays import ByteArray, IntArray

IDX_UINT8 = b"\x00\x00\x08"  # then the number of dimensions
CIFAR_RECORD = 1 + 3 * 32 * 32
MAX_IDX_DIMENSIONS = 4
UNLABELLED = -1  # class of an image whose labels are not known
CLASS_NAME_FILES = ("batches.meta.txt", "classes.txt", "labels.txt")
_IMAGES = re.compile(r"images(?=[-._]idx\d)|images(?=\.idx)")


class ArrayImages(NamedTuple):
    """Images of one array file with their classes, and the split that its name stands for."""

    file: str
    pixels: ByteArray  # (N, Y, X) or (N, Y, X, C)
    classes: IntArray
    split: str | None


def find_array_files(files: list[str]) -> list[str]:
    """Return the files that are arrays of images by their names, those of labels left out."""
    return [name for name in files if _is_idx_images(name) or is_cifar_batch(name)]


def _plain_name(name: str) -> str:
    last = name.rpartition("/")[2]
    stem, dot, suffix = last.rpartition(".")
    return stem if stem and dot + suffix in COMPRESSED_SUFFIXES else last


def _is_idx_images(name: str) -> bool:
    return _IMAGES.search(_plain_name(name)) is not None


def is_cifar_batch(name: str) -> bool:
    """Return True for data_batch_1.bin, test_batch.bin and the like."""
    return re.fullmatch(r"(data|test)_batch(_\d+)?\.bin", _plain_name(name)) is not None


def read_array_images(tree: FileTree, file: str, needs_labels: bool = True) -> ArrayImages:
    """Read an array of images and the classes that belong to it, of an idx file if it has any."""
    name = _plain_name(file)
    split = "test" if name.startswith(("t10k", "test")) else None
    if name.startswith(("train", "data_batch")):
        split = "train"
    if is_cifar_batch(file):
        return ArrayImages(file, *parse_cifar(tree.read_unpacked(file), tree.label(file)), split)
    pixels = parse_idx(tree.read_unpacked(file), tree.label(file))
    if pixels.ndim not in (3, 4):
        raise DataError(
            f"{tree.label(file)}: got an array of shape {pixels.shape}; expected images (N, Y, X)."
        )
    labels = _labels_file(tree, file, needs_labels)
    if labels is None:
        return ArrayImages(file, pixels, np.full(len(pixels), UNLABELLED, np.int64), split)
    classes = parse_idx(tree.read_unpacked(labels), tree.label(labels))
    if classes.shape != pixels.shape[:1]:
        raise DataError(
            f"{tree.label(labels)}: got {classes.shape} labels for {len(pixels):,} images; "
            "expected one for each image."
        )
    return ArrayImages(file, pixels, classes.astype(np.int64), split)


def _labels_file(tree: FileTree, file: str, is_needed: bool) -> str | None:
    """Return the file of labels that belongs to a file of images; None if it need not be there."""
    plain = str(PurePosixPath(file).with_name(_plain_name(file)))
    expected = re.sub(r"idx\d", "idx1", _IMAGES.sub("labels", plain))
    for suffix in ("", *COMPRESSED_SUFFIXES):
        if expected + suffix in tree.files:
            return expected + suffix
    if not is_needed:
        return None
    raise DataError(
        f"{tree.label(file)}: got images without labels; expected {expected} (or .gz) next to it."
    )


def parse_idx(content: bytes, name: str) -> ByteArray:
    """Return the array of an idx file of 8-bit values; DataError if it is damaged."""
    if not content.startswith(IDX_UINT8) or len(content) < 4:
        raise DataError(
            f"{name}: got a file that starts with {content[:4].hex(' ') or 'nothing'}; expected an "
            "idx file of bytes (00 00 08)."
        )
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if not 1 <= dimensions <= MAX_IDX_DIMENSIONS or len(content) < start:
        raise DataError(f"{name}: got {dimensions} dimensions; expected 1 to {MAX_IDX_DIMENSIONS}.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    size = int(np.prod(shape, dtype=np.float64))
    if not size or len(content) - start != size:
        raise DataError(
            f"{name}: got {len(content) - start:,} values; expected {size:,}, the product of "
            f"{' × '.join(map(str, shape))}; try to copy or download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def parse_cifar(content: bytes, name: str) -> tuple[ByteArray, IntArray]:
    """Return the images (N, 32, 32, 3) and classes of a CIFAR-10 binary batch."""
    if not content or len(content) % CIFAR_RECORD:
        raise DataError(
            f"{name}: got {len(content):,} bytes; expected a multiple of {CIFAR_RECORD:,}, the "
            "size of an image of CIFAR-10 with its class."
        )
    records: NDArray[np.uint8] = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return pixels, records[:, 0].astype(np.int64)


def read_class_names(tree: FileTree) -> list[str] | None:
    """Return the names of the classes, one in each line of a file; None if there is no file."""
    for file in tree.files:
        if PurePosixPath(file).name in CLASS_NAME_FILES:
            text = tree.read_unpacked(file).decode("utf-8-sig", "replace")
            return [line.strip() for line in text.splitlines() if line.strip()]
    return None
