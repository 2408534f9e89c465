"""Errors about arguments and files come before torch, and unneeded modules are never imported.

What is imported is asserted, not how long it takes.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "matplotlib", "numba", "scipy", "sacrebleu", "transformers", "ctranslate2")
PROGRAM = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from saccade.cli.main import run
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    modules = sorted({name.split(".")[0] for name in sys.modules})
    sys.stdout.write(json.dumps([code, out.getvalue(), err.getvalue(), modules]) + "\\n")
"""


def call(folder: Path, *commands: list[str]) -> list[tuple[int, str, str, set[str]]]:
    """Run commands in one process; return code, output, errors and the modules loaded so far."""
    arguments = json.dumps(commands)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [
        (code, out, err, {*modules} & {*HEAVY})
        for code, out, err, modules in map(json.loads, done.stdout.splitlines())
    ]


def test_errors_come_before_heavy_modules(trained_runs: dict[str, Path], tmp_path: Path) -> None:
    run = str(trained_runs["transformer"])
    expected = {
        ("train", "dats"): "no recipe 'dats'",
        ("train", "dates", "--set", "train.stpes=3"): "Did you mean 'train.steps'?",
        ("train", "dates", "--set", "model.width=-3"): "model.width is -3",
        ("train", "dates", "--model", "transfomer"): "Did you mean 'transformer'?",
        ("train", "dates", "--lr", "0.1"): "--set train.learning_rate=0.1",
        ("train", "translate", "--data", "gone.tsv"): "There is no file gone.tsv",
        ("train", "table", "--data", "gone.csv", "--target", "y"): "There is no file gone.csv",
        ("predict", "runs/gone", "abc"): "runs/gone is not a run",
        ("evaluate", "runs/gone"): "runs/gone is not a run",
        ("evaluate", run, "--data", "gone.tsv"): "There is no file gone.tsv",
        ("check", run, "--data", "gone.tsv"): "There is no file gone.tsv",
        ("look", "runs/gone", "abc"): "runs/gone is not a run",
        ("finetune", run, "--data", "gone.tsv"): "There is no file gone.tsv",
        ("export", run, "--to", "onxx"): "no export format 'onxx'",
        ("compare", "dates", "--set", "model.widht=3"): "Did you mean 'model.width'?",
        ("compare", "optimizers", "--data", "dats"): "no recipe 'dats'",
        ("show", "runs/gone"): "runs/gone is not a run",
        ("settings", "dats"): "no recipe 'dats'",
    }
    results = call(tmp_path, *map(list, expected))
    for (arguments, message), (code, _, err, heavy) in zip(expected.items(), results, strict=True):
        assert code == 2 and message in err and not heavy, (arguments, err, heavy)


def test_settings_show_and_completion_load_nothing_heavy(
    trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    commands = [
        ["--help"],
        ["settings", "translate"],
        ["settings", "language", "--model", "gpt2"],
        ["settings", "table"],
        ["show", str(trained_runs["transformer"])],
        ["copy", "dates", "mine.toml"],
    ]
    for arguments, (code, out, err, heavy) in zip(commands, call(tmp_path, *commands), strict=True):
        assert code == 0 and out and not heavy, (arguments, err, heavy)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_predict_and_evaluate_never_load_matplotlib(
    command: str, trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    more = ["abc"] if command == "predict" else []
    [(code, out, err, heavy)] = call(tmp_path, [command, str(trained_runs["seq2seq"]), *more])
    assert code == 0 and out, err
    assert "torch" in heavy and not heavy & {"matplotlib", "numba", "transformers", "ctranslate2"}
    if command == "predict":
        assert not heavy & {"scipy", "sacrebleu"}
