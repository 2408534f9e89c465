"""Training on a small file system that is filled to the last byte."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.hanging import HANG_SECONDS

# mounts a disk of two megabytes for each step at which it is to be full, visible to this process
# only; trains on it, fills it at that step, and resumes when there is space again
ON_A_SMALL_DISK = """
import json, shutil, subprocess, sys
from pathlib import Path
from saccade.errors import RunError
from saccade.runs import train
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.training.checkpoint import BackgroundWriter

# each checkpoint is complete before the next step, at which the disk may be filled
submit = BackgroundWriter.submit
BackgroundWriter.submit = lambda writer, action: (submit(writer, action), writer.wait())

words, root, *steps = sys.argv[1:]
train.write_report = lambda run, figures, log: None

def fill(ballast):
    if not ballast.exists():
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
for step in map(int, steps):
    mount_point = Path(root) / f"disk-{step}"
    mount_point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount_point], check=True)
    run, ballast = mount_point / "run", mount_point / "ballast"
    message = ""
    try:
        on_event = lambda event: event.step == step and fill(ballast)
        train_recipe(recipe, run, TrainOptions(on_event=on_event))
    except RunError as error:
        message = str(error)
    files = [str(path.relative_to(run)) for path in sorted(run.rglob("*"))]
    print(json.dumps({"message": message, "files": files}))
    ballast.unlink(missing_ok=True)
    resume(run, {}, TrainOptions())
    shutil.copytree(run, Path(root) / f"resumed-{step}")
"""
STEPS = {"between reports": 6, "at an evaluation": 10}


class FullDisk(NamedTuple):
    """Result of a training whose disk was full, and which was resumed later."""

    message: str  # of the error
    files: list[str]  # of the run before it was resumed
    resumed: Path


@pytest.fixture(scope="module")
def full_disks(words_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, FullDisk]:
    """Results by the step at which the disk was full, of one process with its own mounts."""
    namespace = ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, to mount a small file system")
    if subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("unshare is not permitted to mount a small file system here")
    root = tmp_path_factory.mktemp("disks")
    program = [sys.executable, "-c", ON_A_SMALL_DISK, words_file, root, *STEPS.values()]
    done = subprocess.run(
        [*namespace, *map(str, program)], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        step: FullDisk(**result, resumed=root / f"resumed-{step}")
        for step, result in zip(STEPS.values(), results, strict=True)
    }


@pytest.mark.parametrize("full_at", STEPS.values(), ids=STEPS)
def test_full_disk_loses_no_checkpoint(
    full_at: int,
    full_disks: dict[int, FullDisk],
    trained_runs: dict[str, Path],
    outcome_of: Callable[[Path], dict[str, Any]],
) -> None:
    result = full_disks[full_at]
    assert (
        f"checkpoint/{full_at:09d}.safetensors could not be written: No space left on device"
        in result.message
    )
    assert "free some space" in result.message
    kept = [f"checkpoint/{step:09d}.safetensors" for step in (full_at - 2, full_at - 1)]
    assert [name for name in result.files if name.startswith("checkpoint/")] == kept
    assert not any(name.endswith(".part") for name in result.files)
    assert outcome_of(result.resumed) == outcome_of(trained_runs["bahdanau"])
