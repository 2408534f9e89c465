"""A disk that is really full: a small one of its own, filled to the last byte during training."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# mounts a disk of two megabytes, which only this process sees; trains on it, fills it at a step,
# and goes on when there is room again
ON_A_SMALL_DISK = """
import shutil, subprocess, sys
from pathlib import Path
from saccade.errors import RunError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import TrainOptions, resume, train_recipe

words, place, result, full_at = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=True)
run, ballast = Path(place) / "run", Path(place) / "ballast"

def fill(event):
    if event.step == int(full_at) and not ballast.exists():
        with ballast.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(512)):
                    pass
            except OSError:
                pass

changes = {
    "data.max_new_tokens": 8, "model.width": 8, "model.dropout": 0.2, "train.steps": 13,
    "train.batch_tokens": 128, "train.report_every": 4, "train.evaluate_every": 5,
    "train.checkpoint_seconds": 0, "train.threads": 1,
}
recipe = resolve_recipe(words, model="bahdanau", changes=changes).recipe
try:
    train_recipe(recipe, run, TrainOptions(on_event=fill))
except RunError as error:
    print(error)
for path in sorted(run.rglob("*")):
    print(path.relative_to(run))
ballast.unlink(missing_ok=True)
resume(run, {}, TrainOptions())
shutil.copytree(run, result)
"""


@pytest.fixture(scope="module")
def disk() -> list[str]:
    """The command that runs another with mounts of its own."""
    command = ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here, so no disk of one's own")
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("unshare may not make mounts here, so there is no disk of one's own")
    return command


@pytest.mark.parametrize("full_at", [6, 10], ids=["between reports", "at an evaluation"])
def test_a_full_disk_loses_nothing(
    full_at: int,
    disk: list[str],
    trained_runs: dict[str, Path],
    words_file: Path,
    outcome_of: Callable[[Path], dict[str, Any]],
    tmp_path: Path,
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    program = [sys.executable, "-c", ON_A_SMALL_DISK, words_file, place, tmp_path / "out", full_at]
    done = subprocess.run([*disk, *map(str, program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said, *there = done.stdout.splitlines()
    assert (
        f"checkpoint/{full_at:09d}.safetensors could not be written: No space left on device"
        in said
    )
    assert "make room" in said
    kept = [f"checkpoint/{step:09d}.safetensors" for step in (full_at - 2, full_at - 1)]
    assert [name for name in there if name.startswith("checkpoint/")] == kept
    assert not any(name.endswith(".part") for name in there)
    assert outcome_of(tmp_path / "out") == outcome_of(trained_runs["bahdanau"])
