"""Paths of outputs that cannot be meant: refused by name, and nothing of the user's is changed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.errors import ConfigError
from saccade.io.staging import check_output_path

TRAIN = "train translate --data words.tsv --model seq2seq --set train.steps=1 --set model.width=8"
COMMANDS = {
    "export": "export RUN --to ctranslate2 --out",
    "vectors": "export VECTORS --to word2vec --out",
    "import": "import word2vec vectors.txt --out",
    "train": f"{TRAIN} --out",
    "overwrite": f"{TRAIN} --overwrite --out",
    "prune": "prune RUN --out",
    "predict": "predict RUN --file words.tsv --out",
    "look": "look RUN abc --save",
    "plot": "plot activations --save",
    "data": "data words.tsv --save",
}
PATHS = {
    "working folder": ".",
    "empty": "",
    "parent": "..",
    "root": "/",
    "run": "RUN",
    "around the run": "runs",
    "file": "thesis.txt",
    "below a file": "thesis.txt/new.png",
    "folder with other files": "papers",
    "folder with the name of a picture": "papers.png",
    "link to a file": "link.txt",
    "link to nothing": "broken",
    "link to a device": "device",
    "pipe": "pipe",
    "5,000 characters": "a" * 5000,
    "5,000 characters and a suffix": "a" * 5000 + ".png",
    "null character": "a\0b.png",
    "not UTF-8": "a\udcff.png",
}


@pytest.fixture
def user_files(
    trained_runs: dict[str, Path], words_file: Path, tmp_path: Path
) -> Callable[[], dict[str, Any]]:
    """Make files of a user; return a function that lists all files with their content."""
    shutil.copytree(trained_runs["transformer"], tmp_path / "runs" / "mine")
    shutil.copy(words_file, tmp_path / "words.tsv")
    (tmp_path / "vectors.txt").write_text("2 2\na 1 2\nb 3 4\n")
    (tmp_path / "thesis.txt").write_text("years of work\n")
    for name in ("papers", "papers.png"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("years of work\n")
    (tmp_path / "link.txt").symlink_to("thesis.txt")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "device").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe")

    def listed() -> dict[str, Any]:
        return {
            str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in tmp_path.rglob("*")
            if path.is_symlink() or path.is_file()
        }

    return listed


@pytest.fixture
def vectors_run(tmp_path: Path, user_files: Callable[[], dict[str, Any]]) -> Path:
    from saccade.runs.run import import_run

    import_run("word2vec", tmp_path / "vectors.txt", tmp_path / "runs" / "vectors")
    return tmp_path / "runs" / "vectors"


@pytest.mark.parametrize("path", PATHS)
def test_outputs_are_refused_and_nothing_is_changed(
    path: str,
    saccade: Callable[..., Any],
    user_files: Callable[[], dict[str, Any]],
    vectors_run: Path,
) -> None:
    before = user_files()
    names = {"RUN": "runs/mine", "VECTORS": "runs/vectors"}
    for name, command in COMMANDS.items():
        if name == "overwrite" and path == "run":
            continue  # it replaces the run, as it is asked to
        out = names.get(PATHS[path], PATHS[path])
        result = saccade(*(names.get(word, word) for word in command.split()), out)
        assert result.code == 2, f"{name}: {result.err}"
        assert "Internal error" not in result.err and len(result.err) < 2000, (name, result.err)
        # the parser of the arguments refuses null characters itself
        named = (out[:20] or ".", "thesis.txt", "embedded null byte", "is not UTF-8")
        assert any(text in result.err for text in named), f"{name}: {result.err}"
        assert user_files() == before, name


@pytest.mark.parametrize("name", ["export", "import", "train"])
@pytest.mark.parametrize("out", ["empty", "link", "new/folder"])
def test_other_folders_are_written(
    out: str,
    name: str,
    saccade: Callable[..., Any],
    user_files: Callable[[], dict[str, Any]],
    tmp_path: Path,
) -> None:
    """An empty folder, a link to one, and a new folder in a new folder."""
    before = user_files()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    result = saccade(*COMMANDS[name].replace("RUN", "runs/mine").split(), out)
    assert result.code == 0, result.err
    found = user_files()
    assert {path: found[path] for path in before} == before
    marker = "saccade.json" if name == "export" else "run.toml"
    assert (tmp_path / out / marker).is_file()
    assert (tmp_path / "link").is_symlink()
    assert not list(tmp_path.rglob(".*.staging"))


def test_word_vectors_do_not_replace_another_file(
    saccade: Callable[..., Any], vectors_run: Path, tmp_path: Path
) -> None:
    command = ["export", vectors_run, "--to", "word2vec"]
    assert saccade(*command, "--out", "new.txt").code == 0
    assert saccade(*command, "--out", "new.txt").code == 0  # the same content
    (tmp_path / "new.txt").write_text("edited by hand\n")
    result = saccade(*command, "--out", "new.txt")
    assert result.code == 2 and "new.txt already exists and has other content" in result.err
    assert (tmp_path / "new.txt").read_text() == "edited by hand\n"
    # in the folder of the run it is replaced
    assert saccade(*command).code == 0
    (vectors_run / "exports" / "word2vec").write_text("of other weights\n")
    assert saccade(*command).code == 0
    assert (vectors_run / "exports" / "word2vec").read_text() == "2 2\na 1 2\nb 3 4\n"


def test_previous_export_with_other_files_is_kept(
    saccade: Callable[..., Any], user_files: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    command = ["export", "runs/mine", "--to", "ctranslate2", "--out", "exported"]
    assert saccade(*command).code == 0
    assert saccade(*command).code == 0
    (tmp_path / "exported" / "notes.txt").write_text("years of work\n")
    result = saccade(*command)
    assert result.code == 2 and "notes.txt" in result.err
    assert (tmp_path / "exported" / "notes.txt").exists()


def test_output_path_has_its_links_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    assert check_output_path(tmp_path / "link") == (tmp_path / "folder").resolve()
    with pytest.raises(ConfigError, match=r"a\\x00b, which has a null character"):
        check_output_path("a\0b")
