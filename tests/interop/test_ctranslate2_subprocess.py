"""`run.predict(engine=…)`: an engine in a process without torch, kept open."""

import gc
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from saccade.errors import ConfigError, RunError
from saccade.inspection.checks import CheckResult
from saccade.interop.ctranslate2.subprocess import SubprocessEngine
from saccade.io.atomic import read_checksummed_json, write_checksummed_json
from saccade.io.run_folder import weights_checksum
from saccade.runs.run import Run, load_run
from saccade.runs.workspace import check_folder_is_free, remove_run
from saccade.types.results import Prediction
from tests.hanging import HANG_SECONDS

TEXTS = ["abc", "", "fedcba", "ae"]


@pytest.fixture
def run(own_run: Path) -> Run:
    return load_run(own_run)


def process_of(run: Run) -> "subprocess.Popen[str]":
    process = run._engine("ctranslate2")._process
    assert process is not None
    return process


def test_subprocess_predictions_equal_torch(run: Run) -> None:
    found = run.predict(TEXTS, engine="ctranslate2")
    assert [type(answer) for answer in found] == [Prediction] * 4
    assert [answer.text for answer in found] == [answer.text for answer in run.predict(TEXTS)]
    one = run.predict("abc", engine="ctranslate2", beam=3, n_best=3)
    assert [type(other) for other in one.alternatives] == [Prediction] * 2
    reports: list[tuple[str, int, int | None]] = []
    run.predict(TEXTS, engine="ctranslate2", on_progress=lambda *report: reports.append(report))
    assert reports[-1] == ("predicting", 4, 4)


def test_subprocess_passes_surrogates_and_line_ends(run: Run) -> None:
    texts = ["a\nb", "\ud83d", "c\u2028d"]
    found = run.predict(texts, engine="ctranslate2")
    assert [a.text for a in found] == [a.text for a in run.predict(texts)]


def test_subprocess_has_no_torch_and_is_reused(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")
    first = process_of(run)
    maps = Path(f"/proc/{first.pid}/maps")
    if maps.exists():
        loaded = maps.read_text(encoding="utf-8")
        assert "ctranslate2" in loaded and "libtorch" not in loaded
    run.predict("abc", engine="ctranslate2")
    assert process_of(run).pid == first.pid


def test_subprocess_raises_errors_and_continues(run: Run) -> None:
    with pytest.raises(
        ConfigError, match="got coverage, which the engine ctranslate2 does not support"
    ):
        run.predict("abc", engine="ctranslate2", coverage=0.2)
    pid = process_of(run).pid
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text
    assert process_of(run).pid == pid


def test_subprocess_without_export(run: Run) -> None:
    shutil.rmtree(run.folder / "exports")
    with pytest.raises(RunError, match="Make one with: saccade export"):
        run.predict("abc", engine="ctranslate2")
    assert run._engine("ctranslate2")._process is None


def test_run_refuses_unknown_engines(run: Run) -> None:
    with pytest.raises(ConfigError, match="There is no engine 'ctranslate'. Did you mean 'ctransl"):
        run.predict("abc", engine="ctranslate")
    with pytest.raises(ConfigError, match="no export format 'onnx'. There are: ctranslate2"):
        run.export("onnx")


def test_subprocess_restarts_after_a_crash(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")
    lost = process_of(run)
    lost.kill()
    lost.wait()
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text
    assert process_of(run).pid != lost.pid


def test_subprocess_reports_a_crash(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")

    def kill(what: str, done: int, total: int | None) -> None:
        process_of(run).kill()

    with pytest.raises(RuntimeError, match="ended before it replied"):
        run.predict(["abc", ""] * 400, engine="ctranslate2", beam=8, on_progress=kill)
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text


def test_subprocess_uses_the_newest_export(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")
    with torch.no_grad():
        run.model.target.table.weight.neg_()
    run.save_weights(run.model.state_dict(), {})
    with pytest.raises(RunError, match="export again"):
        run.predict("abc", engine="ctranslate2")
    run.export("ctranslate2")
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text


def test_subprocess_ends_with_its_run(own_run: Path) -> None:
    engine = SubprocessEngine(own_run)
    engine.predict(["abc"])
    process = engine._process
    assert process is not None and process.poll() is None
    del engine
    gc.collect()
    assert process.poll() is not None


def lives(pid: int) -> bool:
    """Return True if there is such a process; a zombie does not count."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (ProcessLookupError, FileNotFoundError):
        return False
    return status.split(")")[1].split()[0] != "Z"


def test_subprocess_ends_with_the_program(own_run: Path) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from saccade.interop.ctranslate2.subprocess import SubprocessEngine\n"
        f"engine = SubprocessEngine(Path({str(own_run)!r}))\n"
        "engine.predict(['abc'])\n"
        "print(engine._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    pid, deadline = int(done.stdout), time.monotonic() + HANG_SECONDS
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(pid)


# --- look, check, overwriting ---------------------------------------------------------------------


def test_look_uses_an_engine_answer(run: Run) -> None:
    answer = run.predict("abcde", engine="ctranslate2").text
    seen = run.look("abcde", answer=answer)
    ours = run.look("abcde")
    assert seen.answer == ours.answer
    for key, map_ in ours.maps.items():
        assert (seen.maps[key].weights == map_.weights).all()


def exported(run: Run, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    monkeypatch.setattr("saccade.tasks.translation.inspect.check_all", lambda *inputs: iter(()))
    (finding,) = [f for f in run.check(inputs=3) if f.invariant == "export consistency"]
    return finding


def test_check_export_passes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = exported(run, monkeypatch)
    assert finding.verdict == "passed"
    assert finding.num_inputs == 3 and 0 < finding.difference < 1e-4


def test_check_export_fails_for_other_weights(
    run: Run, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own_run / "exports" / "ctranslate2" / "saccade.json"
    with torch.no_grad():
        run.model.target.table.weight[7] *= 1.1
    run.save_weights(run.model.state_dict(), {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.runs.run.weights_checksum", lambda folder: "of the weights that were meant"
        )
        run.export("ctranslate2")
    with torch.no_grad():
        run.model.target.table.weight[7] /= 1.2
    run.save_weights(run.model.state_dict(), {})
    assert exported(run, monkeypatch).verdict == "skipped"  # other weights are not an error
    write_checksummed_json(
        path, {**read_checksummed_json(path), "weights": weights_checksum(own_run)}
    )
    finding = exported(run, monkeypatch)
    assert finding.verdict == "FAILED" and finding.difference > 1e-3


def test_check_export_is_skipped_for_int8(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.export("ctranslate2", quantization="int8")
    finding = exported(run, monkeypatch)
    assert finding.verdict == "skipped"
    assert finding.note == "the export is in int8, which quantizes the weights"


def test_remove_run_removes_exports(own_run: Path) -> None:
    check_folder_is_free(own_run, overwrite=True)
    remove_run(own_run)
    assert list(own_run.iterdir()) == []
