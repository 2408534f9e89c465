"""Labelled images of a folder, an archive, a table, idx files, CIFAR-10 batches, or in memory.

    folder, archive   one sub-folder per class; train/, dev/ and test/ above them are splits
    table             CSV, TSV, JSON lines, …: paths, relative to its folder, and classes
    arrays            train-images-idx3-ubyte[.gz] with labels; data_batch_1.bin
    memory            arrays (N, Y, X[, C]) with labels, (image, label) pairs, or a table; an image
                      may be a path, relative to the working folder

A task that learns without labels takes the same sources, a folder without sub-folders, a table
without a column of classes, and an array of images; the class of an image without one is "".

Nothing is decoded here: `LabelledImages.read` returns the bytes of a file, or pixels.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from saccade.data.images.arrays import (
    UNLABELLED,
    find_array_files,
    read_array_images,
    read_class_names,
)
from saccade.data.images.decode import RawImage, UnreadableImage
from saccade.data.images.in_memory import images_in_memory
from saccade.data.images.labelled import LabelledImages, decodable, refuse_rows
from saccade.data.images.trees import FileTree, check_tree, common_folder, files_near, open_tree
from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.open import ADDRESSES, divide_name, open_records
from saccade.data.records.role_names import IMAGE_FILE_SUFFIXES, SPLIT_ALIASES
from saccade.data.records.roles import AskColumn
from saccade.data.task_records import describe_records, find_roles
from saccade.errors import DataError
from saccade.io.byte_source import plain_suffix
from saccade.io.file_kinds import special_kind
from saccade.io.signatures import binary_kind

TABLE_SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv", ".xlsx")
# role of the text of each image
TEXT_OF_TASK = {"caption": "caption", "contrastive": "label", "image": "label"}
MAX_NAMED_FILES = 3
SIGNATURE_BYTES = 64
UNLABELLED_TASKS = ("contrastive",)  # which need no classes
ADDRESS_REASON = "got an address; expected the path of a file; try to download it first"


def open_images(
    data: str | Path | object,
    options: ReadOptions,
    *,
    is_other: bool = False,
    ask: AskColumn | None = None,
    task: str = "image",
) -> LabelledImages:
    """Open labelled images; see the module for the kinds of sources.

    Args:
        data: a path, or an object in memory.
        options: settings of the data, with the columns of a table.
        is_other: True for other data than that of the settings.
        ask: function that asks the user which column has a role.
        task: name of the task, which has the roles of columns, and whether labels are needed.
    """
    needs_labels = task not in UNLABELLED_TASKS
    if not isinstance(data, str | os.PathLike):
        data = list(data) if isinstance(data, Iterator) else data
        if (found := images_in_memory(data, needs_labels)) is not None:
            return found
        return _open_table(open_records(data), None, options, is_other, ask, task)
    path, table = _local_path(data)
    tree = open_tree(path)
    if tree is None and find_array_files([os.path.basename(path)]):
        return _open_arrays(files_near(Path(path)), [os.path.basename(path)], needs_labels)
    if tree is None and plain_suffix(path) in IMAGE_FILE_SUFFIXES:
        raise DataError(
            f"{path}: got one image; expected a folder with a sub-folder for each class, or a "
            "table of paths and labels; for its class, try saccade predict RUN "
            f"{path}"
        )
    if tree is None:
        folder = files_near(Path(path))
        records = open_records(data, options)
        return _open_table(records, folder, options, is_other, ask, task)
    check_tree(tree, needs_labels)
    if arrays := find_array_files(list(tree.files)):
        return _open_arrays(tree, arrays, needs_labels)
    if table := _table_in(tree, table):
        records = open_records(tree.table_name(table), options)
        return _open_table(records, tree, options, is_other, ask, task, _folder_of(table))
    return _open_class_folders(tree, needs_labels)


def _local_path(data: str | os.PathLike[str]) -> tuple[str, str | None]:
    """Return a path and the table in it that is named after "#"; DataError for an address."""
    path = os.fspath(data)
    if path.startswith(ADDRESSES):
        raise DataError(
            f"got the address {path}; expected a folder, an archive or a table on this machine; "
            "try to download it first."
        )
    folder, member = divide_name(path)
    return (path, None) if member is None else (str(folder), member)


def open_image_table(
    data: str | Path | object,
    options: ReadOptions,
    task: str,
    *,
    is_other: bool = False,
    ask: AskColumn | None = None,
) -> LabelledImages:
    """Open a table of paths of images and a text for each, the label or the caption of a task.

    A folder or an archive has the table at its root. Arguments as in `open_images`.
    """
    if not isinstance(data, str | os.PathLike):
        return _open_table(open_records(data), None, options, is_other, ask, task)
    path, member = _local_path(data)
    tree = open_tree(path)
    if tree is None:
        folder = files_near(Path(path))
        records = open_records(data, options)
        return _open_table(records, folder, options, is_other, ask, task)
    table = _table_in(tree, member)
    if table is None:
        raise DataError(
            f"{path}: got no table of paths and {TEXT_OF_TASK[task]}s; expected one at its root, "
            "such as captions.tsv."
        )
    records = open_records(tree.table_name(table), options)
    return _open_table(records, tree, options, is_other, ask, task, _folder_of(table))


def has_images(path: str) -> bool:
    """Return True for a folder or an archive whose files are images, or for an idx file."""
    if not os.path.exists(path) or special_kind(path) not in (None, "a folder"):
        return False
    if not os.path.isdir(path) and find_array_files([os.path.basename(path)]):
        return True
    try:
        tree = open_tree(path)
    except DataError:
        return False  # the reader of tables has the message
    if tree is None:
        return False
    images = sum(plain_suffix(name) in IMAGE_FILE_SUFFIXES for name in tree.files)
    return 2 * images > len(tree.files) or bool(find_array_files(list(tree.files)))


def find_images(text: str) -> list[str]:
    """Return the paths of the images in a folder or that match a pattern; a path as it is.

    Raises:
        DataError: if there are none.
    """
    if os.path.isdir(text):
        tree = open_tree(text)
        assert tree is not None
        found = [tree.label(name) for name in _choose_images(tree)[0]]
    elif not os.path.exists(text) and any(character in text for character in "*?["):
        matches = sorted(glob.glob(os.path.expanduser(text), recursive=True))
        found = [path for path in matches if os.path.isfile(path)]
    else:
        return [text]
    if not found:
        raise DataError(f"{text}: got no image; expected one or more; try another folder.")
    return found


# --- folders --------------------------------------------------------------------------------------


def _open_class_folders(tree: FileTree, needs_labels: bool) -> LabelledImages:
    images, others = _choose_images(tree)
    enclosing = common_folder(images)
    paths = [PurePosixPath(name.removeprefix(enclosing)).parts for name in images]
    splits: list[str | None] | None = None
    tops = {parts[0].casefold() for parts in paths if len(parts) > 1}
    if "train" in {SPLIT_ALIASES.get(top) for top in tops} and tops <= SPLIT_ALIASES.keys():
        if all(len(parts) > 2 for parts in paths):
            splits = [SPLIT_ALIASES[parts[0].casefold()] for parts in paths]
            paths = [parts[1:] for parts in paths]
    loose = [name for name, parts in zip(images, paths, strict=True) if len(parts) < 2]
    if not images:
        expected = "a sub-folder of images for each class, such as cat/1.jpg"
        raise DataError(
            f"{tree.name}: got no image{_named(others)}; expected "
            f"{expected if needs_labels else 'images, such as 1.jpg'}."
        )
    if needs_labels and len(loose) == len(images):
        raise DataError(
            f"{tree.name}: got {len(images):,} images without a class ({_listed(loose)}); expected "
            "a sub-folder for each class, such as cat/1.jpg; or try a table of paths and labels."
        )
    kept = [row for row, parts in enumerate(paths) if len(parts) > 1 or not needs_labels]
    notes = []
    if others:
        notes.append(
            f"{tree.name}: left out {len(others):,} files that are no images{_named(others)}."
        )
    if loose and needs_labels:
        notes.append(
            f"{tree.name}: left out {len(loose):,} images outside of the sub-folders of the "
            f"classes ({_listed(loose)})."
        )
    names = [images[row] for row in kept]
    return LabelledImages(
        tree.name,
        [decodable(tree.label(name)) for name in names],
        [decodable(paths[row][0]) if len(paths[row]) > 1 else "" for row in kept],
        lambda row: tree.read(names[row]),
        None if splits is None else [splits[row] for row in kept],
        notes=notes,
    )


def _choose_images(tree: FileTree) -> tuple[list[str], list[str]]:
    """Return the images by suffix or by their first bytes, and the other files."""
    images: list[str] = []
    others: list[str] = []
    for name in tree.files:
        is_image = plain_suffix(name) in IMAGE_FILE_SUFFIXES or _has_signature(tree, name)
        (images if is_image else others).append(name)
    return images, others


def _has_signature(tree: FileTree, name: str) -> bool:
    try:
        start = tree.read(name)[:SIGNATURE_BYTES]
    except UnreadableImage:
        return False
    return binary_kind(start).endswith(" image") or start[8:12] == b"WEBP"


def _named(files: Sequence[str]) -> str:
    return f" ({_listed(files)})" if files else ""


def _listed(files: Sequence[str]) -> str:
    more = ", …" if len(files) > MAX_NAMED_FILES else ""
    return ", ".join(files[:MAX_NAMED_FILES]) + more


# --- tables ---------------------------------------------------------------------------------------


def find_image_table(path: str) -> str | None:
    """Return the name by which `open_records` opens the table of a folder or archive of images."""
    tree = open_tree(path)
    table = None if tree is None else _table_in(tree)
    return None if tree is None or table is None else tree.table_name(table)


def _table_in(tree: FileTree, given: str | None = None) -> str | None:
    """Return the only table at the root of a tree, or in the folder that encloses all files."""
    if given is not None and given.removeprefix(tree.prefix) in tree.files:
        return given.removeprefix(tree.prefix)
    tops = {name.split("/")[0] for name in tree.files}
    enclosing = f"{tops.pop()}/" if len(tops) == 1 else ""
    for folder in dict.fromkeys(("", enclosing)):
        inside = [name for name in tree.files if _folder_of(name) == folder]
        tables = [name for name in inside if plain_suffix(name) in TABLE_SUFFIXES]
        if len(tables) == 1:
            return tables[0]
    return None


def _folder_of(name: str) -> str:
    folder, slash, _ = name.rpartition("/")
    return folder + slash


def _open_table(
    records: Records,
    tree: FileTree | None,
    options: ReadOptions,
    is_other: bool,
    ask: AskColumn | None,
    task: str,
    folder: str = "",
) -> LabelledImages:
    """Open the images of a table; their paths are relative to its folder, and inside of the tree.

    `folder` is that of the table, in the tree.
    """
    opened = find_roles(records, options, task, is_other=is_other, ask=ask)
    needs_labels, text = task not in UNLABELLED_TASKS, TEXT_OF_TASK[task]
    paths: list[str] = []
    labels: list[str] = []
    numbers: list[int] = []
    complaints: list[str] = []
    image, label = opened.columns["image"], opened.columns.get(text)
    for chunk in records.chunks([image] if label is None else [image, label]):
        of_rows = [None] * len(chunk.numbers) if label is None else chunk.columns[label]
        for number, path, name in zip(
            chunk.numbers.tolist(), chunk.columns[image], of_rows, strict=True
        ):
            try:
                paths.append(_inside(path or "", tree, folder))
                labels.append(_text_of(name, text, needs_labels))
                numbers.append(number)
            except ValueError as error:
                complaints.append(f"{records.where(number)}: {error}.")
    refuse_rows(records.name, complaints)
    if not paths:
        raise DataError(f"{records.name}: got no rows; expected paths of images and {text}s.")
    files = files_near(Path("x")) if tree is None else tree

    def read(row: int) -> RawImage:
        return files.read(paths[row])

    return LabelledImages(
        records.name,
        paths if tree is None else [tree.label(path) for path in paths],
        labels,
        read,
        records=records,
        numbers=np.array(numbers, np.int64),
        columns=opened.columns,
        choices=opened.choices,
        notes=describe_records(records),
    )


def _text_of(name: str | None, text: str, is_needed: bool) -> str:
    """Return the label or the caption of a row; ValueError if there is none."""
    if is_needed and not (name or "").strip():
        raise ValueError(f"got no {text}; expected one; fill it in, or remove the row")
    return name or ""


def _inside(path: str, tree: FileTree | None, folder: str) -> str:
    """Return a path of a table in a folder of a tree; ValueError if it leads out of the tree."""
    path = path.strip()
    if not path:
        raise ValueError("got no path of an image; expected one; fill it in, or remove the row")
    if path.startswith(ADDRESSES):
        raise ValueError(f"{ADDRESS_REASON} ({path:.200})")
    path = path.replace("\\", "/")
    if tree is None:
        return os.path.expanduser(path)
    inside = os.path.join(folder, path)
    if os.path.isabs(path) and not tree.is_archive:
        inside = os.path.relpath(path, os.path.abspath(tree.name))
    inside = os.path.normpath(inside).replace(os.sep, "/")
    if inside.startswith("../") or inside == ".." or os.path.isabs(inside):
        raise ValueError(
            f"got {path!r}, which is outside of {tree.name}; expected images in the folder of the "
            "table; try to put the table into a folder above its images"
        )
    return inside


# --- arrays ---------------------------------------------------------------------------------------


def _open_arrays(tree: FileTree, files: Sequence[str], needs_labels: bool) -> LabelledImages:
    parts = [read_array_images(tree, file, needs_labels) for file in files]
    class_names = read_class_names(tree) or []
    names, labels, splits, rows = [], [], [], []
    for number, part in enumerate(parts):
        names += [f"{tree.label(part.file)}#{row}" for row in range(len(part.pixels))]
        labels += [_class_name(value, class_names) for value in part.classes.tolist()]
        splits += [part.split] * len(part.pixels)
        rows += [(number, row) for row in range(len(part.pixels))]

    def read(row: int) -> RawImage:
        number, index = rows[row]
        return parts[number].pixels[index]

    is_divided = {*splits} >= {"train", "test"}
    return LabelledImages(tree.name, names, labels, read, splits if is_divided else None)


def _class_name(value: int, names: Sequence[str]) -> str:
    if value == UNLABELLED:
        return ""
    return names[value] if value < len(names) else str(value)


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key by which "10" follows "9"."""
    parts = re.split(r"(\d+)", text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part)
