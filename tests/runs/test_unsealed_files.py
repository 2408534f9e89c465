"""metrics.jsonl, token ids and decoded images, replaced by anything: named, made again, refused."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from saccade import train
from saccade.errors import RunError, SaccadeError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume
from saccade.tasks.base import PrepareContext
from saccade.tasks.captioning.data import PreparedCaptions, prepare_captions

LINES = [
    f"the {word} sat on the {other} mat"
    for word in "cat dog cow hen".split()
    for other in "red old big wet new dry hot".split()
]
Replace = Callable[[Path], None]


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


REPLACEMENTS: dict[str, Replace] = {
    "empty": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
    "random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(4001)),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 8 * 4]),
    "ids out of range": lambda path: path.write_bytes(
        (np.full(path.stat().st_size // 4, 1 << 30, "<i4")).tobytes()
    ),
    "negative ids": lambda path: path.write_bytes(b"\x80" * path.stat().st_size),
    "nested JSON": lambda path: path.write_text("[" * 100_000),
    "a folder": replaced_by_folder,
    "a device": replaced_by_link,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unsealed") / "text.txt"
    path.write_text("\n".join(LINES * 4))
    return path


@pytest.fixture(scope="module", params=["language", "vectors"])
def whole(
    request: pytest.FixtureRequest, text: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Return a finished run with files of ids."""
    folder = tmp_path_factory.mktemp("unsealed") / request.param
    if request.param == "language":
        settings = {"train.steps": 4, "train.evaluate_every": 2, "model.width": 16}
        settings |= {"model.depth": 1, "data.tokenizer.kind": "character"}
        return train("language", data=str(text), model="gru", set=settings, out=folder)
    settings = {"model.width": 8, "model.epochs": 1, "data.min_count": 1, "train.threads": 1}
    return train("vectors", data=str(text), model="skipgram", set=settings, out=folder)


# that cannot be replaced or read without an end
NOT_FILES = ("a folder", "a device")


@pytest.mark.parametrize("damage", sorted(REPLACEMENTS.keys() - {"a folder"}))
def test_damaged_ids_are_named_and_made_again(
    whole: Run, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, ids = damaged_copy(whole, damage, tmp_path)
    with caplog.at_level(logging.WARNING, "saccade"):
        assert load_run(folder).evaluate()["loss"] == whole.evaluate()["loss"]
    if damage != "missing":
        assert str(ids) in caplog.text and "read again" in caplog.text
    assert ids.is_file() and not ids.is_symlink()


def test_folder_in_place_of_ids_is_named(whole: Run, tmp_path: Path) -> None:
    folder, ids = damaged_copy(whole, "a folder", tmp_path)
    with pytest.raises(OSError, match=ids.name):
        load_run(folder).evaluate()


def damaged_copy(whole: Run, damage: str, tmp_path: Path) -> tuple[Path, Path]:
    """Return a copy of a run whose training ids are damaged, and their path."""
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    ids = max((folder / "tokens").glob("*.ids"), key=lambda path: path.stat().st_size)
    REPLACEMENTS[damage](ids)
    return folder, ids


@pytest.mark.parametrize("damage", ["random", "ids out of range", "truncated"])
def test_damaged_ids_without_the_data_are_refused(whole: Run, damage: str, tmp_path: Path) -> None:
    folder, _ = damaged_copy(whole, damage, tmp_path)
    text = Path(whole.recipe.data.model_dump()["path"])
    hidden = text.with_suffix(".hidden")
    text.rename(hidden)
    try:
        with pytest.raises(SaccadeError, match="text.txt"):
            load_run(folder).evaluate()
    finally:
        hidden.rename(text)


@pytest.mark.parametrize("damage", sorted(REPLACEMENTS.keys() - set(NOT_FILES)))
def test_damaged_metrics_do_not_stop_a_run(whole: Run, damage: str, tmp_path: Path) -> None:
    """Without its log a run predicts, evaluates, shows its summary and is extended."""
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    REPLACEMENTS[damage](folder / "metrics.jsonl")
    run = load_run(folder)
    assert run.evaluate()["loss"] == whole.evaluate()["loss"]
    run.summary()
    if whole.recipe.task == "language":
        resume(folder, {"train.steps": 6}, TrainOptions())
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert max(line["step"] for line in lines) == 6


@pytest.mark.parametrize("damage", NOT_FILES)
def test_metrics_that_are_not_a_file_are_named(whole: Run, damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    REPLACEMENTS[damage](folder / "metrics.jsonl")
    with pytest.raises(RunError, match=r"metrics\.jsonl is not a file"):
        load_run(folder).summary()


# --- decoded images -------------------------------------------------------------------------------

STORED = ("captions.json", "images.json", "pixels.bin")


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreparedCaptions]:
    """Return a folder of decoded images with captions, and what was prepared of them."""
    photos, folder = (tmp_path_factory.mktemp(name) for name in ("photos", "decoded"))
    for number in range(12):
        Image.new("L", (16, 16), 20 * number).save(photos / f"{number}.png")
    lines = (f"{n}.png\ta square of {'dark' if n < 6 else 'light'} grey\n" for n in range(12))
    (photos / "captions.tsv").write_text("".join(lines))
    recipe = resolve_recipe("caption", data=str(photos / "captions.tsv")).recipe
    return folder, prepare_captions(recipe, PrepareContext(scratch_dir=folder))


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("damage", REPLACEMENTS)
def test_damaged_images_are_named_and_decoded_again(
    name: str,
    damage: str,
    decoded: tuple[Path, PreparedCaptions],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder, before = decoded
    shutil.copytree(folder, tmp_path / "images")
    path = tmp_path / "images" / name
    REPLACEMENTS[damage](path)
    context = PrepareContext(scratch_dir=path.parent, preprocessor=before.preprocessor)
    with caplog.at_level(logging.WARNING, "saccade"):
        if damage == "a folder":
            with pytest.raises(RunError, match=f"{name} could not be written: Is a directory"):
                prepare_captions(before.recipe, context)
        else:
            assert prepare_captions(before.recipe, context).fingerprint() == before.fingerprint()
            assert path.is_file() and not path.is_symlink()
    if (name, damage) != ("images.json", "missing"):  # without it, images are decoded
        assert str(path) in caplog.text and "read again" in caplog.text
    assert {file.name for file in path.parent.iterdir()} == {*STORED}


def test_file_in_the_position_of_the_images_is_named(
    decoded: tuple[Path, PreparedCaptions], tmp_path: Path
) -> None:
    (tmp_path / "images").write_text("x")
    context = PrepareContext(scratch_dir=tmp_path / "images")
    with pytest.raises(RunError, match="images: got a file; expected a folder; try to remove it"):
        prepare_captions(decoded[1].recipe, context)
