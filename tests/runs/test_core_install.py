"""The core install: without the extras, every task whose model needs none trains and predicts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hanging import HANG_SECONDS

ROOT = Path(__file__).parents[2]
# the packages of the extras and of development; scipy and pandas come with some of them
NOT_INSTALLED = (
    "beartype",
    "ctranslate2",
    "fasttext",
    "gensim",
    "numba",
    "pandas",
    "rouge_score",
    "scipy",
    "sklearn",
    "transformers",
)
# runs commands in one process, so that torch is imported once
PROGRAM = '''
import contextlib, io, json, sys

class WithoutExtras:
    """An import finder that does not find some packages."""

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in blocked:
            return self.finder.find_spec(name, path, target)

blocked, commands = json.load(sys.stdin)
sys.meta_path = [WithoutExtras(finder) for finder in sys.meta_path]
from saccade.cli.main import run
results = []
for command in commands:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command)
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps([results, [name for name in blocked if name in sys.modules]]))
'''
QUICK = ["train.steps=4", "train.evaluate_every=2", "train.threads=1"]
SMALL_MODEL = ["model.width=8", "train.batch_tokens=64"]
# folder: arguments of train, settings, an input of predict
TASKS: dict[str, tuple[list[str], list[str], str]] = {
    "table-mlp": (
        ["table", "--model=mlp", "--data=table.csv", "--target=answer"],
        [*QUICK, "model.hidden=4"],
        "5,1",
    ),
    "translate": (
        ["translate", "--model=bahdanau", "--data=pairs.tsv"],
        [*QUICK, *SMALL_MODEL, "data.max_new_tokens=8"],
        "abc",
    ),
    "forecast": (
        ["forecast", "--data=series.txt"],
        [*QUICK, "train.batch_tokens=64"],
        "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8",
    ),
    "language-gru": (
        ["language", "--model=gru", "--data=text.txt"],
        [*QUICK, *SMALL_MODEL],
        "the cat",
    ),
    "classify-ngrams": (
        ["classify", "--data=labels.tsv"],
        ["train.threads=1"],
        "the cat",
    ),
    "kernel-regression": (
        ["kernel-regression", "--model=kernel", "--data=points.tsv"],
        ["train.threads=1"],
        "2.5",
    ),
}


def commands() -> dict[str, list[str]]:
    """Return the commands by name: train, predict and evaluate for each task."""
    found = {}
    for name, (arguments, settings, text) in TASKS.items():
        options = [f"--set={setting}" for setting in settings]
        found[f"{name} train"] = ["train", *arguments, *options, f"--out={name}"]
        found[f"{name} predict"] = ["predict", name, text, "--json"]
        found[f"{name} evaluate"] = ["evaluate", name, "--json"]
    found["vectors train"] = ["train", "vectors", "--data=text.txt", "--out=vectors"]
    found["list"] = ["list"]
    return found


@pytest.fixture(scope="module")
def results(words_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all commands in a process without the extras; return (exit code, out, err) by name."""
    folder = tmp_path_factory.mktemp("core")
    rows = [f"{n % 7},{(n * 5) % 11},{'yes' if n % 7 > 3 else 'no'}" for n in range(60)]
    (folder / "table.csv").write_text("a,b,answer\n" + "\n".join(rows) + "\n")
    (folder / "pairs.tsv").write_text(words_file.read_text())
    (folder / "series.txt").write_text("\n".join(str((n * 7) % 23 / 10) for n in range(300)) + "\n")
    (folder / "text.txt").write_text("the cat sat on the mat and ate a rat .\n" * 200)
    labels = [
        f"{'cat' if n % 2 else 'dog'}\tthe {'cat' if n % 2 else 'dog'} {n}" for n in range(80)
    ]
    (folder / "labels.tsv").write_text("\n".join(labels) + "\n")
    points = [f"{n / 10}\t{(n * 7) % 13 / 10}" for n in range(40)]
    (folder / "points.tsv").write_text("\n".join(points) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([NOT_INSTALLED, list(commands().values())]),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found, loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded == []
    return dict(zip(commands(), found, strict=True))


@pytest.mark.parametrize("name", TASKS)
def test_core_install_trains_predicts_and_evaluates(name: str, results: dict[str, Any]) -> None:
    for command in ("train", "predict", "evaluate"):
        code, out, err = results[f"{name} {command}"]
        assert code == 0, f"{command}: {err}"
        if command != "train":
            assert json.loads(out)


def test_core_install_names_the_missing_extra(results: dict[str, Any]) -> None:
    code, _, err = results["vectors train"]
    assert code == 2
    assert "numba" in err and "saccade[vectors]" in err


def test_core_install_lists_all_models(results: dict[str, Any]) -> None:
    code, out, err = results["list"]
    assert code == 0, err
    assert "skipgram" in out and "transformer" in out
