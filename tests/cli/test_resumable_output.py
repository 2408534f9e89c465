"""Answers that are kept as they come: stopped anywhere, the file in the end is the same."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saccade.cli import predict_file
from saccade.cli.resumable_output import ResumableOutput
from saccade.errors import ConfigError, DataError, RunError
from tests.hanging import HANG_SECONDS

ASKED = {"beam": 5}
NOTE = "answers.txt.part.json"
LINES = 900


@pytest.fixture(autouse=True)
def groups_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_file, "PREDICT_CHUNK_LINES", 4)


Command = Callable[..., Any]


def words(count: int) -> str:
    draw = random.Random(3)
    return "".join(
        "".join(draw.choices("abcdef", k=draw.randint(0, 6))) + "\n" for _ in range(count)
    )


def leftover(path: Path, sources: str = "a\nb\nc\n", groups: int = 2) -> None:
    """A file of answers that was stopped after so many groups of one line."""
    with ResumableOutput(path, ASKED) as kept:
        for source in sources.splitlines()[:groups]:
            kept.add([source], f"answer to {source}\n")


# --- without a model ----------------------------------------------------------------------------


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    groups=st.lists(st.lists(st.text("aé\r", max_size=3), min_size=1, max_size=3), max_size=4),
    stops=st.lists(st.tuples(st.integers(0, 4), st.binary(max_size=9)), max_size=3),
)
def test_resumable_output_stopped_anywhere_is_identical(
    groups: list[list[str]], stops: list[tuple[int, bytes]], tmp_path: Path
) -> None:
    path = tmp_path / "answers.txt"
    path.unlink(missing_ok=True)
    lines = [line for group in groups for line in group]
    for number, (more, half_written) in enumerate([*stops, (len(groups), b"")]):
        is_last = number == len(stops)
        with ResumableOutput(path, ASKED) as kept:
            kept.skip(iter(lines), "in.txt")
            left = groups[_groups_in(groups, kept.lines) :]
            for group in left[: len(groups) if is_last else more]:
                kept.add(group, "".join(f"→{line}\n" for line in group))
            if is_last:
                kept.finish()
        if path.exists() and not is_last:
            with path.open("ab") as file:
                file.write(half_written)
    assert path.read_bytes() == "".join(f"→{line}\n" for line in lines).encode()
    assert os.listdir(tmp_path) == ["answers.txt"]


def _groups_in(groups: list[list[str]], lines: int) -> int:
    sizes = [sum(map(len, groups[:n])) for n in range(len(groups) + 1)]
    return sizes.index(lines)


def test_resumable_output_accepts_grown_input_only(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    leftover(path)
    with ResumableOutput(path, ASKED) as kept:
        lines = iter(["a", "b", "c", "d"])
        kept.skip(lines, "in.txt")
        assert list(lines) == ["c", "d"]
    for changed in (["a", "B", "c"], ["a"], [], ["ab", ""], ["b", "a", "c"]):
        with (
            ResumableOutput(path, ASKED) as kept,
            pytest.raises(DataError, match=f"its first 2 lines differ .*remove .*{NOTE}"),
        ):
            kept.skip(iter(changed), "in.txt")
    assert path.read_text() == "answer to a\nanswer to b\n"


def test_resumable_output_never_overwrites(tmp_path: Path) -> None:
    path, note = tmp_path / "answers.txt", tmp_path / NOTE
    path.write_text("my own\n")
    with pytest.raises(
        RunError, match="already exists and is complete or was not written by predict"
    ):
        ResumableOutput(path, ASKED)
    path.unlink()
    leftover(path)
    for foreign in (
        "answer to A\nanswer to b\n",
        "answer to a\n",
        "my own, and much longer than that",
    ):
        path.write_text(foreign)
        with pytest.raises(RunError, match="was changed after it was written"):
            ResumableOutput(path, ASKED)
        assert path.read_text() == foreign
    path.write_text("answer to a\nanswer to b\n")
    note.write_text(note.read_text().replace('"lines": 2', '"lines": 1'))
    with pytest.raises(RunError, match=r"part.json, the progress file of .*, is damaged"):
        ResumableOutput(path, ASKED)
    assert path.read_text() == "answer to a\nanswer to b\n"


def test_resumable_output_detects_foreign_file_before_first_chunk(tmp_path: Path) -> None:
    path, other = tmp_path / "answers.txt", tmp_path / "other.txt"
    kept = ResumableOutput(path, ASKED)
    path.write_text("answ")  # killed in the middle of the first group
    kept._file.close()
    shutil.copytree(tmp_path, tmp_path / "as it was")
    leftover(path)
    assert path.read_text() == "answer to a\nanswer to b\n"
    shutil.copy(tmp_path / "as it was" / NOTE, tmp_path)
    other.write_text("my own\n")
    other.replace(path)
    with pytest.raises(RunError, match="was changed after"):
        ResumableOutput(path, ASKED)
    assert path.read_text() == "my own\n"


def test_resumable_output_needs_the_same_options(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    leftover(path)
    with pytest.raises(ConfigError, match=r"beam: 5 before, unset now; seed: unset before, 1 now"):
        ResumableOutput(path, {"seed": 1})
    with ResumableOutput(path, ASKED) as kept:
        assert kept.lines == 2
        with pytest.raises(ConfigError, match="is being written by another process"):
            ResumableOutput(path, ASKED)


def test_resumable_output_empty_files(tmp_path: Path) -> None:
    path = tmp_path / "answers.txt"
    leftover(path)
    path.write_text("")
    with ResumableOutput(path, {"beam": 1}) as kept:
        assert kept.lines == 0
    assert os.listdir(tmp_path) == []
    with ResumableOutput(path, ASKED) as kept:
        kept.finish()
    assert path.read_text() == ""  # an empty file is answered by an empty file


def test_resumable_output_refuses_unwritable_paths(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder; expected a file for the predictions"):
        ResumableOutput(tmp_path, ASKED)
    with pytest.raises(ConfigError, match="could not be opened: No such file or directory"):
        ResumableOutput(tmp_path / "nowhere" / "answers.txt", ASKED)
    with pytest.raises(ConfigError, match="which is a device"):
        ResumableOutput(Path("/dev/null"), ASKED)


def test_resumable_output_reports_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answers.txt"

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with ResumableOutput(path, ASKED) as kept:
        kept.add(["a"], "answer to a\n")
        with monkeypatch.context() as patch, pytest.raises(RunError, match="for 1 lines are saved"):
            patch.setattr("os.fsync", full)
            kept.add(["b"], "answer to b\n")
    leftover(path, "b\n")
    assert path.read_text() == "answer to a\nanswer to b\n"


# --- the command --------------------------------------------------------------------------------


def test_predict_out_resumes(
    saccade: Command, trained_runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Path(shutil.copytree(trained_runs["bahdanau"], tmp_path / "mine"))
    (tmp_path / "in.txt").write_text(words(10))
    asked = ("predict", mine, "--file", "in.txt", "--beam", 2, "--json", "--out", "answers.txt")
    whole = saccade(*asked[:-2]).out

    add, groups = ResumableOutput.add, []

    def stopped(kept: ResumableOutput, *group: Any) -> None:
        groups.append(group)
        if len(groups) == 2:
            kept._file.write(b"half an ans")
            raise KeyboardInterrupt
        add(kept, *group)

    monkeypatch.setattr(ResumableOutput, "add", stopped)
    result = saccade(*asked)
    assert result.code == 130
    assert "Stopped. Predictions for 4 lines are in answers.txt." in result.err
    assert (tmp_path / NOTE).exists()

    for other in (("--beam", 3), ("--n-best", 2)):
        refused = saccade(*asked, *other)
        assert refused.code == 2 and "answers.txt was started with other options" in refused.err
    with monkeypatch.context() as patch:
        patch.setattr("saccade.cli.predict.run_fingerprint", lambda folder: "another")
        refused = saccade(*asked)
    assert refused.code == 2 and "run fingerprint: " in refused.err

    result = saccade(*asked)
    assert result.code == 0
    assert "6 lines in " in result.err and "(4 were done before)" in result.err
    assert (tmp_path / "answers.txt").read_text() == whole
    assert not (tmp_path / NOTE).exists()
    finished = saccade(*asked)
    assert finished.code == 2 and "answers.txt already exists" in finished.err
    assert (tmp_path / "answers.txt").read_text() == whole


def test_predict_out_leaves_no_files_after_an_error(
    saccade: Command, trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    result = saccade("predict", trained_runs["bahdanau"], "--file", "gone.txt", "--out", "a.txt")
    assert result.code == 2 and "There is no file gone.txt" in result.err
    assert os.listdir(tmp_path) == []


# --- killed for real ----------------------------------------------------------------------------

# A process that has all modules loaded, and forks one that answers for every line it is sent. That
# one is killed some moments after so many bytes of answers are there.
NURSERY = """
import json, os, random, signal, sys, time
from pathlib import Path
import saccade.models.bahdanau, saccade.models.transformer, saccade.runs.run
import saccade.runs.train, saccade.tasks.translation.components  # and with them torch
from saccade.cli import predict_file
from saccade.cli.main import run

flush = os.fsync

def slow_flush(handle):
    time.sleep(random.uniform(0, 0.01))  # as on a slow disk, or few kills would meet a write
    flush(handle)

os.fsync = slow_flush
predict_file.PREDICT_CHUNK_LINES = 30
for line in sys.stdin:
    arguments, path, size, moments = json.loads(line)
    child = os.fork()
    if not child:
        os._exit(run(arguments))
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        there = os.path.getsize(path) if os.path.exists(path) else -1
        if size is not None and there >= size:
            time.sleep(moments)
            os.kill(child, signal.SIGKILL)  # of one that has ended there is something left to kill
            size = None
        time.sleep(0.0005)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture(scope="module")
def nursery(nursery_of: Callable[[str], Any]) -> Any:
    return nursery_of(NURSERY)


class Ended(NamedTuple):
    """The finished output, however often it was killed before; and when that was."""

    whole: bytes  # of a run that was never killed
    files: list[bytes]  # of those that were
    behind: int  # kills that met a group that was half there


def killed_again_and_again(nursery: Any, folder: Path, asked: list[Any], kills: int) -> Ended:
    assert nursery([*asked, "--out", folder / "whole.txt"], folder / "whole.txt")
    whole = (folder / "whole.txt").read_bytes()
    draw = random.SystemRandom()
    path, note, killed, behind = folder / "answers.txt", folder / NOTE, 0, 0
    files: list[bytes] = []

    def put_away() -> None:
        files.append(path.read_bytes())
        path.unlink()

    while killed < kills or path.exists():
        there = path.stat().st_size if path.exists() else -1
        size = there + draw.randint(1, len(whole) // 3) if killed < kills else None
        moments = draw.choice([0.0, draw.uniform(0, 0.03)])
        if nursery([*asked, "--out", path], path, size, moments):
            put_away()
            continue
        killed += 1
        assert whole.startswith(path.read_bytes())
        if note.exists():
            behind += path.stat().st_size > json.loads(note.read_text())["done"]["bytes"]
        elif path.stat().st_size:  # killed when all was done
            put_away()
    return Ended(whole, files, behind)


def test_predict_out_killed_once_is_identical(
    nursery: Any, trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text(words(LINES // 3))
    asked = ["predict", trained_runs["bahdanau"], "--file", tmp_path / "in.txt", "--json"]
    ended = killed_again_and_again(nursery, tmp_path, asked, kills=6)
    assert ended.whole.count(b"\n") == LINES // 3
    assert ended.files == [ended.whole] * len(ended.files) != []
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "whole.txt"]


@pytest.mark.long
@pytest.mark.parametrize("model", ["bahdanau", "seq2seq", "transformer"])
@pytest.mark.parametrize("how", [[], ["--json", "--beam=3"], ["--sample", "--seed=2", "--json"]])
def test_predict_out_killed_often_is_identical(
    how: list[str], model: str, nursery: Any, trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text(words(LINES))
    asked = ["predict", trained_runs[model], "--file", tmp_path / "in.txt", *how]
    ended = killed_again_and_again(nursery, tmp_path, asked, kills=40)
    print(f"{model} {how}: 40 kills, {ended.behind} with more written than was noted", flush=True)
    assert ended.whole.count(b"\n") == LINES
    assert ended.files == [ended.whole] * len(ended.files) != []
    assert ended.behind > 0
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "whole.txt"]


def lines_noted(note: Path) -> int:
    return int(json.loads(note.read_text())["done"]["lines"])


def test_predict_out_ctrl_c_prints_resume_command(
    trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text(words(40_000))
    code = "from saccade.cli.main import main; main()"
    asked = [
        "predict",
        str(trained_runs["bahdanau"]),
        "--file",
        "in.txt",
        "--out",
        "my answers.txt",
    ]
    started = subprocess.Popen(
        [sys.executable, "-c", code, *asked],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell has its background jobs ignore Ctrl-C, and so would what they start
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    note, patience = tmp_path / "my answers.txt.part.json", time.monotonic() + HANG_SECONDS
    while not (note.exists() and lines_noted(note)):
        assert started.poll() is None and time.monotonic() < patience
        time.sleep(0.005)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert (started.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "lines are in my answers.txt. Resume with:" in err
    assert (
        f"  saccade predict {trained_runs['bahdanau']} --file in.txt --out 'my answers.txt'" in err
    )
    assert 0 < lines_noted(note) < 40_000
