"""`run.check()`: invariance checks pass for trained runs and find broken models."""

import json
import shutil
from pathlib import Path

import pytest

from saccade.cli.main import run as saccade
from saccade.inspection import invariants
from saccade.io.atomic import read_checksummed_json
from saccade.nn.kv_cache import KVCache, extend_cache
from saccade.nn.masks import Mask
from saccade.runs.run import load_run


@pytest.fixture(autouse=True)
def no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the compile check, which takes half a minute; `make prove` runs it."""
    invariant = invariants.skipped("compiled equals eager", "left out of this test")
    monkeypatch.setattr(invariants, "compile_parity", lambda model, example: invariant)


@pytest.fixture
def own_runs(trained_runs: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Copy the shared runs, since a check writes its results into the run."""
    for model, folder in trained_runs.items():
        shutil.copytree(folder, tmp_path / model)
    return {model: tmp_path / model for model in trained_runs}


@pytest.mark.parametrize("model", ["bahdanau", "seq2seq", "transformer"])
def test_check_passes_for_trained_runs(model: str, own_runs: dict[str, Path]) -> None:
    run = load_run(own_runs[model])
    findings = run.check(inputs=5)
    assert [f.invariant for f in findings if f.verdict == "FAILED"] == []
    assert sum(f.num_inputs > 0 for f in findings) >= 10
    kept = read_checksummed_json(run.folder / "checks.json")["findings"]
    assert [(f["invariant"], f["verdict"]) for f in kept] == [
        (f.invariant, f.verdict) for f in findings
    ]


def test_check_finds_a_missing_padding_mask(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run(own_runs["transformer"])
    monkeypatch.setattr(Mask, "lengths", staticmethod(lambda lengths: Mask()))
    broken = {f.invariant for f in run.check(inputs=5) if f.verdict == "FAILED"}
    assert {"padding invariance", "batch invariance"} <= broken


def test_check_finds_a_cache_off_by_one(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(past: KVCache | None, new: KVCache) -> KVCache:
        """Return a cache whose last position the next step overwrites."""
        now = extend_cache(past, new)
        return now if past is None else now._replace(length=now.length - 1)

    run = load_run(own_runs["transformer"])
    monkeypatch.setattr("saccade.nn.transformer.extend_cache", forgetful)
    broken = {f.invariant for f in run.check(inputs=5) if f.verdict == "FAILED"}
    assert "cache consistency" in broken
    kept = read_checksummed_json(run.folder / "checks.json")["findings"]
    assert {f["invariant"] for f in kept if f["verdict"] == "FAILED"} == broken


def test_check_finds_a_missing_causal_mask(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_run(own_runs["transformer"])
    monkeypatch.setattr(Mask, "causal", staticmethod(Mask))
    broken = {f.invariant for f in run.check(inputs=5) if f.verdict == "FAILED"}
    assert "causality" in broken


def test_check_command_exits_with_1_on_failure(
    own_runs: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Mask, "causal", staticmethod(Mask))
    assert saccade(["check", str(own_runs["transformer"]), "--inputs", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "causality" in line and "FAILED" in line]


def test_check_command_prints_json(
    own_runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert saccade(["check", str(own_runs["bahdanau"]), "--inputs", "3", "--json"]) == 0
    assert {f["verdict"] for f in json.loads(capsys.readouterr().out)} == {"passed", "skipped"}


@pytest.mark.long
def test_check_compiled_equals_eager(
    own_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    findings = load_run(own_runs["transformer"]).check(inputs=3)
    assert {f.verdict for f in findings if f.invariant == "compiled equals eager"} == {"passed"}
