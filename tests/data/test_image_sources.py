"""Sources of images as users have them: other names, tables and folders, and objects in memory."""

import io
import os
import shlex
import shutil
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from saccade.data.images.captions import open_captions
from saccade.data.images.config import CaptionsConfig, ImagesConfig
from saccade.data.images.decode import UnreadableImage
from saccade.data.images.memory import write_images
from saccade.data.images.published import read_image
from saccade.data.images.readers import find_image_table, open_images
from saccade.data.records.open import open_records
from saccade.data.task_records import RoleOptions
from saccade.errors import DataError
from saccade.io.documents import parse_structure
from saccade.recipes.preview import choose_task


def png(level: int = 0) -> bytes:
    content = io.BytesIO()
    Image.new("L", (4, 4), level).save(content, "PNG")
    return content.getvalue()


def write(folder: Path, names: list[str]) -> Path:
    for level, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(level))
    return folder


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + struct.pack(f">B{array.ndim}I", array.ndim, *array.shape) + array.tobytes()


# --- files ----------------------------------------------------------------------------------------


def test_enclosing_folders_are_no_class(tmp_path: Path) -> None:
    names = ["photos/all/cat/1.png", "photos/all/cat/old/2.png", "photos/all/dog/1.png"]
    assert open_images(write(tmp_path, names), ImagesConfig()).labels == ["cat", "cat", "dog"]


@pytest.mark.skipif(sys.platform != "linux", reason="file systems elsewhere take only UTF-8 names")
def test_names_that_are_not_utf_8_can_be_written(tmp_path: Path) -> None:
    write(tmp_path, ["cat/1.png", os.fsdecode(b"caf\xe9/2.png"), os.fsdecode(b"cat/\xff.png")])
    found = open_images(tmp_path, ImagesConfig())
    assert list(found.labels) == ["caf\\xe9", "cat", "cat"]
    assert parse_structure(list[str], list(found.names)) == found.names
    assert {found.read(row) for row in range(3)} == {png(0), png(1), png(2)}


@pytest.mark.parametrize("name", ["a b.png", "😀.png", "a;#b.png", "new\nline.png", "[1]*.png"])
def test_unusual_names_are_read(name: str, tmp_path: Path) -> None:
    write(tmp_path, [f"cat/{name}", "dog/1.png"])
    found = open_images(tmp_path, ImagesConfig())
    assert found.read(0) == read_image(found.names[0]) == png(0)


def test_rows_that_cannot_be_used_are_all_named(tmp_path: Path) -> None:
    rows = [*(f"{n}.png,{'ab'[n % 2]}" for n in range(30)), "1.png,", ",a", "http://a.b/1.png,a"]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]), "utf-8")
    with pytest.raises(DataError) as refused:
        open_images(tmp_path / "list.csv", ImagesConfig())
    lines = str(refused.value).splitlines()
    assert lines[0].endswith("got 3 rows that cannot be used:") and len(lines) == 4
    assert "line 32: got no label; expected one; fill it in, or remove the row." in lines[1]
    assert "line 33: got no path of an image" in lines[2]
    assert "line 34: got an address" in lines[3]


def test_rows_without_a_class_are_counted(tmp_path: Path) -> None:
    rows = [f"{n}.png,{'a' if n % 2 else ''}" for n in range(20)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]), "utf-8")
    expected = r"\('a'\) in 10 rows of 'label', the label, and none in the other 10; expected two"
    with pytest.raises(DataError, match=expected):
        open_images(tmp_path / "list.csv", ImagesConfig())


@pytest.mark.parametrize("task", ["caption", "contrastive", "image"])
def test_addresses_are_refused(task: str) -> None:
    address = "https://example.org/photos.zip"
    with pytest.raises(DataError, match=f"got the address {address}; expected a folder"):
        if task == "caption":
            open_captions(address, RoleOptions())
        open_images(address, ImagesConfig(), task=task)
    with pytest.raises(UnreadableImage, match="got an address; .*try to download it first"):
        read_image(address)


def test_idx_images_without_labels(tmp_path: Path) -> None:
    pixels = np.arange(32, dtype=np.uint8).reshape(2, 4, 4)
    path = tmp_path / "new-images-idx3-ubyte"
    path.write_bytes(idx(pixels))
    with pytest.raises(DataError, match="got images without labels"):
        open_images(path, ImagesConfig())
    found = open_images(path, ImagesConfig(), task="contrastive")
    assert list(found.labels) == ["", ""]
    row = read_image(f"{path}#1")
    assert isinstance(row, np.ndarray) and np.array_equal(row, pixels[1])
    with pytest.raises(UnreadableImage, match=r"got an array of images; .* try .*ubyte#0"):
        read_image(str(path))


def test_archive_is_no_image(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("cat/1.png", png())
    with pytest.raises(UnreadableImage, match=r"got an archive; .* try .*photos.zip#cat/1.jpg"):
        read_image(str(tmp_path / "photos.zip"))


def test_folder_without_images_of_a_task_without_labels(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="expected images, such as .*empty/1.jpg"):
        open_images(tmp_path / "empty", ImagesConfig(), task="contrastive")


def test_paths_alone_are_learned_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("\n".join(["file", *(f"{n}.png" for n in range(24))]))
    assert choose_task(str(path), {}).task == "contrastive"
    with pytest.raises(DataError, match="try saccade train contrastive --data .* --image file"):
        open_captions(path, CaptionsConfig())


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pairs", "paths", "rows", "columns", "frame", "other names"])
def test_paths_in_memory_are_relative_to_the_working_folder(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"{label}/{n}.png" for label in ("cat", "dog") for n in range(12)]
    write(tmp_path, names)
    labels = [name[:3] for name in names]
    rows = [{"photo": name, "kind": label} for name, label in zip(names, labels, strict=True)]
    columns = {"image": names, "label": labels}
    data: Any = {
        "pairs": list(zip(names, labels, strict=True)),
        "paths": [(Path(name), label) for name, label in zip(names, labels, strict=True)],
        "rows": rows,
        "columns": columns,
        "frame": Frame(columns),
        "other names": rows,
    }[kind]
    given = {"image": "photo", "label": "kind"} if kind == "other names" else {}
    path = write_images(data, tmp_path / "run" / "x", "image", RoleOptions(**given))
    found = open_images(path, ImagesConfig(**given))
    assert list(found.labels) == labels
    assert [found.read(row) for row in range(24)] == [png(level) for level in range(24)]


class Frame:
    """A table with columns, as pandas and polars have it."""

    def __init__(self, values: dict[str, list[str]]):
        self.values, self.columns = values, [*values]

    def __getitem__(self, name: str) -> list[str]:
        return self.values[name]


@pytest.mark.parametrize("label", [None, "", " ", float("nan"), np.float32("nan")])
def test_images_in_memory_without_a_label_are_named(label: object) -> None:
    images = np.zeros((3, 4, 4), np.uint8)
    with pytest.raises(DataError, match=r"image 2: got no label \(.*\); expected one"):
        open_images((images, ["a", label, "b"]), ImagesConfig())
    found = open_images((images, ["a", label, "b"]), ImagesConfig(), task="contrastive")
    assert [text.strip() for text in found.labels] == ["a", "", "b"]


def test_unreadable_images_in_memory_are_all_named(tmp_path: Path) -> None:
    data = [("nowhere.png", "a"), (np.zeros((0, 0)), "b"), (png(), "c")]
    with pytest.raises(DataError) as refused:
        write_images(data, tmp_path / "x", "image", RoleOptions())
    assert "nowhere.png: could not be read" in str(refused.value)
    assert "image 2: got an array of shape (0, 0), without pixels" in str(refused.value)
    assert not [*tmp_path.iterdir()]


def test_no_images_in_memory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got no images; expected at least one"):
        write_images((np.zeros((0, 4, 4)), []), tmp_path / "x", "image", RoleOptions())


def test_labels_in_memory_may_have_lone_surrogates(tmp_path: Path) -> None:
    data = [(png(), "\udcff"), (png(1), "b")]
    path = write_images(data, tmp_path / "x", "image", RoleOptions())
    assert list(open_images(path, ImagesConfig()).labels) == ["\\xff", "b"]


# --- tables in folders and archives ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "enclosed", "zip", "enclosed zip", "deep zip"])
def test_table_next_to_its_images(kind: str, tmp_path: Path) -> None:
    top = {"enclosed": "a/", "enclosed zip": "a/", "deep zip": "a/b/"}.get(kind, "")
    names = [f"{top}pictures/{n}.png" for n in range(24)]
    table = "\n".join(["path,label", *(f"pictures/{n}.png,{'xy'[n % 2]}" for n in range(24))])
    if "zip" in kind:
        source = tmp_path / "all.zip"
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr(f"{top}list.csv", table)
            for level, name in enumerate(names):
                archive.writestr(name, png(level))
    else:
        source = write(tmp_path / "all", names)
        (source / f"{top}list.csv").write_text(table)
    found = open_images(source, ImagesConfig())
    assert list(found.labels) == list("xy" * 12)
    assert [found.read(row) for row in range(24)] == [png(level) for level in range(24)]
    assert read_image(found.names[3]) == png(3)
    opened = find_image_table(str(source))
    assert opened is not None and open_records(opened).columns == ("path", "label")
    assert choose_task(str(source), {}).task == "image"


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_task_of_a_folder_with_captions(kind: str, tmp_path: Path) -> None:
    names = [f"{n}.png" for n in range(24)]
    table = "\n".join(["file,text", *(f"{name},the photo {name} of all" for name in names)])
    source = write(tmp_path / "all", names)
    (source / "captions.csv").write_text(table)
    if kind == "zip":
        archive = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "all")
        source = Path(archive)
    assert choose_task(str(source), {}).task == "caption"
    with pytest.raises(DataError) as refused:
        open_images(source, ImagesConfig())
    command = str(refused.value).partition("try saccade train caption --data ")[2]
    assert len(open_captions(shlex.split(command)[0], CaptionsConfig()).images) == 24
