import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.errors import RunError, TrainingError
from saccade.run import Options, resume, train
from saccade.storage import read_tensors
from saccade.tasks import Translation
from saccade.training import Event, Loss, Reported, Stepped

Recipes = Callable[..., Any]
# an epoch of the words has 9 batches; reports come at 4, 8, 12, evaluations at 5, 10, 13
STOPS = {"in the middle of all": 3, "after an evaluation": 5, "after an epoch": 9, "last": 12}
MODELS = ("bahdanau", "seq2seq", "transformer")


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.run.report", lambda run, options: None)


class Outcome:
    """All that a training leaves behind, but for what the clock says."""

    def __init__(self, folder: Path):
        self.best, self.best_facts = read_tensors(folder / "model.safetensors")
        newest = sorted((folder / "checkpoint").glob("*.safetensors"))[-1]
        self.last, self.facts = read_tensors(newest)
        self.facts["standing"].pop("seconds")
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        self.metrics = [json.loads(line) for line in lines]
        for line in self.metrics:
            for name in ("seconds", "rate"):
                line.pop(name, None)


def same_bits(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[name].view(-1).view(torch.uint8), right[name].view(-1).view(torch.uint8))
        for name in left
    )


def assert_same(one: Outcome, other: Outcome) -> None:
    assert one.metrics == other.metrics
    assert one.facts == other.facts
    assert one.best_facts == other.best_facts
    assert same_bits(one.last, other.last)
    assert same_bits(one.best, other.best)


def interrupting(at: int) -> Options:
    """Ctrl-C during a step."""

    def tell(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == at:
            signal.raise_signal(signal.SIGINT)

    return Options(tell=tell)


class Killed(Exception):
    """The machine went down."""


def killing(at: int) -> Options:
    def tell(event: Event) -> None:
        if isinstance(event, Reported) and event.step == at:
            raise Killed

    return Options(tell=tell)


@pytest.fixture(scope="module")
def unbroken(
    smallest: Recipes, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Outcome]:
    """What a training gives that nothing disturbs."""
    root, known = tmp_path_factory.mktemp("unbroken"), {}

    def outcome(model: str) -> Outcome:
        if model not in known:
            assert train(smallest(model), root / model, Options()).ended == "steps"
            known[model] = Outcome(root / model)
        return known[model]

    return outcome


def test_the_unbroken_runs_are_what_they_are_taken_for(unbroken: Callable[..., Any]) -> None:
    outcome = unbroken("bahdanau")
    reports = [line["step"] for line in outcome.metrics if "loss" in line]
    looks = [line["step"] for line in outcome.metrics if "best" in line]
    assert (reports, looks) == ([4, 8, 12], [5, 10, 13])
    # the optimiser's two averages and its count, for every weight
    weights = sum(name.startswith("model/") for name in outcome.last)
    assert sum(name.startswith("optimizer/") for name in outcome.last) == 3 * weights


@pytest.mark.parametrize("at", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("model", MODELS)
def test_stopped_and_resumed_is_as_never_stopped(
    model: str, at: int, smallest: Recipes, unbroken: Callable[..., Any], tmp_path: Path
) -> None:
    assert train(smallest(model), tmp_path / "run", interrupting(at)).ended == "stop"
    torch.manual_seed(99)  # whatever the new process did before
    torch.randn(7)
    assert resume(tmp_path / "run", {}, Options()).ended == "steps"
    assert_same(Outcome(tmp_path / "run"), unbroken(model))


def test_stopped_again_and_again_is_as_never_stopped(
    smallest: Recipes, unbroken: Callable[..., Any], tmp_path: Path
) -> None:
    train(smallest("bahdanau"), tmp_path / "run", interrupting(2))
    for at in (4, 7, 11):
        assert resume(tmp_path / "run", {}, interrupting(at)).ended == "stop"
    resume(tmp_path / "run", {}, Options())
    assert_same(Outcome(tmp_path / "run"), unbroken("bahdanau"))


def test_accumulated_steps_resume_at_their_batch(smallest: Recipes, tmp_path: Path) -> None:
    recipe = smallest("bahdanau", {"train.accumulate": 2})
    train(recipe, tmp_path / "whole", Options())
    train(recipe, tmp_path / "broken", interrupting(3))
    resume(tmp_path / "broken", {}, Options())
    assert_same(Outcome(tmp_path / "broken"), Outcome(tmp_path / "whole"))


@pytest.mark.parametrize("seconds", [0, 1000], ids=["a checkpoint each step", "no checkpoint"])
def test_killed_between_two_checkpoints_goes_on_from_the_last(
    seconds: int, smallest: Recipes, tmp_path: Path
) -> None:
    recipe = smallest("bahdanau", {"train.checkpoint_seconds": seconds})
    train(recipe, tmp_path / "whole", Options())
    with pytest.raises(Killed):
        train(recipe, tmp_path / "broken", killing(8))
    made = sorted(path.name for path in (tmp_path / "broken" / "checkpoint").glob("*"))
    wanted = ["000000006.safetensors", "000000007.safetensors"] if seconds == 0 else []
    assert made == wanted
    resume(tmp_path / "broken", {}, Options())
    assert_same(Outcome(tmp_path / "broken"), Outcome(tmp_path / "whole"))


def test_a_finished_run_is_left_as_it_is(smallest: Recipes, tmp_path: Path) -> None:
    train(smallest("bahdanau"), tmp_path / "run", Options())
    before = Outcome(tmp_path / "run")
    assert resume(tmp_path / "run", {}, Options()).ended == "steps"
    assert_same(Outcome(tmp_path / "run"), before)


# --- what can happen to a checkpoint ------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut short", "a flipped bit", "emptied"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    damage: str, smallest: Recipes, unbroken: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
    train(recipe, tmp_path / "run", interrupting(7))
    before, newest = sorted((tmp_path / "run" / "checkpoint").glob("*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    cut = {"cut short": len(content) // 2, "a flipped bit": len(content), "emptied": 0}[damage]
    newest.write_bytes(content[:cut])
    said: list[str] = []
    resume(tmp_path / "run", {}, Options(said=said.append))
    told = "\n".join(said)
    assert f"{newest} is damaged" in told
    assert f"The checkpoint before it is used: {before}" in told
    assert_same(Outcome(tmp_path / "run"), unbroken("bahdanau"))


def test_with_no_whole_checkpoint_it_says_that_it_begins_anew(
    smallest: Recipes, unbroken: Callable[..., Any], tmp_path: Path
) -> None:
    train(smallest("bahdanau"), tmp_path / "run", interrupting(3))
    for path in (tmp_path / "run" / "checkpoint").iterdir():
        path.write_bytes(b"")
    said: list[str] = []
    resume(tmp_path / "run", {}, Options(said=said.append))
    assert "training starts from its beginning" in said[-1]
    assert_same(Outcome(tmp_path / "run"), unbroken("bahdanau"))


def test_a_full_disk_stops_it_and_the_checkpoint_before_is_whole(
    smallest: Recipes,
    unbroken: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run" / "checkpoint"

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def tell(event: Event) -> None:
        if event.step == 6:
            monkeypatch.setattr("saccade.storage.os.fsync", full)

    recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
    with pytest.raises(RunError, match=r"000000006.*No space left on device.*make room"):
        train(recipe, tmp_path / "run", Options(tell=tell))
    assert sorted(os.listdir(folder)) == ["000000004.safetensors", "000000005.safetensors"]
    read_tensors(folder / "000000005.safetensors")
    monkeypatch.undo()
    monkeypatch.setattr("saccade.run.report", lambda run, options: None)
    resume(tmp_path / "run", {}, Options())
    assert_same(Outcome(tmp_path / "run"), unbroken("bahdanau"))


def test_a_loss_that_is_no_number_leaves_the_last_checkpoint(
    smallest: Recipes,
    unbroken: Callable[..., Any],
    words_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest, calls = Translation.loss, []

    def loss(self: Translation, batch: Any) -> Loss:
        calls.append(batch)
        found = honest(self, batch)
        return found if len(calls) < 7 else found._replace(total=found.total * torch.nan)

    with monkeypatch.context() as patch:
        patch.setattr(Translation, "loss", loss)
        recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
        with pytest.raises(TrainingError, match="at step 7 the loss is nan") as caught:
            train(recipe, tmp_path / "run", Options())
    lines = calls[-1].lines
    assert f"{words_file}, lines {', '.join(map(str, lines[:5]))}" in str(caught.value)
    assert (tmp_path / "run" / "checkpoint" / "000000006.safetensors").exists()
    resume(tmp_path / "run", {}, Options())
    assert_same(Outcome(tmp_path / "run"), unbroken("bahdanau"))
