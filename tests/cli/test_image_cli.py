"""The commands on images: folders, patterns, standard input, unreadable files, bad data."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

COLOURS = {"blue": (0, 0, 220), "red": (220, 0, 0)}
QUICK = ("--set", "train.steps=20", "--set", "model.width=4", "--set", "train.learning_rate=0.01")


def write_colours(folder: Path, count: int = 20) -> Path:
    random = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 36, (12, 12, 3)) + np.array(colour)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_colours(tmp_path_factory.mktemp("colours") / "photos")


@pytest.fixture(scope="module")
def run(colours: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from saccade.cli.main import run as run_command

    folder = tmp_path_factory.mktemp("runs") / "colours"
    assert run_command(["train", str(colours), *QUICK, "--out", str(folder)]) == 0
    return folder


def test_predictions_of_files_folders_and_patterns(
    saccade: Callable[..., Any], run: Path, colours: Path
) -> None:
    one = saccade("predict", run, colours / "red" / "0.png")
    assert (one.code, one.out) == (0, "red\n")
    folder = saccade("predict", run, colours / "blue")
    lines = folder.out.splitlines()
    assert len(lines) == 20 and {line.split("\t")[1] for line in lines} == {"blue"}
    assert lines[0].startswith(str(colours / "blue"))
    found = saccade("predict", run, colours / "red" / "1*.png", "--n-best", 2, "--json")
    answers = [json.loads(line) for line in found.out.splitlines()]
    assert [answer["text"] for answer in answers] == ["red"] * 11
    assert [other["text"] for other in answers[0]["alternatives"]] == ["blue"]
    assert Path(answers[0]["source"]).name == "1.png"
    missing = saccade("predict", run, colours / "red" / "9*.gif")
    assert missing.code == 2 and "got no image; expected one or more" in missing.message


def test_unreadable_files_are_reported_and_the_rest_continues(
    saccade: Callable[..., Any], run: Path, colours: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"\xff\xd8\xff no image")
    found = saccade("predict", run, colours / "red" / "0.png", bad, colours / "blue" / "1.png")
    assert found.code == 2
    assert [line.split("\t")[1] for line in found.out.splitlines()] == ["red", "", "blue"]
    assert "input 2:" in found.message and "bad.jpg: got a" in found.message
    assert "got 1 of 3 inputs that could not be predicted" in found.message


def test_names_and_addresses_in_messages(
    saccade: Callable[..., Any], run: Path, tmp_path: Path
) -> None:
    (tmp_path / "new\nline.png").write_bytes(b"")
    found = saccade("predict", run, "new\nline.png", "https://example.org/1.png", "", "1.zip")
    lines = [line for line in found.err.splitlines() if line.startswith("input")]
    assert lines == [
        "input 1: new\\nline.png: got an empty file (0 bytes).",
        "input 2: https://example.org/1.png: got an address; expected the path of a file; try to "
        "download it first.",
        "input 3: no path: got an empty path; expected the path of an image.",
        "input 4: 1.zip: could not be read: No such file or directory.",
    ]


def test_paths_on_standard_input(
    saccade: Callable[..., Any], run: Path, colours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{colours / 'red' / '0.png'}\nmissing.png\r\n{colours / 'blue' / '0.png'}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = saccade("predict", run, "-")
    assert found.out == "red\n\nblue\n"
    assert "input 2: missing.png: could not be read" in found.message


def test_table_of_paths_is_predicted_relative_to_its_folder(
    saccade: Callable[..., Any], run: Path, tmp_path: Path
) -> None:
    folder = write_colours(tmp_path / "new", 2)
    (folder / "list.csv").write_text("path,label\nred/0.png,\nblue/1.png,\n", encoding="utf-8")
    found = saccade("predict", run, "--file", folder / "list.csv", "--out", "answers.csv")
    assert found.code == 0
    lines = (tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()
    assert lines[1:] == ["red/0.png,,red", "blue/1.png,,blue"]


def test_summary_of_a_folder_of_images(saccade: Callable[..., Any], tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "photos", 3)
    (folder / "red" / "bad.png").write_bytes(b"")
    found = saccade("data", folder)
    assert "7 images, 2 classes, colour; sizes of 6 of them: 12 × 12 (6)." in found.out
    assert "bad.png: got an empty file" in found.out
    assert f"saccade train image --data {folder}" in found.out
    values = json.loads(saccade("data", folder, "--json").out)
    assert values["classes"] == {"blue": 3, "red": 4} and values["images"] == 7


def test_evaluation_saves_pictures(
    saccade: Callable[..., Any], run: Path, colours: Path, tmp_path: Path
) -> None:
    found = saccade("evaluate", run, "--data", colours, "--save", tmp_path / "pictures")
    assert found.code == 0 and "majority class" in found.out
    assert "1 more metric with --all, and in --json; so are scores by class." in found.err
    assert (tmp_path / "pictures" / "confusion.png").stat().st_size > 1000
    values = json.loads(saccade("evaluate", run, "--data", colours, "--json").out)
    assert values["accuracy"] > 0.9 and values["examples"] == 40


def test_look_at_an_image(
    saccade: Callable[..., Any], run: Path, colours: Path, tmp_path: Path
) -> None:
    image = colours / "red" / "3.png"
    found = saccade("look", run, image, "--save", tmp_path / "why.png")
    assert found.code == 0 and found.out.startswith("→ red") and "Grad-CAM" in found.out
    assert (tmp_path / "why.png").exists()
    assert saccade("look", run, "--filters", "--save", tmp_path / "filters.png").code == 0
    features = ("--features", "features.0", "--save", tmp_path / "features.png")
    shown = saccade("look", run, image, *features, "--json")
    assert len(json.loads(shown.out)["tiles"]) == 4
    listed = saccade("look", run)
    assert listed.code == 2 and "--filters" in listed.message
    for other in (colours / "red" / "4.png", colours / "blue"):
        several = saccade("look", run, image, other)
        assert several.code == 2 and "images; expected one; try saccade look" in several.message
    pattern = saccade("look", run, colours / "red" / "3*.png")
    assert pattern.out.startswith("→ red")
    refused = saccade("look", run, image, "--layer", 1)
    assert refused.code == 2 and "one of grad_cam, occlusion" in refused.message
    missing = saccade("look", run, "missing.png")
    assert missing.code == 2 and "missing.png: could not be read" in missing.message


def files(**contents: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        folder.mkdir()
        for name, content in contents.items():
            path = folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return folder

    return write


def png(size: tuple[int, int] = (8, 8), level: int = 0) -> bytes:
    content = io.BytesIO()
    Image.new("L", size, level).save(content, "PNG")
    return content.getvalue()


def test_one_unreadable_image_is_left_out(saccade: Callable[..., Any], tmp_path: Path) -> None:
    folder = write_colours(tmp_path / "photos", 4)
    (folder / "red" / "new\nline.png").write_bytes(b"")
    found = saccade("train", folder, "--set", "train.steps=1", "--out", tmp_path / "run")
    assert found.code == 0
    assert "Left out" in found.err and "new\\nline.png: got an empty file" in found.err


BAD_DATA: dict[str, tuple[Callable[[Path], Path], str]] = {
    "empty folder": (files(), "got an empty folder; expected a sub-folder of images"),
    "one class": (
        files(a__1_png=png(), a__2_png=png(level=9)),
        "got the same class ('a') for all 2 training images",
    ),
    "no class folders": (files(one_png=png(), two_png=png()), "got 2 images without a class"),
    "zero bytes": (files(a__1_png=b"", b__1_png=b""), "got an empty file (0 bytes)"),
    "one pixel": (
        files(a__1_png=png((1, 1)), b__1_png=png((1, 1))),
        "got 1 × 1 pixels; expected at least 2 × 2",
    ),
    "wrong extension": (
        files(a__1_png=b"just some text", b__1_png=b"more text"),
        "got a file that is not an image",
    ),
    "truncated": (files(a__1_png=png((90, 90))[:-60], b__1_png=b""), "damaged or truncated"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_has_one_message(case: str, saccade: Callable[..., Any], tmp_path: Path) -> None:
    write, message = BAD_DATA[case]
    folder = write(tmp_path / "photos")
    before = sorted((path, path.stat().st_size) for path in folder.rglob("*"))
    found = saccade("train", "image", "--data", folder, "--out", tmp_path / "run")
    assert found.code == 2
    assert message in found.message and "Traceback" not in found.err
    assert not (tmp_path / "run").exists()
    assert sorted((path, path.stat().st_size) for path in folder.rglob("*")) == before


def test_network_too_deep_for_the_images(saccade: Callable[..., Any], colours: Path) -> None:
    found = saccade("train", "image", "--data", colours, "--set", "model.image_size=6")
    assert found.code == 2 and "leaves no pixel for the layer" in found.message
