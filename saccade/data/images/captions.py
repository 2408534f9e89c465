"""Images with captions: of a table, generated scenes, Flickr8k, or in memory.

    table      CSV, TSV, JSON lines, …: a row for each caption; the rows of one image need not be
               next to each other
    scenes     generated, see `scenes`
    flickr8k   Flickr8k.token.txt (NAME#NUMBER TAB CAPTION), lists of images for each split, and the
               photos (Flickr8k_Dataset.zip) or thumbnails of some of them (SPLIT_64px.tar)
    memory     (image, caption) or (image, captions); an image may be a path

A caption is compared, and learned, as its words in lower case without punctuation.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from saccade.data.datasets import DatasetInfo, dataset_folder, fetch_dataset
from saccade.data.images.decode import RawImage
from saccade.data.images.in_memory import (
    columns_in_memory,
    is_image_value,
    is_raw_image,
    memory_names,
    read_memory_image,
)
from saccade.data.images.labelled import LabelledImages, refuse_rows
from saccade.data.images.readers import open_image_table
from saccade.data.images.scenes import HELD_OUT_SCENES, Region, make_scene, scene_split
from saccade.data.images.trees import FileTree, open_tree
from saccade.data.records.base import ReadOptions
from saccade.data.records.roles import AskColumn
from saccade.data.splits import SPLIT_NAMES
from saccade.data.tokenizers import normalise
from saccade.data.word_splitting import join_words, split_words
from saccade.errors import DataError
from saccade.io.text_files import read_lines

DEFAULT_SCENES = 20_000  # for training
SCENES = "scenes"


@dataclass(frozen=True, eq=False)
class CaptionedImages:
    """Images, each of them once, with one caption or more."""

    images: LabelledImages  # the label of an image is its first caption
    captions: Sequence[tuple[str, ...]]
    regions: Sequence[tuple[Region, ...]] | None = None  # what words name, of generated scenes


def caption_words(caption: str) -> list[str]:
    """Return the words of a caption in lower case, without punctuation."""
    words = split_words(normalise(caption).lower())
    return [word for word in words if any(letter.isalnum() for letter in word)]


def normalise_caption(caption: str) -> str:
    """Return a caption in the form in which captions are learned and compared."""
    return join_words(caption_words(caption))


def group_captions(rows: LabelledImages) -> CaptionedImages:
    """Return the images of rows, each once, with the captions of all its rows."""
    first: dict[str, int] = {}
    captions: dict[str, dict[str, None]] = {}
    complaints = []
    for row, (name, caption) in enumerate(zip(rows.names, rows.labels, strict=True)):
        text = normalise_caption(caption)
        if not text:
            where = rows.name
            if rows.records is not None and rows.numbers is not None:
                where = rows.records.where(int(rows.numbers[row]))
            complaints.append(
                f"{where}: got {caption!r:.60} as a caption of {name}; expected words; fill it in, "
                "or remove the row."
            )
        first.setdefault(name, row)
        captions.setdefault(name, {})[text] = None  # the same caption twice counts once
    refuse_rows(rows.name, complaints)
    kept = list(first.values())
    images = replace(
        rows,
        names=list(first),
        labels=[next(iter(texts)) for texts in captions.values()],
        read=lambda row: rows.read(kept[row]),
        splits=None if rows.splits is None else [rows.splits[row] for row in kept],
        numbers=None if rows.numbers is None else rows.numbers[kept],
    )
    return CaptionedImages(images, [tuple(texts) for texts in captions.values()])


def open_captions(
    data: str | Path | object,
    options: ReadOptions,
    *,
    is_other: bool = False,
    ask: AskColumn | None = None,
) -> CaptionedImages:
    """Open images with captions of a table or in memory; arguments as in `open_images`."""
    if not isinstance(data, str | os.PathLike):
        data = list(data) if isinstance(data, Iterator) else data
        found = captions_in_memory(data)
        if found is not None:
            return found
    return group_captions(open_image_table(data, options, "caption", is_other=is_other, ask=ask))


# --- memory ---------------------------------------------------------------------------------------


def captions_in_memory(data: object) -> CaptionedImages | None:
    """Return (image, caption) or (image, captions) pairs, or arrays; None for other objects.

    Arrays are a pair (images, captions), or columns image and caption of a mapping or a frame.
    """
    columns = columns_in_memory(data, "caption")
    if columns is None:
        if getattr(data, "ndim", 0) >= 3:
            raise DataError(
                "got an array of images without captions; expected (images, captions), or a list "
                "of (image, caption)."
            )
        if not isinstance(data, Sequence) or isinstance(data, str | bytes) or not len(data):
            return None
        if not all(map(_is_pair, data)):
            return None
        columns = [pair[0] for pair in data], [pair[1] for pair in data]
    images, given = columns
    if len(images) != len(given):
        raise DataError(
            f"got {len(images):,} images and {len(given):,} captions; expected as many of both; "
            "several captions of an image are a list."
        )
    names = memory_names(images)
    texts = [list(some) if isinstance(some, tuple | list) else [some] for some in given]
    refuse_rows(
        "the images",
        [
            f"{name}: got {some!r:.80} as captions; expected one text or more, with words."
            for name, some in zip(names, texts, strict=True)
            if not some or not all(isinstance(t, str) and caption_words(t) for t in some)
        ],
    )
    rows = [number for number, some in enumerate(texts) for _ in some]
    return group_captions(
        LabelledImages(
            "the images",
            [names[row] for row in rows],
            [text for some in texts for text in some],
            lambda row: read_memory_image(images[rows[row]]),
        )
    )


def _is_pair(pair: object) -> bool:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return False
    image, given = pair
    if isinstance(image, str | os.PathLike):  # of other pairs, columns are found by contents
        return is_image_value(image) or isinstance(given, tuple | list)
    return is_raw_image(image)


# --- generated scenes -----------------------------------------------------------------------------


def load_scenes(size: int | None = None) -> CaptionedImages:
    """Return generated scenes: 500 for test, 500 for dev, and `size` for training."""
    count = 2 * HELD_OUT_SCENES + (size or DEFAULT_SCENES)
    scenes = [make_scene(number) for number in range(count)]
    images = LabelledImages(
        SCENES,
        [f"{SCENES}#{number}" for number in range(count)],
        [scene.caption for scene in scenes],
        lambda row: scenes[row].pixels,
        [scene_split(number) for number in range(count)],
    )
    return CaptionedImages(
        images,
        [(scene.caption,) for scene in scenes],
        [scene.regions for scene in scenes],
    )


SYNTHETIC_CAPTIONS = {SCENES: load_scenes}


# --- Flickr8k -------------------------------------------------------------------------------------


def open_published_captions(dataset: DatasetInfo) -> CaptionedImages:
    """Return Flickr8k with the publisher's splits; of thumbnails, the images that there are."""
    folder = dataset_folder(dataset)
    thumbnails = {split: sorted(folder.glob(f"{split}_64px.tar*")) for split in SPLIT_NAMES}
    has_thumbnails = all(thumbnails.values())
    texts = tuple(file for file in dataset.files if file.name.endswith(".txt"))
    needed = replace(dataset, files=texts) if has_thumbnails else dataset
    paths, notes = fetch_dataset(needed)
    captions: dict[str, list[str]] = {}
    for line in read_lines(paths["Flickr8k.token.txt"]):
        name, _, caption = line.partition("\t")
        captions.setdefault(name.rpartition("#")[0], []).append(caption)
    names, labels, splits, trees = [], [], [], []
    for split in SPLIT_NAMES:
        path = thumbnails[split][0] if has_thumbnails else paths["Flickr8k_Dataset.zip"]
        tree = open_tree(path)
        if tree is None:
            raise DataError(f"{path}: got no archive; expected the images of {dataset.name}.")
        members = {PurePosixPath(member).name: member for member in tree.files}
        for name in _names(paths[f"Flickr_8k.{split}Images.txt"]):
            if name in members:
                for caption in captions.get(name, ()):
                    names.append(tree.label(members[name]))
                    labels.append(caption)
                    splits.append(split)
                    trees.append((tree, members[name]))
    if has_thumbnails:
        notes = [*notes, f"{dataset.name}: read thumbnails of 64 × 64 pixels in {folder}."]
    rows = LabelledImages(dataset.name, names, labels, _reader(trees), splits, notes=notes)
    return group_captions(rows)


def _names(path: Path) -> list[str]:
    return [line.strip() for line in read_lines(path) if line.strip()]


def _reader(members: Sequence[tuple[FileTree, str]]) -> Callable[[int], RawImage]:
    def read(row: int) -> RawImage:
        tree, member = members[row]
        return tree.read(member)

    return read
