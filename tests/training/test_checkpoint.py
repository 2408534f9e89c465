import errno
import os
import shutil
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.errors import RunError, TrainingError
from saccade.io.tensors import read_tensors
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.translation.objective import TranslationObjective
from saccade.training.checkpoint import load_checkpoint, snapshot, write_checkpoint
from saccade.training.loop import Event, ReportEvent, StepEvent, TrainState
from saccade.training.objective import Loss

Recipes = Callable[..., Any]
Outcomes = Callable[[Path], dict[str, Any]]
# an epoch of the words has 9 batches; reports come at 4, 8, 12, evaluations at 5, 10, 13
STOPS = {"in the middle of all": 3, "after an evaluation": 5, "after an epoch": 9, "last": 12}
MODELS = ("bahdanau", "conv_seq2seq", "luong", "seq2seq", "transformer")


pytestmark = pytest.mark.usefixtures("no_report")


def interrupting(at: int) -> TrainOptions:
    """Options that send SIGINT during a step."""

    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == at:
            signal.raise_signal(signal.SIGINT)

    return TrainOptions(on_event=on_event)


class Killed(Exception):
    """The machine went down."""


def killing(at: int) -> TrainOptions:
    def on_event(event: Event) -> None:
        if isinstance(event, ReportEvent) and event.step == at:
            raise Killed

    return TrainOptions(on_event=on_event)


@pytest.fixture(scope="module")
def finished(smallest: Recipes, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a training without interruption, to be read and never written to."""
    root = tmp_path_factory.mktemp("uninterrupted")

    def folder(model: str) -> Path:
        if not (root / model).exists():
            result = train_recipe(smallest(model), root / model, TrainOptions())
            assert result.stop_reason == "steps"
        return root / model

    return folder


@pytest.fixture(scope="module")
def uninterrupted(
    finished: Callable[[str], Path], outcome_of: Outcomes
) -> Callable[[str], dict[str, Any]]:
    """Outcome of a training without interruption."""
    return cache(lambda model: outcome_of(finished(model)))


def test_uninterrupted_runs_end_as_the_tests_assume(uninterrupted: Callable[..., Any]) -> None:
    outcome = uninterrupted("bahdanau")
    reports = [line["step"] for line in outcome["metrics"] if "loss" in line]
    evaluations = [line["step"] for line in outcome["metrics"] if "best" in line]
    assert (reports, evaluations) == ([4, 8, 12], [5, 10, 13])
    # two moments and the step count of the optimizer, for every weight
    last, _ = outcome["last"]
    weights = sum(name.startswith("model/") for name in last)
    assert sum(name.startswith("optimizer/") for name in last) == 3 * weights


@pytest.mark.parametrize("at", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("model", MODELS)
def test_resume_after_a_stop_is_bit_exact(
    outcome_of: Outcomes,
    model: str,
    at: int,
    smallest: Recipes,
    uninterrupted: Callable[..., Any],
    tmp_path: Path,
) -> None:
    assert train_recipe(smallest(model), tmp_path / "run", interrupting(at)).stop_reason == "stop"
    torch.manual_seed(99)  # the state of a new process
    torch.randn(7)
    assert resume(tmp_path / "run", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "run") == uninterrupted(model)


def test_resume_after_repeated_stops_is_bit_exact(
    outcome_of: Outcomes, smallest: Recipes, uninterrupted: Callable[..., Any], tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau"), tmp_path / "run", interrupting(2))
    for at in (4, 7, 11):
        assert resume(tmp_path / "run", {}, interrupting(at)).stop_reason == "stop"
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == uninterrupted("bahdanau")


@pytest.mark.parametrize(
    ("model", "changes", "at"),
    [
        ("bahdanau", {"train.accumulate_steps": 2}, 3),
        ("bahdanau", {"train.average_checkpoints": 3}, 11),
        ("bahdanau", {"train.threads": 2, "train.batch_tokens": 512}, 4),
        ("bahdanau", {"model.attention": "hard", "model.estimator": "score_function"}, 4),
        ("luong", {"model.attention": "hard"}, 4),
        ("luong", {"model.attention": "hard", "model.estimator": "score_function"}, 4),
        ("transformer", {"model.norm": "batch", "train.average_checkpoints": 2}, 4),
        ("transformer", {"model.norm": "rms"}, 4),
        ("seq2seq", {"model.context": "mean"}, 4),
        ("seq2seq", {"model.context": "concatenation"}, 4),
    ],
    ids=str,
)
def test_resume_of_other_settings_is_bit_exact(
    model: str,
    changes: dict[str, Any],
    at: int,
    outcome_of: Outcomes,
    smallest: Recipes,
    uninterrupted: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Accumulated batches, averages, dropout of each thread, sampled attention, norms, contexts."""
    recipe = smallest(model, changes)
    train_recipe(recipe, tmp_path / "whole", TrainOptions())
    train_recipe(recipe, tmp_path / "broken", interrupting(at))
    resume(tmp_path / "broken", {}, TrainOptions())
    outcome = outcome_of(tmp_path / "whole")
    assert outcome_of(tmp_path / "broken") == outcome
    assert outcome["best"] != uninterrupted(model)["best"]  # the settings have an effect


@pytest.mark.parametrize("seconds", [0, 1000], ids=["a checkpoint each step", "no checkpoint"])
def test_resume_after_a_kill_starts_from_the_last_checkpoint(
    outcome_of: Outcomes,
    seconds: int,
    smallest: Recipes,
    uninterrupted: Callable[..., Any],
    tmp_path: Path,
) -> None:
    recipe = smallest("bahdanau", {"train.checkpoint_seconds": seconds})
    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "broken", killing(8))
    made = sorted(path.name for path in (tmp_path / "broken" / "checkpoint").glob("*"))
    expected = ["000000006.safetensors", "000000007.safetensors"] if seconds == 0 else []
    assert made == expected
    resume(tmp_path / "broken", {}, TrainOptions())
    assert outcome_of(tmp_path / "broken") == uninterrupted("bahdanau")


def test_resume_does_not_change_a_finished_run(
    outcome_of: Outcomes, finished: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(finished("bahdanau"), tmp_path / "run")
    before = outcome_of(tmp_path / "run")
    assert resume(tmp_path / "run", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "run") == before


def test_resume_refuses_weights_without_a_checkpoint(
    finished: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(finished("bahdanau"), tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match="no checkpoint to resume from.*--init-from"):
        resume(tmp_path / "run", {}, TrainOptions())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


# --- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut short", "a flipped bit", "emptied"])
def test_damaged_checkpoint_is_named_and_the_previous_one_used(
    outcome_of: Outcomes,
    damage: str,
    smallest: Recipes,
    uninterrupted: Callable[..., Any],
    tmp_path: Path,
) -> None:
    recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
    train_recipe(recipe, tmp_path / "run", interrupting(7))
    before, newest = sorted((tmp_path / "run" / "checkpoint").glob("*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    cut = {"cut short": len(content) // 2, "a flipped bit": len(content), "emptied": 0}[damage]
    newest.write_bytes(content[:cut])
    warnings: list[str] = []
    resume(tmp_path / "run", {}, TrainOptions(log=warnings.append))
    message = "\n".join(warnings)
    assert f"{newest} is damaged" in message
    assert f"Using the previous checkpoint: {before}" in message
    assert outcome_of(tmp_path / "run") == uninterrupted("bahdanau")


def test_training_restarts_if_all_checkpoints_are_damaged(
    outcome_of: Outcomes, smallest: Recipes, uninterrupted: Callable[..., Any], tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau"), tmp_path / "run", interrupting(3))
    for path in (tmp_path / "run" / "checkpoint").iterdir():
        path.write_bytes(b"")
    warnings: list[str] = []
    resume(tmp_path / "run", {}, TrainOptions(log=warnings.append))
    assert "training starts from step 0" in warnings[-1]
    assert outcome_of(tmp_path / "run") == uninterrupted("bahdanau")


def test_full_disk_keeps_the_previous_checkpoint(
    outcome_of: Outcomes,
    smallest: Recipes,
    uninterrupted: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run" / "checkpoint"

    flush = os.fsync

    def full(handle: int) -> None:
        # by file name and not by step: the checkpoint of step 5 may be written during step 6
        if "/.000000006." in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(handle)

    recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
    message = r"000000006.*No space left on device.*free some space"
    with monkeypatch.context() as patch, pytest.raises(RunError, match=message):
        patch.setattr("saccade.io.atomic.os.fsync", full)
        train_recipe(recipe, tmp_path / "run", TrainOptions())
    assert sorted(os.listdir(folder)) == ["000000004.safetensors", "000000005.safetensors"]
    read_tensors(folder / "000000005.safetensors")
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == uninterrupted("bahdanau")


def test_non_finite_loss_keeps_the_last_checkpoint(
    outcome_of: Outcomes,
    smallest: Recipes,
    uninterrupted: Callable[..., Any],
    words_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, calls = TranslationObjective.loss, []

    def loss(self: TranslationObjective, batch: Any) -> Loss:
        calls.append(batch)
        found = original(self, batch)
        return found if len(calls) < 7 else found._replace(total=found.total * torch.nan)

    with monkeypatch.context() as patch:
        patch.setattr(TranslationObjective, "loss", loss)
        recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
        with pytest.raises(TrainingError, match="got a loss of nan .*at step 7") as caught:
            train_recipe(recipe, tmp_path / "run", TrainOptions())
    lines = calls[-1].lines
    assert f"{words_file}, lines {', '.join(map(str, lines[:5]))}" in str(caught.value)
    assert (tmp_path / "run" / "checkpoint" / "000000006.safetensors").exists()
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == uninterrupted("bahdanau")


# --- state of the optimizer -----------------------------------------------------------------------


def _adam() -> tuple[nn.Linear, torch.optim.Optimizer]:
    model = nn.Linear(3, 4)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("exp_avg_sq", lambda moment: moment[:1], r"exp_avg_sq of weight 0 is .*\(1, 3\), the"),
        ("exp_avg", lambda moment: moment.sum(), r"exp_avg of weight 0 is .*shape \(\), the"),
        ("exp_avg", lambda moment: moment.T, r"exp_avg of weight 0 is .*\(3, 4\), the"),
        ("exp_avg", lambda moment: moment.int(), "exp_avg of weight 0 is torch.int32"),
        ("step", lambda step: step.repeat(5), "step of weight 0 has 5 numbers, the weight 12"),
    ],
)
def test_checkpoint_with_optimizer_state_of_another_shape_is_refused(
    name: str, change: Callable[[Tensor], Tensor], message: str, tmp_path: Path
) -> None:
    """A fused kernel would read and write outside of such a tensor."""
    model, optimizer = _adam()
    checkpoint = snapshot(model, optimizer, TrainState(step=1))
    key = f"optimizer/0/{name}"
    checkpoint.tensors[key] = change(checkpoint.tensors[key]).contiguous()
    write_checkpoint(tmp_path, checkpoint)
    with pytest.raises(RunError, match=message):
        load_checkpoint(tmp_path, *_adam(), warn=pytest.fail)


def test_checkpoint_without_a_part_of_the_optimizer_state_is_refused(tmp_path: Path) -> None:
    model, optimizer = _adam()
    checkpoint = snapshot(model, optimizer, TrainState(step=1))
    del checkpoint.tensors["optimizer/1/exp_avg"]
    write_checkpoint(tmp_path, checkpoint)
    with pytest.raises(RunError, match="other parts for one weight than for another"):
        load_checkpoint(tmp_path, *_adam(), warn=pytest.fail)
