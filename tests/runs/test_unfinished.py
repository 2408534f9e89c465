"""Runs that are not finished, and trainings that fail: what they leave, and what can be used."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from saccade.errors import ConfigError, DataError, RunError, TrainingError
from saccade.io.tensors import read_tensors
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.translation.objective import TranslationObjective
from saccade.training.loop import Event, StepEvent
from saccade.training.objective import Loss

Recipes = Callable[..., Any]


class Killed(Exception):
    """The machine went down."""


def killed_after(step: int) -> TrainOptions:
    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == step:
            raise Killed

    return TrainOptions(on_event=on_event)


def train_until(step: int, recipe: Any, folder: Path) -> None:
    with pytest.raises(Killed):
        train_recipe(recipe, folder, killed_after(step))


# --- predictions of an interrupted run ----------------------------------------------------------


def test_run_without_an_evaluation_predicts_with_its_newest_weights(
    smallest: Recipes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    train_until(5, smallest("bahdanau", {"train.checkpoint_seconds": 0}), folder)
    assert not (folder / "model.safetensors").exists()
    run = load_run(folder)
    [record] = caplog.records
    assert record.getMessage() == (
        f"{folder} is not finished: step 4 of 13, and these are the weights of step 4; resume "
        f"with saccade train --resume {folder}"
    )
    newest, _ = read_tensors(folder / "checkpoint" / "000000004.safetensors")
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, newest[f"model/{name}"])
    assert run.predict("abc").text is not None
    assert run.evaluate()["examples"] > 0
    assert run.look("abc").maps


@pytest.mark.parametrize("lost", [False, True], ids=["", "without model.safetensors"])
def test_interrupted_run_predicts_with_its_best_weights(
    lost: bool, smallest: Recipes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    train_until(12, smallest("bahdanau", {"train.checkpoint_seconds": 0}), folder)
    best, facts = read_tensors(folder / "model.safetensors")
    if lost:
        (folder / "model.safetensors").unlink()
    run = load_run(folder)
    assert f"step 11 of 13, and these are the weights of step {facts['step']};" in caplog.text
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, best[name])


def test_finished_run_is_loaded_without_a_warning(
    trained_runs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    load_run(trained_runs["bahdanau"])
    assert not caplog.records


def test_run_without_a_checkpoint_names_the_command_to_resume(
    smallest: Recipes, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    train_until(2, smallest(), folder)
    with pytest.raises(RunError, match=r"no checkpoint yet; resume it with saccade train --resume"):
        load_run(folder)
    resume(folder, {}, TrainOptions())
    assert load_run(folder).metrics()


def test_unfinished_time_budget_is_described(
    smallest: Recipes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changes = {"train.steps": None, "train.minutes": 5, "train.checkpoint_seconds": 0}
    train_until(3, smallest("bahdanau", changes), tmp_path / "run")
    load_run(tmp_path / "run")
    assert "step 2 of a time budget of 5 min" in caplog.text


def test_unfinished_fit_names_the_command_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\n" * 50)
    changes = {"data.path": str(text), "data.synthetic": None, "train.threads": 1}
    recipe = resolve_recipe("vectors", changes=changes | {"data.min_count": 1}).recipe

    def killed(*arguments: Any, **options: Any) -> str:
        raise Killed

    monkeypatch.setattr("saccade.runs.train.run_fit_session", killed)
    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "run", TrainOptions())
    with pytest.raises(RunError, match=r"run is not finished.*saccade train --resume"):
        load_run(tmp_path / "run")


# --- trainings that fail ------------------------------------------------------------------------


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that makes the loss of a step, and of all after it, not a number."""

    def at(step: int) -> None:
        original, calls = TranslationObjective.loss, []

        def loss(self: TranslationObjective, batch: Any) -> Loss:
            calls.append(batch)
            found = original(self, batch)
            return found if len(calls) < step else found._replace(total=found.total * math.nan)

        monkeypatch.setattr(TranslationObjective, "loss", loss)

    return at


@pytest.mark.parametrize("step", [1, 3])
def test_divergence_before_the_first_checkpoint_leaves_no_folder(
    step: int, diverging: Callable[[int], None], smallest: Recipes, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        diverging(step)
        with pytest.raises(TrainingError, match=f"got a loss of nan .*at step {step},") as caught:
            train_recipe(smallest(), folder, TrainOptions())
    assert "Kept" not in str(caught.value)
    assert not folder.exists()


def test_next_try_after_a_divergence_is_not_blocked(
    diverging: Callable[[int], None],
    smallest: Recipes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diverging(1)
    with pytest.raises(TrainingError):
        train_recipe(smallest(), tmp_path / "run", TrainOptions())
    monkeypatch.undo()
    assert train_recipe(smallest(), tmp_path / "run", TrainOptions()).stop_reason == "steps"


def test_later_divergence_keeps_and_names_the_best_weights(
    diverging: Callable[[int], None], smallest: Recipes, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    diverging(8)
    with pytest.raises(TrainingError, match="at step 8,") as caught:
        train_recipe(smallest(), folder, TrainOptions())
    assert f"Kept: the best weights, of step 5 ({folder}/model.safetensors)" in str(caught.value)
    assert f"--init-from {folder} starts a new run" in str(caught.value)
    assert read_tensors(folder / "model.safetensors")[1]["step"] == 5
    assert load_run(folder).predict("abc")


def test_later_divergence_names_the_checkpoint(
    diverging: Callable[[int], None], smallest: Recipes, tmp_path: Path
) -> None:
    diverging(4)
    with pytest.raises(TrainingError, match="Kept: the checkpoint of step 3;"):
        train_recipe(
            smallest("bahdanau", {"train.checkpoint_seconds": 0}), tmp_path / "run", TrainOptions()
        )
    assert load_run(tmp_path / "run").predict("abc")


@pytest.mark.parametrize(
    "changes",
    [
        {"data.path": "no/such/file.tsv"},
        {"train.device": "gpu9"},
        {"model.width": 9, "model.heads": 2},
    ],
    ids=["data", "device", "width"],
)
def test_training_that_cannot_start_leaves_no_folder(
    changes: dict[str, Any], smallest: Recipes, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, DataError)):
        train_recipe(smallest("transformer", changes), tmp_path / "new" / "run", TrainOptions())
    assert not (tmp_path / "new").exists()


def test_setting_that_the_objective_refuses_leaves_no_folder(tmp_path: Path) -> None:
    recipe = resolve_recipe("forecast", changes={"train.compile": True}).recipe
    with pytest.raises(ConfigError, match="train.compile"):
        train_recipe(recipe, tmp_path / "run", TrainOptions())
    assert not (tmp_path / "run").exists()


def test_log_of_the_package_prints_nothing_by_itself() -> None:
    assert not logging.getLogger("saccade").handlers
