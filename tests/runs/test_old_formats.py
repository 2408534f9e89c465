"""Runs of earlier formats: they open, predict as they did, and can be resumed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from saccade.cli.main import run as saccade
from saccade.errors import RunError
from saccade.io.atomic import read_checksummed_text, write_checksummed_text
from saccade.io.run_folder import RUN_FORMAT
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, resume

KEPT = Path(__file__).parents[1] / "kept"
RUNS = sorted(path.parent.relative_to(KEPT) for path in KEPT.glob("*/*/run.toml"))


@pytest.fixture(params=RUNS, ids=str)
def kept(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, Any]]:
    """Return a copy of a kept run next to its data, and the predictions of its version."""
    folder = tmp_path / request.param.name
    shutil.copytree(KEPT / request.param, folder)
    shutil.copy((KEPT / request.param).parent / "words.tsv", tmp_path)
    monkeypatch.chdir(tmp_path)
    facts = (KEPT / request.param).with_suffix(".json").read_text(encoding="utf-8")
    return folder, json.loads(facts.replace('"others"', '"alternatives"'))


def predictions(folder: Path, facts: dict[str, Any]) -> Any:
    found = [answer.to_dict() for answer in load_run(folder).predict(facts["sources"])]
    return json.loads(json.dumps(found))


def approximately(values: Any) -> Any:
    """Return the values with the tolerance that another machine or torch version needs."""
    if isinstance(values, float):
        return pytest.approx(values, rel=1e-3, abs=1e-4)
    if isinstance(values, dict):
        clock = ("seconds", "rate")
        return {name: approximately(value) for name, value in values.items() if name not in clock}
    return [approximately(value) for value in values] if isinstance(values, list) else values


def without_omitted(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of metrics without those that are left out since 0.7: BLEU of single words."""
    return {k: v for k, v in line.items() if k not in ("dev_bleu", "dev_taught_bleu")}


def test_kept_runs_cover_each_format_and_model() -> None:
    for number in range(1, RUN_FORMAT + 1):
        folder = Path(f"format{number}")
        assert {folder / "bahdanau", folder / "seq2seq", folder / "transformer"} <= set(RUNS)


def test_old_run_predicts_as_its_version_did(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, facts = kept
    assert predictions(folder, facts) == approximately(facts["answers"])
    assert any(answer["text"] for answer in facts["answers"])


def test_old_run_resumes_as_its_version_did(
    kept: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.runs.train.write_report", lambda *arguments: None)
    folder, facts = kept
    assert resume(folder, {}, TrainOptions()).stop_reason == "steps"
    assert predictions(folder, facts) == approximately(facts["in the end"])
    later = [line for line in load_run(folder).metrics() if line["step"] > 40]
    assert [
        {name: value for name, value in line.items() if name not in ("seconds", "rate")}
        for line in later
    ] == approximately([without_omitted(line) for line in facts["metrics"]])


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_old_run_works_on_the_command_line(
    command: str, kept: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = kept
    more = ["abc"] if command == "predict" else []
    assert saccade([command, str(folder), *more, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_load_run_of_a_later_format_is_refused(
    trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained_runs["bahdanau"], folder)
    newer = read_checksummed_text(folder / "run.toml").replace(
        f"format = {RUN_FORMAT}", f"format = {RUN_FORMAT + 1}"
    )
    write_checksummed_text(folder / "run.toml", newer)
    with pytest.raises(
        RunError, match=f"reads formats up to {RUN_FORMAT}. Install a newer saccade"
    ):
        load_run(folder)
