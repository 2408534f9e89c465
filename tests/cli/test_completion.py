"""Shell completion of recipes, models, runs and settings."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from saccade.cli.completion import (
    complete_models,
    complete_recipes,
    complete_runs,
    complete_settings,
)
from saccade.recipes.resolve import RECIPES
from saccade.tasks.registry import TASKS


def context(**params: Any) -> typer.Context:
    command: Any = typer.main.get_command(typer.Typer(callback=lambda: None))
    made = typer.Context(command)
    made.params = params
    return made


def names(completions: Any) -> list[str]:
    return [name for name, _ in completions]


def test_recipes_are_completed_with_their_summary() -> None:
    assert names(complete_recipes("")) == [*RECIPES]
    [(name, summary)] = complete_recipes("dat")
    assert name == "dates" and "ISO 8601" in summary


@pytest.mark.parametrize("task", TASKS)
def test_models_are_those_of_the_task(task: str) -> None:
    assert names(complete_models(context(what=task), "")) == sorted(TASKS[task].models)


def test_models_of_a_data_file() -> None:
    assert "bahdanau" in names(complete_models(context(what="pairs.tsv"), "ba"))


def test_settings_and_their_values_are_completed() -> None:
    found = dict(complete_settings(context(what="dates"), "train.lea"))
    assert found == {
        "train.learning_rate=": "Peak learning rate, before the factor of the schedule."
    }
    values = names(complete_settings(context(what="translate"), "train.schedule=c"))
    assert values == ["train.schedule=constant", "train.schedule=cosine"]
    of_model = names(complete_settings(context(what="translate", model="transformer"), "model.h"))
    assert of_model == ["model.heads=", "model.hidden="]
    assert names(complete_settings(context(what="gone.toml"), "train.seed")) == ["train.seed="]


def test_runs_are_found_where_they_are(
    trained_runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("runs/mine", "other", "far/away/run"):
        shutil.copytree(trained_runs["seq2seq"], folder)
    (tmp_path / "runs/empty").mkdir()
    assert names(complete_runs("")) == ["other", "runs/mine"]
    assert names(complete_runs("runs/m")) == ["runs/mine"]
    assert names(complete_runs("far/away/")) == ["far/away/run"]
    assert names(complete_runs("nothing")) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["show", "runs/"], ["runs/mine"]),
        (["settings", "dat"], ["dates"]),
        (["train", "translat"], ["translate"]),
        (["train", "ru"], ["runs/"]),
        (["train", "runs/mine/run"], ["runs/mine/run.toml"]),
        (["train", "dates", "--model", "transf"], ["transformer"]),
        (["compare", "kernel"], ["kernel-regression"]),
        (["settings", "translate", "--model", "transf"], ["transformer"]),
        (["finetune", "runs/mine", "--set", "train.seed"], ["train.seed="]),
    ],
)
def test_shell_completes(
    words: list[str], expected: list[str], trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(trained_runs["seq2seq"], tmp_path / "runs/mine")
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "_SACCADE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["saccade", *words]),
        "COMP_CWORD": str(len(words)),
    }
    program = (
        "import sys; from saccade.cli.main import app\n"
        "try: app(prog_name='saccade')\n"
        "finally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == expected, done.stderr
