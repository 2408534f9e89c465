import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from saccade.errors import RunError, TrainingError
from saccade.io.tensors import read_tensors
from saccade.runs.run import TrainOptions, resume, train_recipe
from saccade.tasks.translation import TranslationTask
from saccade.training.loop import Event, Loss, ReportEvent, StepEvent

Recipes = Callable[..., Any]
Outcomes = Callable[[Path], dict[str, Any]]
# an epoch of the words has 9 batches; reports come at 4, 8, 12, evaluations at 5, 10, 13
STOPS = {"in the middle of all": 3, "after an evaluation": 5, "after an epoch": 9, "last": 12}
MODELS = ("bahdanau", "conv_seq2seq", "luong", "seq2seq", "transformer")


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)


def interrupting(at: int) -> TrainOptions:
    """Ctrl-C during a step."""

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
def unbroken(
    smallest: Recipes, outcome_of: Outcomes, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Any]]:
    """What a training gives that nothing disturbs."""
    root, known = tmp_path_factory.mktemp("unbroken"), {}

    def outcome(model: str) -> dict[str, Any]:
        if model not in known:
            assert (
                train_recipe(smallest(model), root / model, TrainOptions()).stop_reason == "steps"
            )
            known[model] = outcome_of(root / model)
        return known[model]

    return outcome


def test_the_unbroken_runs_are_what_they_are_taken_for(unbroken: Callable[..., Any]) -> None:
    outcome = unbroken("bahdanau")
    reports = [line["step"] for line in outcome["metrics"] if "loss" in line]
    looks = [line["step"] for line in outcome["metrics"] if "best" in line]
    assert (reports, looks) == ([4, 8, 12], [5, 10, 13])
    # the optimiser's two averages and its count, for every weight
    last, _ = outcome["last"]
    weights = sum(name.startswith("model/") for name in last)
    assert sum(name.startswith("optimizer/") for name in last) == 3 * weights


@pytest.mark.parametrize("at", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("model", MODELS)
def test_stopped_and_resumed_is_as_never_stopped(
    outcome_of: Outcomes,
    model: str,
    at: int,
    smallest: Recipes,
    unbroken: Callable[..., Any],
    tmp_path: Path,
) -> None:
    assert train_recipe(smallest(model), tmp_path / "run", interrupting(at)).stop_reason == "stop"
    torch.manual_seed(99)  # whatever the new process did before
    torch.randn(7)
    assert resume(tmp_path / "run", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "run") == unbroken(model)


def test_stopped_again_and_again_is_as_never_stopped(
    outcome_of: Outcomes, smallest: Recipes, unbroken: Callable[..., Any], tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau"), tmp_path / "run", interrupting(2))
    for at in (4, 7, 11):
        assert resume(tmp_path / "run", {}, interrupting(at)).stop_reason == "stop"
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == unbroken("bahdanau")


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"train.accumulate_steps": 2}, 3),
        ({"train.average_checkpoints": 3}, 11),
        ({"train.threads": 2, "train.batch_tokens": 512}, 4),
    ],
    ids=str,
)
def test_what_more_is_remembered_is_resumed_too(
    outcome_of: Outcomes, changes: dict[str, int], at: int, smallest: Recipes, tmp_path: Path
) -> None:
    """The batch of accumulated steps; the weights to be averaged; what each thread drops."""
    recipe = smallest("bahdanau", changes)
    train_recipe(recipe, tmp_path / "whole", TrainOptions())
    train_recipe(recipe, tmp_path / "broken", interrupting(at))
    resume(tmp_path / "broken", {}, TrainOptions())
    assert outcome_of(tmp_path / "broken") == outcome_of(tmp_path / "whole")


@pytest.mark.parametrize("seconds", [0, 1000], ids=["a checkpoint each step", "no checkpoint"])
def test_killed_between_two_checkpoints_goes_on_from_the_last(
    outcome_of: Outcomes, seconds: int, smallest: Recipes, tmp_path: Path
) -> None:
    recipe = smallest("bahdanau", {"train.checkpoint_seconds": seconds})
    train_recipe(recipe, tmp_path / "whole", TrainOptions())
    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "broken", killing(8))
    made = sorted(path.name for path in (tmp_path / "broken" / "checkpoint").glob("*"))
    wanted = ["000000006.safetensors", "000000007.safetensors"] if seconds == 0 else []
    assert made == wanted
    resume(tmp_path / "broken", {}, TrainOptions())
    assert outcome_of(tmp_path / "broken") == outcome_of(tmp_path / "whole")


def test_a_finished_run_is_left_as_it_is(
    outcome_of: Outcomes, smallest: Recipes, tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau"), tmp_path / "run", TrainOptions())
    before = outcome_of(tmp_path / "run")
    assert resume(tmp_path / "run", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "run") == before


def test_weights_without_a_checkpoint_are_not_trained_over(
    smallest: Recipes, tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau"), tmp_path / "run", TrainOptions())
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(RunError, match="no checkpoint to go on from.*--from"):
        resume(tmp_path / "run", {}, TrainOptions())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


# --- what can happen to a checkpoint ------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut short", "a flipped bit", "emptied"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    outcome_of: Outcomes,
    damage: str,
    smallest: Recipes,
    unbroken: Callable[..., Any],
    tmp_path: Path,
) -> None:
    recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
    train_recipe(recipe, tmp_path / "run", interrupting(7))
    before, newest = sorted((tmp_path / "run" / "checkpoint").glob("*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    cut = {"cut short": len(content) // 2, "a flipped bit": len(content), "emptied": 0}[damage]
    newest.write_bytes(content[:cut])
    said: list[str] = []
    resume(tmp_path / "run", {}, TrainOptions(log=said.append))
    told = "\n".join(said)
    assert f"{newest} is damaged" in told
    assert f"The checkpoint before it is used: {before}" in told
    assert outcome_of(tmp_path / "run") == unbroken("bahdanau")


def test_with_no_whole_checkpoint_it_says_that_it_begins_anew(
    outcome_of: Outcomes, smallest: Recipes, unbroken: Callable[..., Any], tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau"), tmp_path / "run", interrupting(3))
    for path in (tmp_path / "run" / "checkpoint").iterdir():
        path.write_bytes(b"")
    said: list[str] = []
    resume(tmp_path / "run", {}, TrainOptions(log=said.append))
    assert "training starts from its beginning" in said[-1]
    assert outcome_of(tmp_path / "run") == unbroken("bahdanau")


def test_a_full_disk_stops_it_and_the_checkpoint_before_is_whole(
    outcome_of: Outcomes,
    smallest: Recipes,
    unbroken: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run" / "checkpoint"

    flush = os.fsync

    def full(handle: int) -> None:
        # by the file and not by the clock: step 5 may still be on its way to the disk at step 6
        if "/.000000006." in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(handle)

    monkeypatch.setattr("saccade.io.atomic.os.fsync", full)
    recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
    with pytest.raises(RunError, match=r"000000006.*No space left on device.*make room"):
        train_recipe(recipe, tmp_path / "run", TrainOptions())
    assert sorted(os.listdir(folder)) == ["000000004.safetensors", "000000005.safetensors"]
    read_tensors(folder / "000000005.safetensors")
    monkeypatch.undo()
    monkeypatch.setattr("saccade.runs.run.write_report", lambda run, options: None)
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == unbroken("bahdanau")


def test_a_loss_that_is_no_number_leaves_the_last_checkpoint(
    outcome_of: Outcomes,
    smallest: Recipes,
    unbroken: Callable[..., Any],
    words_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest, calls = TranslationTask.loss, []

    def loss(self: TranslationTask, batch: Any) -> Loss:
        calls.append(batch)
        found = honest(self, batch)
        return found if len(calls) < 7 else found._replace(total=found.total * torch.nan)

    with monkeypatch.context() as patch:
        patch.setattr(TranslationTask, "loss", loss)
        recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
        with pytest.raises(TrainingError, match="at step 7 the loss is nan") as caught:
            train_recipe(recipe, tmp_path / "run", TrainOptions())
    lines = calls[-1].lines
    assert f"{words_file}, lines {', '.join(map(str, lines[:5]))}" in str(caught.value)
    assert (tmp_path / "run" / "checkpoint" / "000000006.safetensors").exists()
    resume(tmp_path / "run", {}, TrainOptions())
    assert outcome_of(tmp_path / "run") == unbroken("bahdanau")
