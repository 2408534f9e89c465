"""Images in memory, written to an archive from which a run can be resumed and evaluated."""

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from saccade.data.images.decode import RawImage, UnreadableImage, image_of_pixels
from saccade.data.images.readers import images_in_memory
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
    if not len(images):
        raise DataError("got no images; expected at least one.")
    path = path.with_name(f"{path.name}.zip")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    lines = []
    with zipfile.ZipFile(part, "w") as archive:
        for row, label in enumerate(images.labels):
            name = f"{row:07}.png"
            archive.writestr(zipfile.ZipInfo(name), _encode(images.read(row), images.names[row]))
            row_values = {"image": name} | ({"label": label} if label else {})
            lines.append(json.dumps(row_values, ensure_ascii=False) + "\n")
        archive.writestr(zipfile.ZipInfo(LABELS_FILE), "".join(lines))
    os.replace(part, path)
    return path


def _encode(raw: RawImage, name: str) -> bytes:
    if isinstance(raw, bytes):
        return raw
    try:
        image = raw if isinstance(raw, Image.Image) else image_of_pixels(np.asarray(raw))
    except UnreadableImage as error:
        raise DataError(f"{name}: {error}.") from None
    content = io.BytesIO()
    image = (
        image if image.mode in ("1", "L", "LA", "I", "P", "RGB", "RGBA") else image.convert("RGB")
    )
    image.save(content, "PNG")
    return content.getvalue()
