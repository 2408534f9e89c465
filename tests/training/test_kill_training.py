"""Training processes killed with SIGKILL: resuming is bit-exact."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hanging import HANG_SECONDS

Outcomes = Callable[[Path], dict[str, Any]]
MODELS = ("bahdanau", "seq2seq", "transformer", "luong", "conv_seq2seq")

# the command line, but the process is killed when it is about to flush a checkpoint's file
KILLED_IN_A_CHECKPOINT = """
import os, signal, sys
from saccade.cli.main import run

step, *arguments = sys.argv[1:]
flush = os.fsync

def killing(handle):
    if f"{int(step):09d}.safetensors" in os.readlink(f"/proc/self/fd/{handle}"):
        os.kill(os.getpid(), signal.SIGKILL)
    flush(handle)

os.fsync = killing
run(arguments)
"""

# A process that has all modules loaded, and forks one that trains for every line it is sent. That
# one is killed some moments after a checkpoint of the step named, or a later one, is there; after
# no moments at all, as the next one is being written.
NURSERY = """
import json, os, random, signal, sys, time
from pathlib import Path
import saccade.models.bahdanau, saccade.models.transformer, saccade.runs.run
import saccade.runs.train, saccade.tasks.translation.components  # and with them torch
from saccade.cli.main import run

def newest(folder):
    return max((int(p.stem) for p in Path(folder).glob("checkpoint/[0-9]*.safetensors")), default=0)

def writing(folder):
    return any(Path(folder).glob("checkpoint/.*.part"))

flush = os.fsync

def slow_flush(handle):
    time.sleep(random.uniform(0, 0.02))  # as on a slow disk, or few kills would meet a write
    flush(handle)

os.fsync = slow_flush
for line in sys.stdin:
    arguments, folder, step, moments = json.loads(line)
    child = os.fork()
    if not child:
        os._exit(run(arguments))
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if step is not None and newest(folder) >= step and (moments or writing(folder)):
            time.sleep(moments)
            os.kill(child, signal.SIGKILL)  # a child that has ended is still a zombie until waitpid
            step = None
        time.sleep(0.001)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


def settings(changes: dict[str, Any]) -> list[str]:
    smallest = {
        "data.max_new_tokens": 8,
        "model.width": 8,
        "model.dropout": 0.2,
        "train.steps": 13,
        "train.batch_tokens": 128,
        "train.report_every": 4,
        "train.evaluate_every": 5,
        "train.checkpoint_seconds": 0,
        "train.threads": 1,
    }
    return [f"--set={name}={value}" for name, value in (smallest | changes).items()]


def for_model(model: str) -> dict[str, Any]:
    return {"model.depth": 1, "model.heads": 2} if model == "transformer" else {}


def start(*arguments: Any, program: tuple[str, ...] = ("-m", "saccade")) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> int:
    stderr = process.communicate()[1]
    if process.returncode > 0:
        print(stderr)
    return process.returncode


def kill_after(process: subprocess.Popen[str], folder: Path, step: int) -> None:
    """SIGKILL as soon as the checkpoint of that step, or a later one, is there."""
    patience = time.monotonic() + HANG_SECONDS
    while not any(int(p.stem) >= step for p in (folder / "checkpoint").glob("[0-9]*.safetensors")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < patience
        time.sleep(0.001)
    process.kill()
    assert ended(process) == -9


def test_resume_after_sigkill_is_bit_exact(
    words_file: Path, outcome_of: Outcomes, tmp_path: Path
) -> None:
    first, second = sorted(random.SystemRandom().sample(range(1, 11), 2))
    print(f"killed after step {first}, in the checkpoint of step {second + 1}")
    asked = ["train", words_file, "--model", "transformer", *settings(for_model("transformer"))]
    whole = start(*asked, "--out", tmp_path / "whole")

    kill_after(start(*asked, "--out", tmp_path / "run"), tmp_path / "run", first)
    going_on = ("train", "--resume", tmp_path / "run")
    in_checkpoint = start(second + 1, *going_on, program=("-c", KILLED_IN_A_CHECKPOINT))
    ended(in_checkpoint)
    newest = sorted((tmp_path / "run" / "checkpoint").glob("[0-9]*.safetensors"))[-1]
    if int(newest.stem) <= second:  # else the first kill came late, and it was past that step
        assert in_checkpoint.returncode == -9
        assert int(newest.stem) == second
        assert any((tmp_path / "run" / "checkpoint").glob(".*.part"))
    assert ended(start(*going_on)) == 0
    assert ended(whole) == 0
    assert outcome_of(tmp_path / "run") == outcome_of(tmp_path / "whole")


# --- two hundred times, for `make prove` ----------------------------------------------------------

KILLS = 8  # of each of six cases and five models: 240
CASES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "accumulated": {"train.accumulate_steps": 3},
    "early stop": {
        "train.evaluate_every": 1,
        "train.patience": 3,
        "train.steps": 40,
        "train.average_checkpoints": 3,
    },
    "linear decay": {"train.schedule": "linear", "train.warmup": 4, "train.label_smoothing": 0.1},
    "bfloat16": {"train.dtype": "bfloat16"},
    "rare checkpoints": {"train.checkpoint_seconds": 0.1},
}


@pytest.fixture(scope="module")
def nursery(nursery_of: Callable[[str], Any]) -> Any:
    return nursery_of(NURSERY)


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CASES)
def test_resume_after_repeated_sigkills_is_bit_exact(
    case: str,
    model: str,
    nursery: Any,
    words_file: Path,
    outcome_of: Outcomes,
    tmp_path: Path,
) -> None:
    changes = for_model(model) | CASES[case]
    asked = ["train", words_file, "--model", model, *settings(changes)]
    assert nursery([*asked, "--out", tmp_path / "whole"], tmp_path / "whole")
    expected = outcome_of(tmp_path / "whole")
    kills = half_written = finished = 0
    while kills < KILLS or not finished:
        folder = tmp_path / f"run{finished}"
        started = (folder / "run.toml").exists()
        what = ["train", "--resume", folder] if started else [*asked, "--out", folder]
        made = [int(path.stem) for path in (folder / "checkpoint").glob("[0-9]*.safetensors")]
        step = max(made, default=-1) + random.randint(1, 4)
        # before the first checkpoint it reads data, which takes a while
        moments = random.choice([0.0, random.uniform(0.001, 0.05 if step else 0.5)])
        if nursery(what, folder, step if kills < KILLS else None, moments):
            assert outcome_of(folder) == expected
            finished += 1
        else:
            kills += 1
            half_written += any((folder / "checkpoint").glob(".*.part"))
    print(
        f"{case}, {model}: {kills} kills, {half_written} in a checkpoint, "
        f"{finished} came to an end",
        flush=True,
    )
