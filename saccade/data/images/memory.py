"""Images in memory, written to an archive from which a run can be resumed and evaluated."""

import io
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from saccade.data.images.captions import open_captions
from saccade.data.images.decode import RawImage, UnreadableImage, image_of_pixels
from saccade.data.images.labelled import LabelledImages, refuse_rows
from saccade.data.images.readers import TEXT_OF_TASK, open_images
from saccade.data.task_records import RoleOptions
from saccade.errors import DataError

LABELS_FILE = "labels.jsonl"


def write_images(data: object, path: Path, task: str, columns: RoleOptions) -> Path:
    """Write images in memory as PNG into an archive, with a table of them; return its path.

    Files in memory (bytes), and those at paths, are written as they are.

    Args:
        data: arrays, pairs, or a table, as `saccade.train` takes them for the task.
        path: path of the archive without the suffix .zip.
        task: name of the task, which has the role of the text of each image.
        columns: names of the columns, where they are given.
    """
    role = TEXT_OF_TASK[task]
    if task == "caption":
        captioned = open_captions(data, columns)
        images, texts = captioned.images, captioned.captions
    else:
        images = open_images(data, columns, task=task)
        texts = [(label,) for label in images.labels]
    names = {"image": "image", role: role} | images.columns
    names |= {each: str(given) for each in names if (given := getattr(columns, each)) is not None}
    return _write_archive(images, texts, (names["image"], names[role]), path)


def _write_archive(
    images: LabelledImages, texts: Sequence[Sequence[str]], columns: tuple[str, str], path: Path
) -> Path:
    """Write images and a table with a row for each text of an image."""
    if not len(images):
        raise DataError("got no images; expected at least one.")
    path = path.with_name(f"{path.name}.zip")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    lines, complaints = [], []
    with zipfile.ZipFile(part, "w") as archive:
        for row, of_image in enumerate(texts):
            name = f"{row:07}.png"
            try:
                archive.writestr(zipfile.ZipInfo(name), _content(images.read(row)))
            except UnreadableImage as error:
                complaints.append(f"{images.names[row]}: {error}.")
            for text in of_image:
                values = dict(zip(columns, (name, text), strict=True))
                lines.append(json.dumps(values if text else {columns[0]: name}, ensure_ascii=False))
        archive.writestr(zipfile.ZipInfo(LABELS_FILE), "".join(f"{line}\n" for line in lines))
    if complaints:
        part.unlink()
    refuse_rows(images.name, complaints)
    os.replace(part, path)
    return path


def _content(raw: RawImage) -> bytes:
    if isinstance(raw, bytes):
        return raw
    image = raw if isinstance(raw, Image.Image) else image_of_pixels(np.asarray(raw))
    content = io.BytesIO()
    if image.mode not in ("1", "L", "LA", "I", "P", "RGB", "RGBA"):
        image = image.convert("RGB")
    image.save(content, "PNG")
    return content.getvalue()
