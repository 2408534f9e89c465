"""Built-in and published images: digits, generated corners, Fashion-MNIST, CIFAR-10."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from saccade.data.datasets import DatasetInfo, dataset_folder, fetch_dataset, is_local
from saccade.data.images.arrays import find_array_files
from saccade.data.images.corners import load_corner_images
from saccade.data.images.decode import RawImage, UnreadableImage
from saccade.data.images.digits import load_digits
from saccade.data.images.labelled import LabelledImages
from saccade.data.images.readers import ADDRESS_REASON, open_images
from saccade.data.images.scenes import make_scene
from saccade.data.images.trees import ARCHIVE_BYTES, open_tree, read_image_file
from saccade.data.records.base import ReadOptions
from saccade.data.records.open import ADDRESSES
from saccade.errors import DataError
from saccade.io.archives import archive_kind
from saccade.types.progress import ProgressCallback


def load_digit_images() -> LabelledImages:
    """Return the handwritten digits of scikit-learn."""
    pixels, classes = load_digits()
    names = [f"digits#{row}" for row in range(len(pixels))]
    return LabelledImages("digits", names, list(map(str, classes)), pixels.__getitem__)


SYNTHETIC_IMAGES: dict[str, Callable[[], LabelledImages]] = {
    "corners": load_corner_images,
    "digits": load_digit_images,
}


def open_published_images(
    dataset: DatasetInfo, on_progress: ProgressCallback = lambda done, total: None
) -> LabelledImages:
    """Return the images of a published dataset with the publisher's splits."""
    subset = _subset_folder(dataset)
    if subset is not None and not is_local(dataset):
        parts = {split: open_images(_archive(subset, split), ReadOptions()) for split in SPLITS}
        note = f"{dataset.name}: read {subset}, a part of it as JPEG."
        found = combine_splits(dataset.name, parts)
        return replace(found, notes=[*found.notes, note])
    _, notes = fetch_dataset(dataset, on_progress)
    folder = dataset_folder(dataset)
    [first, *_] = dataset.files
    path = next(iter(sorted(folder.glob(f"{first.name}*")))) if len(dataset.files) == 1 else folder
    found = open_images(path, ReadOptions())
    if dataset.classes:
        names = dict(zip(map(str, range(len(dataset.classes))), dataset.classes, strict=True))
        found = replace(found, labels=[names.get(label, label) for label in found.labels])
    return replace(found, name=dataset.name, notes=[*found.notes, *notes])


def read_image(name: str) -> RawImage:
    """Return an image by its name: a path, a member of an archive, or a row of an array.

    Names are those that runs report: cat/1.jpg, photos.zip#cat/1.jpg, train-images-idx3-ubyte#7,
    and digits#7 or scenes#7 for built-in images.

    Raises:
        UnreadableImage: if there is no such image.
    """
    if name.startswith(ADDRESSES):
        raise UnreadableImage(ADDRESS_REASON)
    path, _, part = name.rpartition("#")
    if not part or not path or os.path.exists(name):
        return _read_file(name)
    try:
        if path == "scenes" and part.isdecimal() and len(part) <= MAX_SCENE_FIGURES:
            return make_scene(int(part)).pixels
        if path in SYNTHETIC_IMAGES:
            return _row(SYNTHETIC_IMAGES[path](), part)
        if not os.path.isfile(path):
            raise UnreadableImage("got no such file")
        tree = open_tree(path)
        if tree is not None:
            return tree.read(part)
        return _row(open_images(path, ReadOptions(), task="contrastive"), part)  # without labels
    except DataError as error:
        raise UnreadableImage(str(error).removesuffix(".")) from None


def _read_file(name: str) -> bytes:
    content = read_image_file(Path(os.path.expanduser(name)))
    if archive_kind(content[:ARCHIVE_BYTES]):
        raise UnreadableImage(f"got an archive; expected an image; try {name}#cat/1.jpg")
    if find_array_files([os.path.basename(name)]):
        raise UnreadableImage(f"got an array of images; expected an image; try {name}#0")
    return content


def _row(images: LabelledImages, number: str) -> RawImage:
    if not number.isdecimal() or int(number) >= len(images):
        raise UnreadableImage(f"got the row {number}; expected 0 to {len(images) - 1:,}")
    return images.read(int(number))


MAX_SCENE_FIGURES = 9  # of the number of a scene
SPLITS = ("train", "test")


def _subset_folder(dataset: DatasetInfo) -> Path | None:
    root = os.environ.get("SACCADE_DATA")
    if not root or not dataset.subset:
        return None
    folder = Path(root) / dataset.subset
    return folder if folder.is_dir() else None


def _archive(folder: Path, split: str) -> Path:
    found = sorted(folder.glob(f"{split}.*"))
    if not found:
        raise DataError(f"{folder}: got no archive {split}.tar; expected one for each split.")
    return found[0]


def combine_splits(name: str, parts: Mapping[str, LabelledImages]) -> LabelledImages:
    """Return the images of several sources, each of which is a split."""
    starts = np.cumsum([0, *map(len, parts.values())])
    sources = list(parts.values())

    def read(row: int) -> RawImage:
        source = int(np.searchsorted(starts, row, side="right")) - 1
        return sources[source].read(row - int(starts[source]))

    train = parts.get("train")
    return LabelledImages(
        name,
        [image for part in sources for image in part.names],
        [label for part in sources for label in part.labels],
        read,
        [split for split, part in parts.items() for _ in range(len(part))],
        records=None if train is None else train.records,
        numbers=None if train is None else train.numbers,
        columns={} if train is None else train.columns,
        choices=[] if train is None else train.choices,
        notes=[note for part in sources for note in part.notes],
    )
