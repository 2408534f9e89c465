r"""Image files to pixels: Pillow, in a pool of threads.

The size of an image is read from its header and checked before its pixels are decoded. Pixels are
8-bit, grey or RGB:

    EXIF orientation   applied
    16 bits            v · 255 / 65535, rounded
    palette, CMYK, …   converted to RGB
    transparency       blended over white
"""

import io
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from saccade.data.images.config import MAX_IMAGE_PIXELS, FitName
from saccade.types.arrays import ByteArray

MIN_IMAGE_SIDE = 2
MAX_IMAGE_BYTES = 1 << 29  # of an image file
DRAFT_FACTOR = 2  # a JPEG is decoded at a reduced size that is still this much larger
DECODED_TOGETHER = 32  # images that a thread takes at a time
POSTSCRIPT_STARTS = (b"%!PS", b"\xc5\xd0\xd3\xc6")  # Pillow would run Ghostscript on such a file

RawImage = bytes | NDArray[np.generic] | Image.Image
_filters_lock = threading.Lock()  # filters of warnings belong to the process


class ImageForm(NamedTuple):
    """Form of stored images: side of the square, channels (1 grey, 3 RGB), and how they fit."""

    size: int
    channels: int
    fit: FitName = "crop"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.size, self.size, self.channels


class ImageHeader(NamedTuple):
    """Size of an image before it is decoded, and whether it is grey."""

    width: int
    height: int
    is_grey: bool


class UnreadableImage(Exception):
    """An image that cannot be decoded; the text is the reason."""


class DecodedImage(NamedTuple):
    """Pixels (Y, X, C) of one image; None and the reason if it cannot be decoded."""

    pixels: ByteArray | None
    error: str = ""


def open_image(raw: RawImage, max_pixels: int = MAX_IMAGE_PIXELS) -> Image.Image:
    """Open an image file, pixels or a Pillow image; pixels of a file are not decoded yet.

    Raises:
        UnreadableImage: if it is no image, or its size is refused.
    """
    if isinstance(raw, bytes):
        image = _open_file(raw, max_pixels)
    elif isinstance(raw, Image.Image):
        image = raw
    else:
        image = image_of_pixels(raw)
    width, height = image.size
    if width * height > max_pixels:
        raise UnreadableImage(_too_large(f"{width:,} × {height:,}", max_pixels))
    if min(width, height) < MIN_IMAGE_SIDE:
        raise UnreadableImage(
            f"got {width} × {height} pixels; expected at least {MIN_IMAGE_SIDE} × {MIN_IMAGE_SIDE}"
        )
    return image


def _open_file(content: bytes, max_pixels: int) -> Image.Image:
    if not content:
        raise UnreadableImage("got an empty file (0 bytes)")
    if content.startswith(POSTSCRIPT_STARTS):
        raise UnreadableImage("got PostScript, which is not read; expected pixels; try PNG")
    try:
        with _filters_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the size is checked by us
            return Image.open(io.BytesIO(content))
    except Image.DecompressionBombError as error:
        raise UnreadableImage(_too_large(_pixels_of_bomb(error), max_pixels)) from None
    except Exception as error:  # decoders of many formats meet any bytes
        raise UnreadableImage(_reason(error)) from None


def _too_large(size: str, limit: int) -> str:
    return f"got {size} pixels; expected at most {limit:,} in all (data.max_pixels)"


def _pixels_of_bomb(error: Image.DecompressionBombError) -> str:
    """Return the number of pixels of an image of which Pillow refuses the header."""
    found = re.search(r"\d+", str(error))
    return f"{int(found[0]):,}" if found else "too many"


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "got a file that is not an image, or of an unknown format; try JPEG or PNG"
    if isinstance(error, SyntaxError | EOFError | OSError):
        return f"got a damaged or truncated image ({error})"
    return f"got a damaged image ({type(error).__name__}: {error})"


def image_of_pixels(pixels: NDArray[np.generic]) -> Image.Image:
    """Return an array (Y, X), (Y, X, 1), (Y, X, 3) or (Y, X, 4) as a Pillow image.

    Integers are 0 … 255, 16-bit unsigned ones 0 … 65535; real numbers are 0 … 1.
    """
    values = np.asarray(pixels)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (3, 4)):
        raise UnreadableImage(
            f"got an array of shape {np.shape(pixels)}; expected (Y, X), or (Y, X, C) with 1, 3 or "
            f"4 channels{_axes_advice(values)}"
        )
    if not values.size:
        raise UnreadableImage(f"got an array of shape {np.shape(pixels)}, without pixels")
    return Image.fromarray(byte_pixels(values))


def _axes_advice(values: NDArray[np.generic]) -> str:
    is_transposed = values.ndim == 3 and values.shape[0] in (1, 3, 4)
    return "; try image.transpose(1, 2, 0)" if is_transposed else ""


def byte_pixels(values: NDArray[np.generic]) -> ByteArray:
    """Return pixels as 8-bit integers; UnreadableImage if they are out of range."""
    if values.dtype == np.uint8:
        return values.astype(np.uint8, copy=False)
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    if values.dtype.kind not in "uif":
        raise UnreadableImage(f"got pixels of type {values.dtype}; expected numbers")
    top = 1.0 if values.dtype.kind == "f" else 65535.0 if values.dtype == np.uint16 else 255.0
    numbers = values.astype(np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    if not (0 <= low and high <= top):  # NaN too
        raise UnreadableImage(
            f"got pixels from {low:g} to {high:g} of type {values.dtype}; expected 0 to {top:g}"
            f"{_scale_advice(low, high, top)}"
        )
    return np.floor(numbers * (255 / top) + 0.5).astype(np.uint8)


def _scale_advice(low: float, high: float, top: float) -> str:
    return "; try image / 255" if top == 1 and 0 <= low and high <= 255 else ""


def read_header(raw: RawImage, max_pixels: int = MAX_IMAGE_PIXELS) -> ImageHeader:
    """Return size and colours of an image; the pixels of a file are not decoded."""
    image = open_image(raw, max_pixels)
    is_grey = image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;")
    return ImageHeader(*image.size, is_grey)


def decode_image(image: Image.Image, form: ImageForm) -> ByteArray:
    """Return the pixels (Y, X, C) of an opened image in the form of stored images."""
    side = DRAFT_FACTOR * form.size
    try:
        image.draft(None, (side, side))  # None: the same mode
        image = _blended(_upright(image))
        mode = "L" if form.channels == 1 else "RGB"
        # Pillow copies an image that has the mode already
        return np.array(_fitted(image if image.mode == mode else image.convert(mode), form))
    except UnreadableImage:
        raise
    except Exception as error:
        raise UnreadableImage(_reason(error)) from None


def _upright(image: Image.Image) -> Image.Image:
    """Return the image as the camera was held; damaged EXIF data is ignored."""
    image.load()
    try:
        is_upright = image.getexif().get(ExifTags.Base.Orientation, 1) == 1
        return image if is_upright else ImageOps.exif_transpose(image)
    except Exception:
        return image


def _blended(image: Image.Image) -> Image.Image:
    """Return an image of 8 bits without transparency."""
    mode = image.mode
    if mode == "F":
        raise UnreadableImage("got real numbers as pixels; expected integers; try PNG")
    if mode == "I" or mode.startswith("I;"):
        values = np.asarray(image).astype(np.int64)
        is_wide = mode != "I" or values.max(initial=0) > 255
        scaled = values.clip(0, 65535).astype(np.uint16) if is_wide else values.clip(0, 255)
        return Image.fromarray(byte_pixels(scaled if is_wide else scaled.astype(np.uint8)))
    if "A" in image.getbands() or "a" in mode or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image


def _fitted(image: Image.Image, form: ImageForm) -> Image.Image:
    size = (form.size, form.size)
    if image.size == size:
        return image
    if form.fit == "crop":
        return ImageOps.fit(image, size, Image.Resampling.BICUBIC)
    if form.fit == "pad":
        return ImageOps.pad(image, size, Image.Resampling.BICUBIC)
    return image.resize(size, Image.Resampling.BICUBIC)


# --- many images ----------------------------------------------------------------------------------


def decode_images(
    read: Callable[[int], RawImage],
    rows: Sequence[int],
    form: ImageForm,
    max_pixels: int = MAX_IMAGE_PIXELS,
) -> Iterator[DecodedImage]:
    """Yield the images of some rows in order, decoded by a pool of threads.

    Files are read by the calling thread: an archive is read in order. Threads take several images
    at a time, since handing one over takes as long as decoding a small one.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    threads = len(affinity(0)) if affinity else os.cpu_count() or 1
    with ThreadPoolExecutor(threads, "decode_images") as pool:
        waiting: list[Future[list[DecodedImage]]] = []
        for start in range(0, len(rows), DECODED_TOGETHER):
            raw = [_read(read, row) for row in rows[start : start + DECODED_TOGETHER]]
            waiting.append(pool.submit(_decode_some, raw, form, max_pixels))
            if len(waiting) > threads:
                yield from waiting.pop(0).result()
        for some in waiting:
            yield from some.result()


def _read(read: Callable[[int], RawImage], row: int) -> RawImage | UnreadableImage:
    try:
        return read(row)
    except UnreadableImage as error:
        return error


def _decode_some(
    images: Sequence[RawImage | UnreadableImage], form: ImageForm, max_pixels: int
) -> list[DecodedImage]:
    found = []
    for raw in images:
        try:
            if isinstance(raw, UnreadableImage):
                raise raw
            if isinstance(raw, np.ndarray) and _has_form(raw, form):
                pixels = raw.astype(np.uint8, copy=False)
            else:
                pixels = decode_image(open_image(raw, max_pixels), form)
            found.append(DecodedImage(pixels))
        except UnreadableImage as error:
            found.append(DecodedImage(None, str(error)))
    return found


def _has_form(pixels: NDArray[np.generic], form: ImageForm) -> bool:
    """Return True for pixels that need no decoding, those of an idx file for example."""
    shape = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
    return pixels.dtype == np.uint8 and shape == form.shape
