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
from saccade.runs.run import Run, check_folder_is_free, load_run, remove_run
from saccade.types.results import Prediction

TEXTS = ["abc", "", "fedcba", "ae"]


@pytest.fixture
def run(own_run: Path) -> Run:
    return load_run(own_run)


def process_of(run: Run) -> "subprocess.Popen[str]":
    process = run._engine("ctranslate2")._process
    assert process is not None
    return process


def test_it_answers_as_our_search_does(run: Run) -> None:
    found = run.predict(TEXTS, engine="ctranslate2")
    assert [type(answer) for answer in found] == [Prediction] * 4
    assert [answer.text for answer in found] == [answer.text for answer in run.predict(TEXTS)]
    one = run.predict("abc", engine="ctranslate2", beam=3, n_best=3)
    assert [type(other) for other in one.alternatives] == [Prediction] * 2
    told: list[int] = []
    run.predict(TEXTS, engine="ctranslate2", on_progress=told.append)
    assert sum(told) == 4


def test_lone_surrogates_and_line_ends_go_through(run: Run) -> None:
    texts = ["a\nb", "\ud83d", "c\u2028d"]
    found = run.predict(texts, engine="ctranslate2")
    assert [a.text for a in found] == [a.text for a in run.predict(texts)]


def test_the_process_has_no_torch_and_is_kept(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")
    first = process_of(run)
    maps = Path(f"/proc/{first.pid}/maps")
    if maps.exists():
        loaded = maps.read_text(encoding="utf-8")
        assert "ctranslate2" in loaded and "libtorch" not in loaded
    run.predict("abc", engine="ctranslate2")
    assert process_of(run).pid == first.pid


def test_what_is_refused_there_is_raised_here_and_the_next_is_answered(run: Run) -> None:
    with pytest.raises(ConfigError, match="coverage is for our own search"):
        run.predict("abc", engine="ctranslate2", coverage=0.2)
    pid = process_of(run).pid
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text
    assert process_of(run).pid == pid


def test_without_an_export_it_is_said_and_nothing_is_left_open(run: Run) -> None:
    shutil.rmtree(run.folder / "exports")
    with pytest.raises(RunError, match="Make one with: saccade export"):
        run.predict("abc", engine="ctranslate2")
    assert run._engine("ctranslate2")._process is None


def test_an_unknown_engine_is_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match="There is no engine 'ctranslate'. Did you mean 'ctransl"):
        run.predict("abc", engine="ctranslate")
    with pytest.raises(ConfigError, match="no tool to export to 'onnx'. There are: ctranslate2"):
        run.export("onnx")


def test_a_lost_process_is_started_again(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")
    lost = process_of(run)
    lost.kill()
    lost.wait()
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text
    assert process_of(run).pid != lost.pid


def test_one_that_breaks_off_is_told_of(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")

    def kill(more: int) -> None:
        process_of(run).kill()

    with pytest.raises(RuntimeError, match="ended before it had answered"):
        run.predict(["abc", ""] * 400, engine="ctranslate2", beam=8, on_progress=kill)
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text


def test_after_another_export_it_is_that_which_answers(run: Run) -> None:
    run.predict("abc", engine="ctranslate2")
    with torch.no_grad():
        run.task.model.target.table.weight.neg_()
    run.save_weights(run.task.weights(), {})
    with pytest.raises(RunError, match="export them again"):
        run.predict("abc", engine="ctranslate2")
    run.export("ctranslate2")
    assert run.predict("abc", engine="ctranslate2").text == run.predict("abc").text


def test_it_ends_with_its_run(own_run: Path) -> None:
    engine = SubprocessEngine(own_run)
    engine.predict(["abc"])
    process = engine._process
    assert process is not None and process.poll() is None
    del engine
    gc.collect()
    assert process.poll() is not None


def lives(pid: int) -> bool:
    """Whether there is such a process; one that has ended and is waited for by nobody is none."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (ProcessLookupError, FileNotFoundError):
        return False
    return status.split(")")[1].split()[0] != "Z"


def test_it_ends_with_the_program(own_run: Path) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from saccade.interop.ctranslate2.subprocess import SubprocessEngine\n"
        f"engine = SubprocessEngine(Path({str(own_run)!r}))\n"
        "engine.predict(['abc'])\n"
        "print(engine._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pid, deadline = int(done.stdout), time.monotonic() + 20
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(pid)


# --- look, check, overwriting ---------------------------------------------------------------------


def test_look_reads_its_answer_again(run: Run) -> None:
    answer = run.predict("abcde", engine="ctranslate2").text
    seen = run.look("abcde", answer=answer)
    ours = run.look("abcde")
    assert seen.answer == ours.answer
    for key, map_ in ours.maps.items():
        assert (seen.maps[key].weights == map_.weights).all()


def exported(run: Run, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    monkeypatch.setattr("saccade.tasks.translation.check_all", lambda *inputs: iter(()))
    (finding,) = [f for f in run.check(inputs=3) if f.invariant == "exported equals original"]
    return finding


def test_check_compares_the_export(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = exported(run, monkeypatch)
    assert finding.verdict == "passed"
    assert finding.num_inputs == 3 and 0 < finding.difference < 1e-4


def test_check_finds_an_export_of_something_else(
    run: Run, own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own_run / "exports" / "ctranslate2" / "saccade.json"
    with torch.no_grad():
        run.task.model.target.table.weight[7] *= 1.1
    run.save_weights(run.task.weights(), {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "saccade.runs.run.weights_checksum", lambda folder: "of the weights that were meant"
        )
        run.export("ctranslate2")
    with torch.no_grad():
        run.task.model.target.table.weight[7] /= 1.2
    run.save_weights(run.task.weights(), {})
    assert exported(run, monkeypatch).verdict == "skipped"  # other weights are not an error
    write_checksummed_json(
        path, {**read_checksummed_json(path), "weights": weights_checksum(own_run)}
    )
    finding = exported(run, monkeypatch)
    assert finding.verdict == "FAILED" and finding.difference > 1e-3


def test_check_says_why_it_was_not_tried(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.export("ctranslate2", quantization="int8")
    finding = exported(run, monkeypatch)
    assert finding.verdict == "skipped"
    assert finding.note == "the export is in int8, which rounds the weights"


def test_an_export_belongs_to_the_run_that_is_overwritten(own_run: Path) -> None:
    check_folder_is_free(own_run, overwrite=True)
    remove_run(own_run)
    assert list(own_run.iterdir()) == []
