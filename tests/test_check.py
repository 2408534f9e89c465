"""`run.check()`: the laws on a trained model, and that a broken one is found."""

import json
import shutil
from pathlib import Path

import pytest

from saccade.cli.main import run as saccade
from saccade.look import laws
from saccade.nn.masks import Mask
from saccade.nn.state import KeyValue, extend
from saccade.run import open_run
from saccade.sealed import read_json


@pytest.fixture(autouse=True)
def no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes half a minute; that law is tried in `make prove`."""
    law = laws.not_tried("compiled equals eager", "left out of this test")
    monkeypatch.setattr(laws, "compiled", lambda model, example: law)


@pytest.fixture
def own_runs(trained_runs: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Copies: a check leaves its findings in the run, and the runs are shared by all tests."""
    for model, folder in trained_runs.items():
        shutil.copytree(folder, tmp_path / model)
    return {model: tmp_path / model for model in trained_runs}


@pytest.mark.parametrize("model", ["bahdanau", "seq2seq", "transformer"])
def test_a_trained_run_keeps_every_law(model: str, own_runs: dict[str, Path]) -> None:
    run = open_run(own_runs[model])
    findings = run.check(inputs=5)
    assert [f.law for f in findings if f.verdict == "BROKEN"] == []
    assert sum(f.tried > 0 for f in findings) >= 10
    kept = read_json(run.folder / "checks.json")["findings"]
    assert [(f["law"], f["verdict"]) for f in kept] == [(f.law, f.verdict) for f in findings]


def test_a_mask_left_out_is_found(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(own_runs["transformer"])
    monkeypatch.setattr(Mask, "lengths", staticmethod(lambda lengths: Mask()))
    broken = {f.law for f in run.check(inputs=5) if f.verdict == "BROKEN"}
    assert {"padding changes nothing", "neighbours change nothing"} <= broken


def test_a_cache_off_by_one_is_found(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(past: KeyValue | None, new: KeyValue) -> KeyValue:
        """The next step writes over the newest place."""
        now = extend(past, new)
        return now if past is None else now._replace(length=now.length - 1)

    run = open_run(own_runs["transformer"])
    monkeypatch.setattr("saccade.nn.transformer.extend", forgetful)
    broken = {f.law for f in run.check(inputs=5) if f.verdict == "BROKEN"}
    assert "step by step equals all at once" in broken
    kept = read_json(run.folder / "checks.json")["findings"]
    assert {f["law"] for f in kept if f["verdict"] == "BROKEN"} == broken


def test_a_future_that_is_seen_is_found(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(own_runs["transformer"])
    monkeypatch.setattr(Mask, "causal", staticmethod(Mask))
    broken = {f.law for f in run.check(inputs=5) if f.verdict == "BROKEN"}
    assert "the future is not seen" in broken


def test_a_broken_law_is_the_exit_code(
    own_runs: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Mask, "causal", staticmethod(Mask))
    assert saccade(["check", str(own_runs["transformer"]), "--inputs", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "the future is not seen" in line and "BROKEN" in line]


def test_the_verb_prints_json(
    own_runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert saccade(["check", str(own_runs["bahdanau"]), "--inputs", "3", "--json"]) == 0
    assert {f["verdict"] for f in json.loads(capsys.readouterr().out)} == {"holds", "not tried"}


@pytest.mark.long
def test_the_compiled_model_is_the_eager_one(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    findings = open_run(own_runs["transformer"]).check(inputs=3)
    assert {f.verdict for f in findings if f.law == "compiled equals eager"} == {"holds"}
