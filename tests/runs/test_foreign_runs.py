"""Run folders of other machines: the files that their settings name are not read unseen."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.config import override_settings
from saccade.errors import DataError
from saccade.io.machine import is_made_here, sign_paths
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from tests.special_files import make_special

Elsewhere = Callable[[], None]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    """Return a function that makes this machine another one."""

    def change() -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other machine"))
        sign_paths({}, {})  # the other machine has a key of its own

    return change


@pytest.fixture
def run(smallest: Callable[..., Any], words_file: Path, tmp_path: Path) -> Run:
    shutil.copy(words_file, tmp_path / "data.tsv")
    recipe = smallest("seq2seq", {"data.path": str(tmp_path / "data.tsv"), "train.steps": 2})
    return train_recipe(recipe, tmp_path / "run", TrainOptions()).run


def set_path(run: Run, path: str) -> Path:
    """Write another data.path into run.toml, with right checksums, as anyone can."""
    run.recipe = override_settings(run.recipe, {"data.path": path})
    run.metadata["paths"] = {}
    run.save_settings(run.folder)
    return run.folder


def change_data(path: Path) -> None:
    path.write_text(path.read_text().replace("a", "b"))


def test_run_made_here_reads_its_data_as_it_is(run: Run, tmp_path: Path) -> None:
    assert is_made_here(run.recipe.data.model_dump(), run.metadata)
    change_data(tmp_path / "data.tsv")
    assert load_run(run.folder).evaluate()["examples"] > 0


def test_run_of_another_machine_needs_its_training_data(
    run: Run, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    elsewhere()
    assert load_run(run.folder).evaluate()["examples"] > 0
    resume(run.folder, {"train.steps": 3}, TrainOptions())
    change_data(tmp_path / "data.tsv")
    with pytest.raises(DataError, match="not made on this machine.*try --data FILE"):
        load_run(run.folder).evaluate()
    assert load_run(run.folder).evaluate(tmp_path / "data.tsv")["examples"] > 0


def test_run_without_a_signature_needs_its_training_data(run: Run, tmp_path: Path) -> None:
    """Runs of earlier versions have none."""
    del run.metadata["machine"]
    run.save_settings(run.folder)
    assert load_run(run.folder).evaluate()["examples"] > 0
    change_data(tmp_path / "data.tsv")
    with pytest.raises(DataError, match="not made on this machine"):
        load_run(run.folder).evaluate()


def test_changed_path_has_no_valid_signature(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret.tsv"
    secret.write_text("my password\tis hunter2\n" * 200)
    with pytest.raises(DataError, match="not made on this machine") as caught:
        load_run(set_path(run, str(secret))).evaluate()
    assert "hunter2" not in str(caught.value)
    assert load_run(run.folder).evaluate(secret)["examples"] == 200  # named by the user


def test_data_in_the_run_folder_is_read(run: Run, elsewhere: Elsewhere, tmp_path: Path) -> None:
    inside = run.folder / "tokens"
    inside.mkdir()
    shutil.copy(tmp_path / "data.tsv", inside / "data.tsv")
    change_data(inside / "data.tsv")
    folder = set_path(run, str(inside / "data.tsv"))
    elsewhere()
    assert load_run(folder).evaluate()["examples"] > 0
    (inside / "data.tsv").unlink()
    (inside / "data.tsv").symlink_to("/etc/passwd")  # a link does not lead out of it
    with pytest.raises(DataError):
        load_run(folder).evaluate()


@pytest.mark.parametrize("path", ["https://example.org/data.tsv", "http://[::1]/x", "-"])
def test_addresses_of_other_machines_are_not_read(
    path: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("it was opened")

    monkeypatch.setattr("saccade.io.download.urlopen", refuse)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match="therefore not read"):
        load_run(set_path(run, path)).evaluate()


@pytest.mark.parametrize("kind", ["a device", "a pipe", "a socket"])
@pytest.mark.parametrize("is_own", [True, False])
def test_special_files_as_data_are_refused(
    is_own: bool, kind: str, run: Run, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    (tmp_path / "data.tsv").unlink()
    make_special(kind, tmp_path / "data.tsv")
    if not is_own:
        elsewhere()
    with pytest.raises(DataError, match=f"data.tsv: got {kind} as data.path"):
        load_run(run.folder).evaluate()


@pytest.mark.parametrize("kind", ["missing", "empty", "a folder", "a pipe", "a device"])
def test_key_of_any_kind(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key nothing is signed, and no run was made here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    signature = sign_paths({"path": "a.tsv"}, {})
    path = tmp_path / "saccade" / "machine.key"
    assert is_made_here({"path": "a.tsv"}, {"machine": signature})
    assert path.stat().st_mode & 0o777 == 0o600
    for made in ({}, {"machine": ""}, {"machine": 7}, {"machine": "é"}, {"machine": "0" * 64}):
        assert not is_made_here({"path": "a.tsv"}, made)
    assert not is_made_here({"path": "b.tsv"}, {"machine": signature})
    assert not is_made_here({"path": "a.tsv"}, {"machine": signature, "paths": {"path": {}}})
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind != "missing":
        make_special(kind, path)
    assert not is_made_here({"path": "a.tsv"}, {"machine": signature})
    found = sign_paths({"path": "a.tsv"}, {})
    assert bool(found) == (kind == "missing") and found != signature


def test_state_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert sign_paths({"path": "a.tsv"}, {}) == ""
    assert os.listdir(tmp_path) == ["file"]
