"""Runs that earlier versions wrote are opened, answer as they did, and go on."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from saccade.cli.main import run as saccade
from saccade.errors import RunError
from saccade.run import FORMAT, Options, open_run, resume
from saccade.sealed import read_text, write_text

KEPT = Path(__file__).parent / "kept"
RUNS = sorted(path.parent.relative_to(KEPT) for path in KEPT.glob("*/*/run.toml"))


@pytest.fixture(params=RUNS, ids=str)
def kept(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, Any]]:
    """A copy of a kept run beside its data, and what it did when it was new."""
    folder = tmp_path / request.param.name
    shutil.copytree(KEPT / request.param, folder)
    shutil.copy((KEPT / request.param).parent / "words.tsv", tmp_path)
    monkeypatch.chdir(tmp_path)
    facts = (KEPT / request.param).with_suffix(".json").read_text(encoding="utf-8")
    return folder, json.loads(facts)


def answers(folder: Path, facts: dict[str, Any]) -> Any:
    found = [answer._asdict() for answer in open_run(folder).predict(facts["sources"])]
    return json.loads(json.dumps(found))


def closely(values: Any) -> Any:
    """Plain values whose floats may differ as another machine's or another torch's do."""
    if isinstance(values, float):
        return pytest.approx(values, rel=1e-3, abs=1e-4)
    if isinstance(values, dict):
        clock = ("seconds", "rate")
        return {name: closely(value) for name, value in values.items() if name not in clock}
    return [closely(value) for value in values] if isinstance(values, list) else values


def test_there_is_one_of_each_model_for_every_format() -> None:
    for number in range(1, FORMAT + 1):
        folder = Path(f"format{number}")
        assert {folder / "bahdanau", folder / "seq2seq", folder / "transformer"} <= set(RUNS)


def test_it_answers_as_it_did(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, facts = kept
    assert answers(folder, facts) == closely(facts["answers"])
    assert any(answer["text"] for answer in facts["answers"])


def test_it_goes_on_as_it_did(
    kept: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.run.report", lambda run, options: None)
    folder, facts = kept
    assert resume(folder, {}, Options()).ended == "steps"
    assert answers(folder, facts) == closely(facts["in the end"])
    later = [line for line in open_run(folder).metrics() if line["step"] > 40]
    assert [
        {name: value for name, value in line.items() if name not in ("seconds", "rate")}
        for line in later
    ] == closely(facts["metrics"])


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_the_command_line_takes_it(
    verb: str, kept: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = kept
    more = ["abc"] if verb == "predict" else []
    assert saccade([verb, str(folder), *more, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_one_of_a_later_format_says_what_it_needs(
    trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained_runs["bahdanau"], folder)
    newer = read_text(folder / "run.toml").replace(f"format = {FORMAT}", f"format = {FORMAT + 1}")
    write_text(folder / "run.toml", newer)
    with pytest.raises(RunError, match=f"reads formats up to {FORMAT}. Install a newer saccade"):
        open_run(folder)
