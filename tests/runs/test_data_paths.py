"""A run finds its data from another folder, and where it was moved to; otherwise it says how."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.errors import DataError
from saccade.runs.data_paths import is_plain_path
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, train_recipe


@pytest.fixture
def project(
    smallest: Callable[..., Any],
    words_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return a folder with data.tsv and runs/mine, trained with a relative path."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(words_file, folder / "data.tsv")
    monkeypatch.chdir(folder)
    recipe = smallest("seq2seq", {"data.path": "data.tsv", "train.steps": 2})
    train_recipe(recipe, Path("runs/mine"), TrainOptions())
    return folder


def test_data_is_found_from_another_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = load_run(project / "runs/mine")
    assert run.recipe.data.path == "data.tsv"
    assert run.evaluate()["examples"] > 0


def test_data_is_found_after_the_project_was_moved(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = project.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert load_run(moved / "runs/mine").evaluate()["examples"] > 0


def test_message_names_the_paths_and_the_option(project: Path, tmp_path: Path) -> None:
    (project / "data.tsv").unlink()
    with pytest.raises(DataError) as caught:
        load_run(project / "runs/mine").evaluate()
    message = str(caught.value)
    assert f"no {project / 'data.tsv'} and no data.tsv" in message and "--data FILE" in message
    other = tmp_path / "other.tsv"
    other.write_text("abc\tcba\n")
    assert load_run(project / "runs/mine").evaluate(other)["examples"] == 1


def test_data_of_a_run_without_remembered_paths(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run = load_run(project / "runs/mine")
    del run.metadata["paths"]  # written by an earlier version
    assert run.evaluate()["examples"] > 0
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="there is no data.tsv; .*--data FILE"):
        run.prepare_data()


@pytest.mark.parametrize(
    ("text", "is_path"),
    [
        ("a.tsv", True),
        ("a.en,a.de", True),
        ("-", False),
        ("https://example.org/a.csv", False),
        ("texts/*.txt", False),
        ("a.db#table", False),
    ],
)
def test_only_plain_paths_are_located(text: str, is_path: bool) -> None:
    assert is_plain_path(text) is is_path
