"""Images with captions: generated scenes, tables, and data in memory."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from saccade.data.images.captions import (
    caption_words,
    captions_in_memory,
    load_scenes,
    normalise_caption,
    open_captions,
)
from saccade.data.images.config import CaptionsConfig
from saccade.data.images.memory import write_images
from saccade.data.images.published import read_image
from saccade.data.images.scenes import CANVAS, DIGIT_WORDS, HELD_OUT_SCENES, make_scene
from saccade.data.task_records import RoleOptions
from saccade.errors import DataError

pytest.importorskip("sklearn")


def caption_of(scene: object) -> str:
    """Return the caption that the regions of a scene decide, by other rules than the generator."""
    regions = scene.regions  # type: ignore[attr-defined]
    words = ["an eight" if r.word == "eight" else f"a {r.word}" for r in regions]

    def is_left(a: int, b: int) -> bool:
        across, down = regions[b].x - regions[a].x, regions[b].y - regions[a].y
        return across > abs(down)

    if len(regions) == 3 and is_left(0, 1) and not is_left(1, 2):
        return f"{words[0]} left of {words[1]} both above {words[2]}"
    return (" left of " if is_left(0, 1) else " above ").join(words)


def test_scenes_are_functions_of_their_numbers() -> None:
    numbers = [0, HELD_OUT_SCENES, 2 * HELD_OUT_SCENES, 4711]
    for number in numbers:
        one, two = make_scene(number), make_scene(number)
        assert np.array_equal(one.pixels, two.pixels) and one.regions == two.regions
        assert np.array_equal(read_image(f"scenes#{number}"), one.pixels)


def test_positions_decide_the_caption() -> None:
    for number in range(100):
        scene = make_scene(number)
        assert scene.caption == caption_of(scene)
        named = [word for word in scene.caption.split() if word in DIGIT_WORDS]
        assert named == [region.word for region in scene.regions]
        covered = np.zeros((CANVAS, CANVAS), int)
        for _, y, x, side in scene.regions:
            covered[y : y + side, x : x + side] += 1
        assert covered.max() == 1  # no digit covers another
        assert not scene.pixels[covered == 0].any()


def test_held_out_scenes_have_digits_of_their_own() -> None:
    def digits(start: int) -> set[bytes]:
        found = set()
        for number in range(start, start + 60):
            scene = make_scene(number)
            for _, y, x, side in scene.regions:
                found.add(scene.pixels[y : y + side, x : x + side].tobytes())
        return found

    test, dev, train = (digits(n * HELD_OUT_SCENES) for n in range(3))
    assert not test & train and not dev & train and not test & dev


def test_size_changes_training_scenes_only() -> None:
    one, more = load_scenes(3), load_scenes(5)
    assert more.captions[: len(one.captions)] == one.captions
    splits = list(more.images.splits or ())
    assert [splits.count(name) for name in ("test", "dev", "train")] == [500, 500, 5]


def test_captions_are_compared_as_words() -> None:
    assert caption_words("A dog's ball, on 2 chairs !") == [
        "a",
        "dog's",
        "ball",
        "on",
        "2",
        "chairs",
    ]
    assert normalise_caption(" A  Man . ") == "a man"


# --- tables ---------------------------------------------------------------------------------------


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(4):
        Image.new("RGB", (8, 8), (40 * number, 0, 90)).save(tmp_path / f"{number}.png")
    return tmp_path


ROWS = [
    ("0.png", "A dark square."),
    ("1.png", "a square, darker than others"),
    ("0.png", "a square that is dark"),
    ("2.png", "something purple and small"),
    ("0.png", "a dark square"),
    ("3.png", "a purple square of pixels"),
]


def test_captions_of_one_image_are_grouped(photos: Path) -> None:
    path = photos / "captions.tsv"
    path.write_text("".join(f"{name}\t{text}\n" for name, text in ROWS))
    found = open_captions(path, CaptionsConfig())
    assert len(found.images) == 4
    # the same words twice count once
    assert found.captions[0] == ("a dark square", "a square that is dark")
    assert [Path(name).name for name in found.images.names] == [f"{n}.png" for n in range(4)]
    assert found.images.read(2) == (photos / "2.png").read_bytes()


@pytest.mark.parametrize("name", ["captions.csv", "captions.jsonl"])
def test_columns_are_found_by_name_or_given(name: str, photos: Path) -> None:
    path = photos / name
    rows = [{"id": i, "filename": n, "note": "x", "caption": t} for i, (n, t) in enumerate(ROWS)]
    if name.endswith("csv"):
        lines = [
            "id,filename,note,caption",
            *(f'{r["id"]},{r["filename"]},x,"{r["caption"]}"' for r in rows),
        ]
    else:
        lines = list(map(json.dumps, rows))
    path.write_text("\n".join(lines))
    found = open_captions(path, CaptionsConfig())
    assert found.images.columns == {"image": "filename", "caption": "caption"}
    given = open_captions(path, CaptionsConfig(image="filename", caption="note"))
    assert given.captions[0] == ("x",)


def test_a_caption_without_words_is_refused(photos: Path) -> None:
    path = photos / "captions.tsv"
    path.write_text("".join(f"{name}\t{text}\n" for name, text in [*ROWS, ("1.png", "...")]))
    with pytest.raises(DataError, match=r"line 7: got '\.\.\.' as a caption of .*1\.png; expected"):
        open_captions(path, CaptionsConfig())


def test_all_rows_without_a_caption_are_named(photos: Path) -> None:
    path = photos / "captions.csv"
    rows = [
        "image,caption",
        "0.png,dark",
        "1.png,",
        ",grey",
        "../2.png,grey",
        "https://a.b/3.png,c",
    ]
    path.write_text("\n".join(rows), "utf-8")
    with pytest.raises(DataError) as refused:
        open_captions(path, CaptionsConfig())
    expected = [
        "got 4 rows that cannot be used",
        "line 3: got no caption; expected one; fill it in, or remove the row.",
        "line 4: got no path of an image; expected one; fill it in, or remove the row.",
        "line 5: got '../2.png', which is outside of",
        "line 6: got an address; expected the path of a file; try to download it first",
    ]
    lines = str(refused.value).splitlines()
    assert len(lines) == len(expected)
    assert all(part in line for part, line in zip(expected, lines, strict=True))


@pytest.mark.parametrize(
    "caption, words",
    [
        ("a 😀 face", "a face"),
        ("مربع أحمر كبير", "مربع أحمر كبير"),
        ("一个红色的方块。", "一个红色的方块"),
        ('He wrote ""no"",\nthen', "he wrote no then"),
    ],
)
def test_tables_with_bom_quotes_and_any_script(caption: str, words: str, photos: Path) -> None:
    path = photos / "captions.csv"
    lines = ["image,caption", *(f'{n}.png,"{caption}"' for n in range(4))]
    path.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert open_captions(path, CaptionsConfig()).captions == [(words,)] * 4


def test_a_folder_without_a_table_is_refused(photos: Path) -> None:
    with pytest.raises(DataError, match="got no table of paths and captions"):
        open_captions(photos, CaptionsConfig())


# --- memory ---------------------------------------------------------------------------------------


def test_pairs_in_memory_are_written_to_an_archive(photos: Path) -> None:
    pixels = np.full((8, 8), 9, np.uint8)
    data = [(photos / "0.png", ["One dark.", "two"]), (pixels, "three grey")]
    path = write_images(data, photos / "data" / "x", "caption", RoleOptions())
    again = open_captions(path, CaptionsConfig())
    assert again.captions == [("one dark", "two"), ("three grey",)]
    assert again.images.read(0) == (photos / "0.png").read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 3


@pytest.mark.parametrize("caption", [[], ["..."], [3], None])
def test_pairs_without_captions_are_refused(caption: object) -> None:
    with pytest.raises(DataError, match=r"x.png: got \[.*\] as captions"):
        captions_in_memory([("x.png", caption)])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere.png: .*No such file"):
        data = [(str(tmp_path / "nowhere.png"), "a")]
        write_images(data, tmp_path / "x", "caption", RoleOptions())
    assert not [*tmp_path.iterdir()]


def test_arrays_and_columns_have_captions(photos: Path) -> None:
    images = np.zeros((2, 8, 8), np.uint8)
    for data in ((images, ["a b", ["c", "d"]]), {"image": images, "caption": ["a b", ["c", "d"]]}):
        assert open_captions(data, CaptionsConfig()).captions == [("a b",), ("c", "d")]
    path = str(photos / "1.png")
    repeated = open_captions([(path, "a b"), (path, "c")], CaptionsConfig())
    assert repeated.captions == [("a b", "c")] and len(repeated.images) == 1
    with pytest.raises(DataError, match="got 2 images and 1 captions; expected as many of both"):
        open_captions((images, ["a"]), CaptionsConfig())
    with pytest.raises(DataError, match="got an array of images without captions"):
        open_captions(images, CaptionsConfig())


def test_other_objects_are_no_pairs() -> None:
    assert captions_in_memory("text") is None
    assert captions_in_memory([]) is None
    assert captions_in_memory([{"image": "a.png", "caption": "b"}]) is None
