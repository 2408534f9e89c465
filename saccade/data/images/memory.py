"""Images in memory, written to an archive from which a run can be resumed and evaluated."""

import io
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from saccade.data.images.captions import captions_in_memory
from saccade.data.images.decode import RawImage, UnreadableImage, image_of_pixels
from saccade.data.images.readers import LabelledImages, images_in_memory
from saccade.errors import DataError

LABELS_FILE = "labels.jsonl"


def write_images(data: object, path: Path, needs_labels: bool = True) -> Path | None:
    """Write images in memory as PNG into an archive; return its path, None for other objects.

    Files in memory (bytes) are written as they are. `path` is without the suffix .zip. Without
    `needs_labels`, images may have no class.
    """
    images = images_in_memory(data, needs_labels)
    if images is None:
        return None
    return _write_archive(images, [[label] for label in images.labels], "label", path)


def write_captions(data: object, path: Path) -> Path | None:
    """Write images in memory, or those at paths, with their captions, as `write_images` does."""
    captioned = captions_in_memory(data)
    if captioned is None:
        return None
    return _write_archive(captioned.images, captioned.captions, "caption", path)


def _write_archive(
    images: LabelledImages, texts: Sequence[Sequence[str]], role: str, path: Path
) -> Path:
    """Write images and a table with a row for each text of an image."""
    if not len(images):
        raise DataError("got no images; expected at least one.")
    path = path.with_name(f"{path.name}.zip")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    lines = []
    with zipfile.ZipFile(part, "w") as archive:
        for row, of_image in enumerate(texts):
            name = f"{row:07}.png"
            archive.writestr(zipfile.ZipInfo(name), _read(images, row))
            lines += [
                json.dumps({"image": name} | ({role: text} if text else {}), ensure_ascii=False)
                + "\n"
                for text in of_image
            ]
        archive.writestr(zipfile.ZipInfo(LABELS_FILE), "".join(lines))
    os.replace(part, path)
    return path


def _read(images: LabelledImages, row: int) -> bytes:
    try:
        raw: RawImage = images.read(row)
        if isinstance(raw, bytes):
            return raw
        image = raw if isinstance(raw, Image.Image) else image_of_pixels(np.asarray(raw))
    except UnreadableImage as error:
        raise DataError(f"{images.names[row]}: {error}.") from None
    content = io.BytesIO()
    image = (
        image if image.mode in ("1", "L", "LA", "I", "P", "RGB", "RGBA") else image.convert("RGB")
    )
    image.save(content, "PNG")
    return content.getvalue()
