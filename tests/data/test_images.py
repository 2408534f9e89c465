"""Images: sources, decoding, store and augmentation."""

import gzip
import io
import itertools
import json
import math
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from saccade.data.datasets import IMAGE_DATASETS
from saccade.data.images import augment
from saccade.data.images.arrays import CIFAR_RECORD
from saccade.data.images.config import AugmentConfig, ImagesConfig
from saccade.data.images.decode import (
    DecodedImage,
    ImageForm,
    UnreadableImage,
    decode_image,
    decode_images,
    open_image,
    read_header,
)
from saccade.data.images.labelled import LabelledImages
from saccade.data.images.memory import write_images
from saccade.data.images.published import load_digit_images, open_published_images, read_image
from saccade.data.images.readers import natural_key, open_images
from saccade.data.images.store import (
    StoredImages,
    collect_images,
    read_stored_images,
    write_image_index,
)
from saccade.data.images.transform import ImageTransform, channel_statistics, choose_form
from saccade.data.task_records import RoleOptions
from saccade.errors import DataError, RunError

FORM = ImageForm(8, 3)


def noise(seed: int = 0, size: tuple[int, int] = (8, 8), channels: int = 3) -> np.ndarray:
    shape = size if channels == 1 else (*size, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def png(seed: int = 0, size: tuple[int, int] = (8, 8)) -> bytes:
    return encoded(Image.fromarray(noise(seed, size)))


def decoded(content: bytes, form: ImageForm = FORM) -> np.ndarray:
    return decode_image(open_image(content), form)


FILES = {
    f"{label}/{n}.png": png(2 * n + (label == "dog")) for label in ("cat", "dog") for n in (1, 2)
}


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, files: dict[str, bytes], mode: Any = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def contents(images: LabelledImages) -> list[tuple[str, bytes]]:
    found = []
    for row, label in enumerate(images.labels):
        raw = images.read(row)
        assert isinstance(raw, bytes)
        found.append((label, raw))
    return sorted(found)


EXPECTED = sorted((name.split("/")[0], content) for name, content in FILES.items())


# --- sources --------------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", [FILES, {f"photos/all/{n}": c for n, c in FILES.items()}])
@pytest.mark.parametrize(
    "write", [write_zip, write_tar, lambda p, f: write_tar(p, f, "w")], ids=["zip", "gz", "tar"]
)
def test_archives_have_the_images_of_the_folder(
    write: Callable[..., Path], nested: dict[str, bytes], tmp_path: Path
) -> None:
    found = open_images(write(tmp_path / "photos.archive", nested), ImagesConfig())
    assert contents(found) == EXPECTED
    assert (
        contents(open_images(write_folder(tmp_path / "photos", FILES), ImagesConfig())) == EXPECTED
    )
    assert [p.name for p in tmp_path.iterdir()].count("cat") == 0  # nothing is extracted


def test_folders_of_splits_and_other_files(tmp_path: Path) -> None:
    files = {
        f"{split}/{name}": content for split in ("train", "val") for name, content in FILES.items()
    }
    files |= {
        "train/cat/Thumbs.db": b"x",
        "train/cat/.hidden.png": png(),
        "train/dog/renamed": png(9),
    }
    found = open_images(write_folder(tmp_path, files), ImagesConfig())
    assert found.splits is not None
    assert [found.splits.count(split) for split in ("train", "dev")] == [5, 4]
    assert sorted({*found.labels}) == ["cat", "dog"]
    assert found.notes == [
        f"{tmp_path}: left out 1 files that are no images (train/cat/Thumbs.db)."
    ]
    assert contents(found)[-1][0] == "dog"
    assert any(name.endswith("renamed") for name in found.names)  # recognised by its bytes


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.csv", "path,label\r\n{}"),
        ("a.tsv", "filename\tclass\n{}"),
        ("a.jsonl", ""),
        ("no-header.csv", "{}"),
    ],
)
def test_tables_of_paths(name: str, text: str, tmp_path: Path) -> None:
    write_folder(tmp_path, FILES)
    comma = "\t" if name.endswith("tsv") else ","
    rows = [(path, path.split("/")[0]) for path in FILES for _ in range(12)]
    if name.endswith("jsonl"):
        text = "".join(json.dumps({"image": p, "label": label}) + "\n" for p, label in rows)
    else:
        text = text.format("".join(f"{p}{comma}{label}\n" for p, label in rows))
    (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8", newline="")
    options = ImagesConfig(header=False if name.startswith("no-header") else None)
    assert contents(open_images(tmp_path / name, options)) == sorted(12 * EXPECTED)
    zipped = write_zip(tmp_path / "table.zip", FILES | {name: (tmp_path / name).read_bytes()})
    assert contents(open_images(zipped, options)) == sorted(12 * EXPECTED)


def idx(values: np.ndarray) -> bytes:
    return (
        b"\0\0\x08"
        + bytes([values.ndim])
        + struct.pack(f">{values.ndim}I", *values.shape)
        + values.tobytes()
    )


def test_idx_files(tmp_path: Path) -> None:
    pixels = np.stack([noise(n, channels=1) for n in range(6)])
    classes = np.array([0, 1, 1, 0, 1, 0], np.uint8)
    for split, rows in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        (tmp_path / f"{split}-images-idx3-ubyte").write_bytes(idx(pixels[rows]))
        with gzip.open(tmp_path / f"{split}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(idx(classes[rows]))
    found = open_images(tmp_path, ImagesConfig())
    assert found.splits == ["test"] * 2 + ["train"] * 4
    assert found.labels == ["1", "0", "0", "1", "1", "0"]
    assert np.array_equal(
        np.stack([found.read(row) for row in range(6)]), pixels[[4, 5, 0, 1, 2, 3]]
    )
    one = open_images(tmp_path / "train-images-idx3-ubyte", ImagesConfig())
    assert one.splits is None and len(one) == 4
    (tmp_path / "classes.txt").write_text("shirt\r\nboot\n", encoding="utf-8")
    assert open_images(tmp_path, ImagesConfig()).labels[:2] == ["boot", "shirt"]
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(pixels[:4])[:-1])
    with pytest.raises(DataError, match="got 255 values; expected 256, the product of 4 × 8 × 8"):
        open_images(tmp_path, ImagesConfig())
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(pixels[:4]))
    with pytest.raises(DataError, match="expected train-labels-idx1-ubyte"):
        open_images(tmp_path, ImagesConfig())


def test_cifar_batches(tmp_path: Path) -> None:
    pixels = np.stack([noise(n, (32, 32)) for n in range(3)])
    records = [bytes([n]) + p.transpose(2, 0, 1).tobytes() for n, p in enumerate(pixels)]
    (tmp_path / "data_batch_1.bin").write_bytes(records[0] + records[1])
    (tmp_path / "test_batch.bin").write_bytes(records[2])
    (tmp_path / "batches.meta.txt").write_text("airplane\nautomobile\nbird\n\n", encoding="utf-8")
    found = open_images(tmp_path, ImagesConfig())
    assert (found.labels, found.splits) == (
        ["airplane", "automobile", "bird"],
        ["train", "train", "test"],
    )
    assert np.array_equal(np.stack([found.read(row) for row in range(3)]), pixels)
    (tmp_path / "test_batch.bin").write_bytes(records[2][:-1])
    with pytest.raises(DataError, match=f"expected a multiple of {CIFAR_RECORD:,}"):
        open_images(tmp_path, ImagesConfig())


@pytest.mark.parametrize(
    "make",
    [
        lambda images: (np.stack(images), ["a", "b"]),
        lambda images: [np.stack(images), np.array(["a", "b"])],
        lambda images: iter(zip(images, "ab", strict=True)),
        lambda images: list(zip(images, "ab", strict=True)),
        lambda images: [
            (Image.fromarray(image), name) for image, name in zip(images, "ab", strict=True)
        ],
        lambda images: {"image": images, "label": ["a", "b"]},
        lambda images: [
            (encoded(Image.fromarray(image)), name)
            for image, name in zip(images, "ab", strict=True)
        ],
    ],
    ids=["arrays", "list of arrays", "iterator", "pairs", "pillow", "mapping", "bytes"],
)
def test_images_in_memory_are_written_and_read_again(make: Any, tmp_path: Path) -> None:
    images = [noise(n) for n in range(2)]
    path = write_images(make(images), tmp_path / "mine", "image", RoleOptions())
    assert path == tmp_path / "mine.zip"
    for source in (path, make(images)):
        found = open_images(source, ImagesConfig())
        assert list(found.labels) == ["a", "b"]
        pixels = [decode_image(open_image(found.read(row)), FORM) for row in range(2)]
        assert np.array_equal(pixels, images)


def test_built_in_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    found, expected = load_digit_images(), load_digits()
    assert list(found.labels) == [str(number) for number in expected.target]
    pixels = np.stack([found.read(row) for row in range(len(found))])
    assert np.array_equal(np.round(pixels / 255 * 16), expected.images)


def test_fashion_mnist_has_the_published_splits(dataset: Callable[[str], Path]) -> None:
    dataset("fashion-mnist")
    found = open_published_images(IMAGE_DATASETS["fashion-mnist"])
    assert found.splits is not None
    assert [found.splits.count(split) for split in ("train", "test")] == [60_000, 10_000]
    assert {found.labels.count(label) for label in {*found.labels}} == {7000}
    first = found.splits.index("test")
    assert [found.labels[row] for row in range(first, first + 5)] == [
        "ankle boot", "pullover", "trouser", "trouser", "shirt"
    ]  # fmt: skip


def test_cifar_10_is_read_from_its_subset(dataset: Callable[[str], Path]) -> None:
    dataset("cifar-10-subset")
    found = open_published_images(IMAGE_DATASETS["cifar-10"])
    assert found.splits is not None
    assert [found.splits.count(split) for split in ("train", "test")] == [25_000, 5_000]
    assert len({*found.labels}) == 10
    assert read_header(found.read(0)) == (32, 32, False)
    assert "a part of it as JPEG" in found.notes[-1]


def test_cifar_10_is_read_from_its_own_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.stack([noise(n, (32, 32)) for n in range(2)])
    records = [bytes([n]) + p.transpose(2, 0, 1).tobytes() for n, p in enumerate(pixels)]
    files = {
        "cifar-10-batches-bin/data_batch_1.bin": records[0],
        "cifar-10-batches-bin/test_batch.bin": records[1],
        "cifar-10-batches-bin/batches.meta.txt": b"airplane\nautomobile\n",
        "cifar-10-batches-bin/readme.html": b"<html>",
    }
    (tmp_path / "cifar-10").mkdir()
    write_tar(tmp_path / "cifar-10" / "cifar-10-binary.tar.gz", files)
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    found = open_published_images(IMAGE_DATASETS["cifar-10"])
    assert (found.labels, found.splits) == (["airplane", "automobile"], ["train", "test"])
    assert np.array_equal(np.stack([found.read(row) for row in range(2)]), pixels)


@pytest.mark.parametrize(
    "name, message",
    [
        ("digits#1797", "got the row 1797; expected 0 to 1,796"),
        ("digits#x", "got the row x"),
        ("none.zip#a/1.png", "got no such file"),
        ("photos.zip#dog/9.png", "got no such file"),
    ],
)
def test_images_by_name(name: str, message: str, tmp_path: Path) -> None:
    photos = write_zip(tmp_path / "photos.zip", FILES)
    assert read_image(f"{photos}#cat/1.png") == FILES["cat/1.png"]
    assert np.array_equal(read_image("digits#5"), load_digit_images().read(5))
    with pytest.raises(UnreadableImage, match=message):
        read_image(name if name.startswith("digits") else str(tmp_path / name))


def test_natural_order_of_classes() -> None:
    assert sorted(["10", "9", "b2", "b10", "a"], key=natural_key) == ["9", "10", "a", "b2", "b10"]


# --- bad sources ----------------------------------------------------------------------------------

BAD_SOURCES: dict[str, tuple[dict[str, bytes], str, str]] = {  # files, opened file, message
    "empty folder": ({}, "", "got an empty folder; expected a sub-folder of images"),
    "no images": ({"cat/notes.txt": b"x"}, "", r"got no image \(cat/notes.txt\)"),
    "no classes": ({"1.png": png(), "2.png": png(1)}, "", "got 2 images without a class"),
    "one image": ({"1.png": png()}, "1.png", "got one image; expected a folder"),
    "path outside": (
        {"a.csv": b"path,label\n../secret.png,cat\nx.png,dog\n"},
        "a.csv",
        r"a.csv, line 2: got '../secret.png', which is outside of",
    ),
    "absolute path": (
        {"a.csv": b"path,label\n/etc/passwd,cat\nx.png,dog\n"}, "a.csv", "is outside of"
    ),
    "no label": ({"a.csv": b"path,label\nx.png,\ny.png,dog\n"}, "a.csv", "line 2: got no label"),
    "no path column": ({"a.csv": b"a,b\n1,2\n" + b"3,4\n" * 9}, "a.csv", "the image"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SOURCES)
def test_bad_sources_have_one_message(case: str, tmp_path: Path) -> None:
    files, opened, message = BAD_SOURCES[case]
    with pytest.raises(DataError, match=message):
        open_images(write_folder(tmp_path, files) / opened, ImagesConfig())


def test_archive_members_that_lead_out_are_refused(tmp_path: Path) -> None:
    for name in ("../cat/1.png", "/cat/1.png", "cat\\..\\1.png"):
        with pytest.raises(DataError, match="leads out of a folder"):
            open_images(
                write_tar(tmp_path / "bad.tar", {name: png(), "dog/1.png": png()}), ImagesConfig()
            )


# --- decoding -------------------------------------------------------------------------------------


def test_modes_are_decoded() -> None:
    pixels = noise()
    colour = Image.fromarray(pixels)
    grey = Image.fromarray(noise(1, channels=1))
    wide = np.array([[0, 255, 256, 65535]] * 4, np.uint16)
    assert np.array_equal(decoded(encoded(colour)), pixels)
    assert np.array_equal(decoded(encoded(grey)), np.repeat(np.asarray(grey)[..., None], 3, 2))
    assert np.array_equal(decoded(encoded(grey), ImageForm(8, 1)), np.asarray(grey))
    for kind in ("PNG", "TIFF"):
        found = decoded(encoded(Image.fromarray(wide), kind), ImageForm(4, 1))
        assert np.array_equal(found[0], [0, 1, 1, 255])
    palette = colour.quantize(8)
    assert np.array_equal(decoded(encoded(palette)), np.asarray(palette.convert("RGB")))
    bits = Image.fromarray(noise(2, channels=1) > 127)
    assert np.array_equal(decoded(encoded(bits), ImageForm(8, 1)), np.asarray(bits.convert("L")))
    cmyk = colour.convert("CMYK")
    assert np.array_equal(decoded(encoded(cmyk, "TIFF")), np.asarray(cmyk.convert("RGB")))


def test_transparency_is_blended_over_white() -> None:
    pixels = np.dstack([noise(), np.full((8, 8), 51, np.uint8)])  # opacity of a fifth
    found = decoded(encoded(Image.fromarray(pixels)))
    assert np.abs(found - (0.2 * pixels[..., :3] + 0.8 * 255)).max() <= 1
    clear = Image.new("P", (8, 8), 0)
    clear.putpalette([10, 20, 30])
    assert (decoded(encoded(clear, "GIF", transparency=0)) == 255).all()


def test_exif_orientation_is_applied() -> None:
    pixels = np.zeros((16, 8, 3), np.uint8)
    pixels[:8] = 255  # white above black
    for orientation, turned in {3: np.rot90(pixels, 2), 6: np.rot90(pixels, -1)}.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        content = encoded(Image.fromarray(pixels), "PNG", exif=exif)
        found = decoded(content, ImageForm(8, 3, "stretch"))
        expected = np.asarray(Image.fromarray(turned).resize((8, 8), Image.Resampling.BICUBIC))
        assert np.array_equal(found, expected)


def test_sizes_fit_by_crop_pad_and_stretch() -> None:
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 4:12] = 255  # the centre
    content = encoded(Image.fromarray(pixels))
    assert decoded(content, ImageForm(8, 3, "crop")).mean() == 255
    padded = decoded(content, ImageForm(8, 3, "pad"))
    assert padded[:2].max() == padded[6:].max() == 0 and padded[3, 3].min() == 255
    assert 100 < decoded(content, ImageForm(8, 3, "stretch")).mean() < 155


def test_large_jpegs_are_reduced_while_they_are_decoded() -> None:
    smooth = np.linspace(0, 255, 256)[:, None, None] * np.ones((1, 256, 3))
    image = Image.fromarray(smooth.astype(np.uint8))
    found = decoded(encoded(image, "JPEG", quality=95), ImageForm(16, 3))
    expected = np.asarray(image.resize((16, 16), Image.Resampling.BICUBIC))
    assert np.abs(found.astype(int) - expected).max() <= 4


def huge_png(width: int, height: int) -> bytes:
    """Return a PNG whose header has a size, and no pixels."""
    import zlib

    def part(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", b"") + part(b"IEND", b"")


BAD_IMAGES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r"got an empty file \(0 bytes\)"),
    "text": (b"hello, world", "got a file that is not an image.*; try JPEG or PNG"),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "got PostScript"),
    "truncated": (png(size=(64, 64))[:-900], "got a damaged or truncated image"),
    "damaged": (png()[:60] + b"\0" * 40 + png()[100:], "got a damaged or truncated image"),
    "truncated jpeg": (
        encoded(Image.fromarray(noise(size=(64, 64))), "JPEG")[:900], "got a damaged or truncated"
    ),
    "one pixel": (png(size=(1, 1)), "got 1 × 1 pixels; expected at least 2 × 2"),
    "20,000 × 20,000": (
        huge_png(20_000, 20_000), "got 400,000,000 pixels; expected at most 80,000,000"
    ),
    "10,000 × 10,000": (huge_png(10_000, 10_000), "got 10,000 × 10,000 pixels"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_bad_images_have_a_reason(case: str) -> None:
    content, message = BAD_IMAGES[case]
    with pytest.raises(UnreadableImage, match=message):
        decoded(content)


@pytest.mark.parametrize(
    "pixels, message",
    [
        (np.full((4, 4), 300), "got pixels from 300 to 300 of type int64; expected 0 to 255"),
        (np.full((4, 4), 1.5), "expected 0 to 1; try image / 255"),
        (np.zeros((3, 5, 5)), r"with 1, 3 or 4 channels; try image.transpose\(1, 2, 0\)"),
        (np.full((4, 4), np.nan), "expected 0 to 1"),
        (np.zeros((4, 4, 2), np.uint8), r"got an array of shape \(4, 4, 2\)"),
        (np.full((4, 4), "a"), "expected numbers"),
        (np.zeros((0, 4), np.uint8), "without pixels"),
    ],
)
def test_bad_arrays_have_a_reason(pixels: np.ndarray, message: str) -> None:
    with pytest.raises(UnreadableImage, match=message):
        open_image(pixels)


def test_decoding_in_a_pool_keeps_the_order_and_names_the_unreadable() -> None:
    files = [png(n) if n % 7 else b"no image" for n in range(150)]
    found = list(decode_images(files.__getitem__, range(150), FORM))
    for n, image in enumerate(found):
        if n % 7:
            assert image.pixels is not None
            assert np.array_equal(image.pixels, noise(n))
        else:
            assert image == DecodedImage(
                None, "got a file that is not an image, or of an unknown format; try JPEG or PNG"
            )


def test_form_is_chosen_from_the_data() -> None:
    grey = read_header(encoded(Image.fromarray(noise(size=(40, 30), channels=1))))
    colour = read_header(png(size=(200, 300)))
    assert grey == (30, 40, True)
    assert choose_form([grey], 0, 0, "crop")[0] == ImageForm(30, 1)
    assert choose_form([grey, colour, colour], 0, 0, "pad")[0] == ImageForm(64, 3, "pad")
    assert choose_form([colour], 224, 1, "crop")[0] == ImageForm(224, 1)
    tiny = choose_form([grey._replace(width=8, height=8)], 0, 0, "crop")
    assert tiny == (ImageForm(16, 1), "the shorter side of the images is 8 (median)")


# --- store ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["memory", "folder", "temporary file"])
def test_stored_images_are_those_decoded(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "temporary file":
        monkeypatch.setattr("saccade.data.images.store.MAX_MEMORY_BYTES", 0)
    images = [DecodedImage(noise(n)) if n != 2 else DecodedImage(None, "bad") for n in range(4)]
    folder = tmp_path if place == "folder" else None
    found = collect_images(images, len(images), FORM, folder)
    assert found.rows.tolist() == [0, 1, 3] and found.errors == {2: "bad"}
    assert np.array_equal(found.pixels, np.stack([noise(n) for n in (0, 1, 3)]))


def test_damaged_stores_are_refused(tmp_path: Path) -> None:
    images = [DecodedImage(noise(n)) for n in range(3)]
    pixels = collect_images(images, 3, FORM, tmp_path).pixels
    stored = StoredImages(
        pixels, np.array([0, 1, -1]), np.array([0, 1, 2], np.int8), ["a", "b", "c"]
    )
    write_image_index(tmp_path, stored)
    again = read_stored_images(tmp_path, FORM, 2)
    assert np.array_equal(again.pixels, pixels) and again.names == stored.names
    assert (again.classes == stored.classes).all() and (again.splits == stored.splits).all()
    with pytest.raises(RunError, match="unknown class"):
        read_stored_images(tmp_path, FORM, 1)
    with pytest.raises(RunError, match="another structure"):
        read_stored_images(tmp_path, ImageForm(9, 3), 2)
    content = bytearray((tmp_path / "pixels.bin").read_bytes())
    content[100] ^= 1
    (tmp_path / "pixels.bin").write_bytes(content)
    with pytest.raises(RunError, match="does not match its checksum"):
        read_stored_images(tmp_path, FORM, 2)
    (tmp_path / "pixels.bin").write_bytes(content[:-1])
    with pytest.raises(RunError, match="has not 576 bytes"):
        read_stored_images(tmp_path, FORM, 2)


def test_channel_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.data.images.transform.STATISTICS_ROWS", 2)
    pixels = np.stack([noise(n) for n in range(5)])
    mean, deviation = channel_statistics(pixels, np.array([0, 2, 4]))
    values = pixels[[0, 2, 4]].reshape(-1, 3) / 255
    assert np.allclose(mean, values.mean(0)) and np.allclose(deviation, values.std(0))


def test_transform_survives_json_and_refuses_other_values() -> None:
    transform = ImageTransform(["a", "b"], [3, 4], 8, 1, "crop", [0.5], [0.2])
    values = json.loads(json.dumps(transform.to_json()))
    assert ImageTransform.from_json(values) == transform
    wrong: list[dict[str, Any]] = [
        {"labels": ["a", "a"]}, {"met": [1]}, {"size": 0}, {"channels": 2}, {"mean": [0.1, 0.2]},
        {"deviation": [0.0]}, {"deviation": [math.nan]}, {"fit": "other"}, {"labels": []},
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(ValueError):
            ImageTransform.from_json(values | change)


# --- augmentation ---------------------------------------------------------------------------------

IMAGES = torch.rand(16, 3, 9, 12, generator=torch.Generator().manual_seed(3))
MEAN = torch.tensor([0.4, 0.5, 0.6])


def generator(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_flips_mirror_some_images() -> None:
    found = augment.flip_images(IMAGES, generator())
    same = [torch.equal(one, other) for one, other in zip(found, IMAGES, strict=True)]
    mirrored = [torch.equal(one, other.flip(-1)) for one, other in zip(found, IMAGES, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True)) and 0 < sum(same) < 16


def test_padded_crops_are_shifts_by_loops() -> None:
    found = augment.crop_padded(IMAGES, 2, generator())
    padded = F.pad(IMAGES, (2, 2, 2, 2), mode="reflect")
    shifts = set()
    for image, wide in zip(found, padded, strict=True):
        equal = [
            (y, x)
            for y, x in itertools.product(range(5), range(5))
            if torch.equal(image, wide[:, y : y + 9, x : x + 12])
        ]
        assert len(equal) == 1
        shifts |= {*equal}
    assert len(shifts) > 8


def test_resized_crops_are_bilinear_by_loops() -> None:
    images = IMAGES[:3].double()
    found = augment.crop_resized(images, 0.3, generator())
    draws = torch.rand(4, 3, generator=generator()).double()
    for n, image in enumerate(images):
        area, aspect = 0.3 + 0.7 * draws[0, n], (4 / 3) ** (2 * draws[1, n] - 1)
        width, height = min(1, (area * aspect).sqrt()), min(1, (area / aspect).sqrt())
        left = (1 - width) * draws[2, n] * 12  # in pixels
        top = (1 - height) * draws[3, n] * 9
        for y, x in itertools.product(range(9), range(12)):
            at_y = min(max(top + (y + 0.5) * height - 0.5, 0), 8)
            at_x = min(max(left + (x + 0.5) * width - 0.5, 0), 11)
            y0, x0 = int(at_y), int(at_x)
            y1, x1 = min(y0 + 1, 8), min(x0 + 1, 11)
            fy, fx = at_y - y0, at_x - x0
            above = image[:, y0, x0] * (1 - fx) + image[:, y0, x1] * fx
            below = image[:, y1, x0] * (1 - fx) + image[:, y1, x1] * fx
            expected = above * (1 - fy) + below * fy
            torch.testing.assert_close(found[n, :, y, x], expected, atol=2e-6, rtol=0)


def test_colours_change_as_pillow_changes_them() -> None:
    from PIL import ImageEnhance

    images = torch.randint(60, 180, (6, 3, 8, 8), generator=generator()).float() / 255
    found = augment.jitter_colours(images, 0.3, generator(1))
    factors = 0.7 + 0.6 * torch.rand(3, 6, generator=generator(1))
    for n in range(6):
        image = Image.fromarray((images[n].permute(1, 2, 0) * 255).round().byte().numpy())
        for kind, factor in zip(("Brightness", "Contrast", "Color"), factors[:, n], strict=True):
            image = getattr(ImageEnhance, kind)(image).enhance(float(factor))
        difference = found[n].permute(1, 2, 0) * 255 - torch.from_numpy(np.array(image))
        assert difference.abs().max() < 3.5  # Pillow rounds after each of three changes
    grey = augment.jitter_colours(images[:, :1], 0.3, generator(1))
    assert grey.shape == (6, 1, 8, 8) and not torch.equal(grey, images[:, :1])


def test_blur_is_a_gaussian_by_loops() -> None:
    images = IMAGES[:4].double()
    found = augment.blur_images(images, 0.8, generator(2))
    draws = torch.rand(2, 4, generator=generator(2))
    assert 0 < (draws[1] < 0.5).sum() < 4
    for n, image in enumerate(images):
        if draws[1, n] >= 0.5:
            assert torch.equal(found[n], image)
            continue
        deviation, radius = 0.1 + 0.7 * float(draws[0, n]), 3
        weights = [math.exp(-0.5 * (t / deviation) ** 2) for t in range(-radius, radius + 1)]
        padded = F.pad(image, (radius,) * 4, mode="reflect")
        expected = torch.zeros_like(image)
        for y, x in itertools.product(range(9), range(12)):
            for i, j in itertools.product(range(7), range(7)):
                expected[:, y, x] += weights[i] * weights[j] * padded[:, y + i, x + j]
        torch.testing.assert_close(found[n], expected / sum(weights) ** 2, atol=1e-6, rtol=0)


def test_cutout_replaces_a_square() -> None:
    found = augment.cut_out(IMAGES, 4, MEAN, generator())
    for image, before in zip(found, IMAGES, strict=True):
        changed = (image != before).any(0)
        rows, columns = changed.any(1).nonzero(), changed.any(0).nonzero()
        assert len(rows) <= 4 and len(columns) <= 4 and changed.any()
        assert changed[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].all()
        assert torch.equal(image[:, changed].T.unique(dim=0), MEAN[None])


ALL = AugmentConfig(flip=True, crop=2, min_area=0.5, jitter=0.2, blur=0.7, cutout=3)


@pytest.mark.parametrize("name", AugmentConfig.model_fields)
def test_each_change_is_a_function_of_seed_and_step(name: str) -> None:
    config = AugmentConfig(**{name: getattr(ALL, name)})

    def change(images: torch.Tensor, seed: int, step: int) -> torch.Tensor:
        return augment.augment_images(images, config, MEAN, seed, step)

    assert torch.equal(change(IMAGES, 1, 5), change(IMAGES, 1, 5))
    assert not torch.equal(change(IMAGES, 1, 5), change(IMAGES, 1, 6))
    assert not torch.equal(change(IMAGES, 1, 5), change(IMAGES, 2, 5))
    assert change(IMAGES, 1, 5).shape == IMAGES.shape
    assert torch.equal(augment.augment_images(IMAGES, AugmentConfig(), MEAN, 1, 5), IMAGES)


def test_pixels_are_scaled_and_normalised() -> None:
    pixels = torch.from_numpy(np.stack([noise(n) for n in range(4)]))
    images = augment.scale_pixels(pixels)
    assert images.is_contiguous(memory_format=torch.channels_last)
    mean, deviation = images.mean((0, 2, 3)), images.std((0, 2, 3), unbiased=False)
    found = augment.normalise_images(images, mean, deviation)
    torch.testing.assert_close(found.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std((0, 2, 3), unbiased=False), torch.ones(3))
