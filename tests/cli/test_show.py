"""`saccade show`: facts of a run, from its folder alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.io.tensors import read_tensors, write_tensors
from saccade.runs.run import load_run
from saccade.runs.summary import summarise_run

Command = Callable[..., Any]
KEPT = Path(__file__).parents[1] / "kept"


@pytest.fixture
def run(trained_runs: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_runs["transformer"], tmp_path / "run"))


def test_show_has_settings_provenance_figures_size_and_state(run: Path, saccade: Command) -> None:
    facts = json.loads(saccade("show", run, "--json").out)
    opened = load_run(run)
    assert facts["parameters"] == opened.parameters
    assert facts["state"] == "finished: all steps done" and facts["finished"]
    best = [line for line in opened.metrics() if line.get("best")][-1]
    assert facts["dev"]["loss"] == best["dev_loss"] and facts["dev"]["step"] == best["step"]
    assert facts["provenance"]["data fingerprint"] == opened.metadata["data"]
    settings = {row["path"]: (row["value"], row["default"]) for row in facts["settings"]}
    assert settings["model.width"] == (8, 128) and settings["model.positions"][0] == "sinusoidal"
    assert facts["files"]["model.safetensors"] == (run / "model.safetensors").stat().st_size
    assert facts["bytes"] == sum(p.stat().st_size for p in run.rglob("*") if p.is_file())
    assert facts["test"] == {} and facts["floors"] == {}


def test_show_prints_what_differs_and_with_all_everything(run: Path, saccade: Command) -> None:
    short, long = saccade("show", run).out, saccade("show", run, "--all").out
    assert "model.width" in short and "model.positions" not in short
    assert "model.positions" in long and "fingerprint" in short
    assert f"saccade predict {run} …" in short and "--resume" not in short


def test_show_has_the_test_scores_of_these_weights_only(run: Path, saccade: Command) -> None:
    found = load_run(run).evaluate()
    facts = json.loads(saccade("show", run, "--json").out)
    assert facts["test"]["loss"] == found["loss"] and "copied source" in facts["floors"]
    assert "copied source" in saccade("show", run).out
    weights, metadata = read_tensors(run / "model.safetensors")
    write_tensors(run / "model.safetensors", {n: w * 2 for n, w in weights.items()}, metadata)
    assert json.loads(saccade("show", run, "--json").out)["test"] == {}


def test_show_an_interrupted_run(run: Path, saccade: Command) -> None:
    weights, metadata = read_tensors(run / "model.safetensors")
    write_tensors(run / "model.safetensors", weights, {**metadata, "ended": "stop"})
    [*_, checkpoint] = sorted((run / "checkpoint").iterdir())
    steps = load_run(run).recipe.model_dump()["train"]["steps"]
    expected = f"interrupted at step {int(checkpoint.stem)} of {steps}"
    assert expected in saccade("show", run).out and f"--resume {run}" in saccade("show", run).out
    shutil.rmtree(run / "checkpoint")
    (run / "model.safetensors").unlink()
    (run / "metrics.jsonl").unlink()
    found = saccade("show", run)
    assert found.code == 0 and "interrupted before the first checkpoint" in found.out
    assert "saccade predict" not in found.out


@pytest.mark.parametrize("folder", sorted(KEPT.glob("format*/transformer")), ids=str)
def test_show_old_formats(folder: Path, saccade: Command) -> None:
    facts = json.loads(saccade("show", folder, "--json").out)
    assert facts["state"] == "interrupted at step 40 of 60"
    assert facts["parameters"] == load_run(folder).parameters
    assert facts["provenance"]["format"] == int(folder.parent.name[-1])


def test_show_names_other_runs_if_there_is_none(run: Path, saccade: Command) -> None:
    result = saccade("show", run.parent / "rnu")
    assert result.code == 2 and f"Runs in {run.parent}: {run}" in result.err


def test_summary_of_an_import_is_finished(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    weights, _ = read_tensors(run / "model.safetensors")
    write_tensors(run / "model.safetensors", weights, {})
    assert summarise_run(run).state == "finished: imported from another tool"
