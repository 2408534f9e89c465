"""Training longer: finished, early-stopped and time-limited runs are extended when resumed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.errors import ConfigError
from saccade.io.tensors import read_tensors
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import load_run, open_without_weights
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.training.loop import Event, StepEvent

Recipes = Callable[..., Any]
Outcomes = Callable[[Path], dict[str, Any]]

pytestmark = pytest.mark.usefixtures("no_report")


def extended(folder: Path, changes: dict[str, Any]) -> tuple[str, list[str], list[StepEvent]]:
    """Resume a run; return the stop reason, the messages and the steps made."""
    messages: list[str] = []
    steps: list[StepEvent] = []

    def on_event(event: Event) -> None:
        if isinstance(event, StepEvent):
            steps.append(event)

    options = TrainOptions(log=messages.append, on_event=on_event)
    return resume(folder, changes, options).stop_reason, messages, steps


@pytest.mark.parametrize(
    ("model", "schedule", "first"),
    [
        ("bahdanau", "constant", 13),  # the last evaluation is not one of the longer training
        ("transformer", "inverse_sqrt", 13),
        ("bahdanau", "pid", 10),
    ],
)
def test_extended_run_is_bit_exact_if_the_schedule_allows_it(
    model: str,
    schedule: str,
    first: int,
    smallest: Recipes,
    outcome_of: Outcomes,
    tmp_path: Path,
) -> None:
    changes = {"train.schedule": schedule, "train.warmup": 3, "train.average_checkpoints": 2}
    for name, steps in (("short", first), ("whole", 21)):
        train_recipe(
            smallest(model, {**changes, "train.steps": steps}), tmp_path / name, TrainOptions()
        )
    reason, messages, steps_made = extended(tmp_path / "short", {"train.steps": 21})
    assert reason == "steps" and [event.step for event in steps_made] == [*range(first + 1, 22)]
    assert outcome_of(tmp_path / "short") == outcome_of(tmp_path / "whole")
    expected = f"at step {first} of 21; the {schedule} schedule does not depend on the length"
    assert expected in "\n".join(messages)
    assert load_run(tmp_path / "short").recipe == load_run(tmp_path / "whole").recipe
    assert load_run(tmp_path / "short").metadata["resumed_with"] == [
        f"step {first}; train.steps: {first} → 21"
    ]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_extended_schedule_is_planned_from_here(
    schedule: str, smallest: Recipes, tmp_path: Path
) -> None:
    rates: dict[str, list[float]] = {}
    for name, steps in (("short", 13), ("whole", 26)):
        seen: list[float] = []
        rates[name] = seen

        def on_event(event: Event, seen: list[float] = seen) -> None:
            if isinstance(event, StepEvent):
                seen.append(event.learning_rate)

        changes = {"train.schedule": schedule, "train.steps": steps, "train.warmup": 2}
        train_recipe(
            smallest("bahdanau", changes), tmp_path / name, TrainOptions(on_event=on_event)
        )
    reason, messages, made = extended(tmp_path / "short", {"train.steps": 26})
    assert reason == "steps"
    assert [event.learning_rate for event in made] == rates["whole"][13:]
    assert rates["short"][:13] != rates["whole"][:13]
    assert "the result is not that of an uninterrupted run" in "\n".join(messages)


def test_extended_run_keeps_better_weights_of_its_last_evaluation(
    smallest: Recipes, tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau", {"train.learning_rate": 0.01}), tmp_path, TrainOptions())
    path = tmp_path / "model.safetensors"
    before = read_tensors(path)[1]
    assert before["step"] == 13  # which is not in the checkpoint
    extended(tmp_path, {"train.steps": 14, "train.evaluate_every": 20})
    after = read_tensors(path)[1]
    assert after["goodness"] >= before["goodness"]


def test_early_stopped_run_is_extended(smallest: Recipes, tmp_path: Path) -> None:
    # the rate is so small that no evaluation is better than the first by more than MIN_DELTA
    changes = {"train.learning_rate": 1e-12, "train.patience": 2, "train.steps": 40}
    changes |= {"train.evaluate_every": 2}
    assert train_recipe(smallest("bahdanau", changes), tmp_path, TrainOptions()).stop_reason == (
        "patience"
    )
    reason, messages, made = extended(tmp_path, {"train.steps": 50})
    assert reason == "patience" and [event.step for event in made] == [7, 8, 9, 10]
    assert "had stopped early, after 2 evaluations without improvement" in messages[-2]
    reason, messages, made = extended(tmp_path, {"train.patience": 4})
    assert reason == "patience" and [event.step for event in made] == [11, 12, 13, 14]
    assert not [message for message in messages if "stopped early" in message]


def test_finished_run_is_extended_by_minutes_and_then_by_steps(
    counted_time: None, smallest: Recipes, tmp_path: Path
) -> None:
    train_recipe(smallest("bahdanau", {"train.patience": 1000}), tmp_path, TrainOptions())
    reason, messages, made = extended(tmp_path, {"train.minutes": 10})
    assert reason == "minutes" and made[0].step == 14
    assert any("of 10 minutes are used, and the cosine" in message for message in messages)
    assert 9 * 60 < made[-1].seconds < 10 * 60 + 30
    settings = load_run(tmp_path).recipe.train
    assert (settings.minutes, settings.steps) == (10, None)
    last = made[-1].step
    with pytest.raises(ConfigError, match=r"got train.minutes=2, of which .* has used (9|10)\."):
        resume(tmp_path, {"train.minutes": 2}, TrainOptions())
    reason, _, made = extended(tmp_path, {"train.steps": last + 3})
    assert reason == "steps" and [event.step for event in made] == [*range(last + 1, last + 4)]
    settings = load_run(tmp_path).recipe.train
    assert (settings.minutes, settings.steps) == (None, last + 3)


def test_interrupted_run_is_extended(smallest: Recipes, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(event: Event) -> None:
        if isinstance(event, StepEvent) and event.step == 7:
            raise Killed

    recipe = smallest("bahdanau", {"train.checkpoint_seconds": 0})
    with pytest.raises(Killed):
        train_recipe(recipe, tmp_path / "run", TrainOptions(on_event=kill))
    reason, _, made = extended(tmp_path / "run", {"train.steps": 20})
    assert reason == "steps" and [event.step for event in made] == [*range(7, 21)]


@pytest.mark.parametrize("steps", [5, 13])
def test_shorter_training_is_refused(
    steps: int, trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained_runs["bahdanau"], tmp_path / "run"))
    before = (folder / "run.toml").read_bytes()
    if steps == 13:  # as many as it has made: nothing changes
        assert extended(folder, {"train.steps": steps})[0] == "steps"
    else:
        with pytest.raises(ConfigError, match=r"got train.steps=5, of which .*run has made 13"):
            resume(folder, {"train.steps": steps}, TrainOptions())
    assert (folder / "run.toml").read_bytes() == before


def test_resume_may_change_evaluations_and_checkpoints(
    trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained_runs["bahdanau"], tmp_path / "run"))
    changes = {"train.steps": 16, "train.evaluate_every": 1, "train.checkpoint_seconds": 0}
    extended(folder, changes)
    evaluated = [line["step"] for line in load_run(folder).metrics() if "best" in line]
    assert evaluated == [5, 10, 13, 14, 15, 16]
    assert load_run(folder).recipe.train.checkpoint_seconds == 0


def test_estimators_are_not_extended(tmp_path: Path) -> None:
    text = tmp_path / "rhyme.txt"
    text.write_text("the cat sat on the mat\n" * 30)
    recipe = resolve_recipe("language", data=str(text), model="ngram").recipe
    train_recipe(recipe, tmp_path / "ngram", TrainOptions())
    with pytest.raises(ConfigError, match=r"train.steps for ngram, .*cannot be extended") as caught:
        resume(tmp_path / "ngram", {"train.steps": 9000}, TrainOptions())
    assert f"saccade train language --data {text} --model ngram --out NEW" in str(caught.value)


def test_classifier_is_fitted_again_with_more_epochs(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    data = tmp_path / "texts.tsv"
    data.write_text("".join(f"{'ab'[n % 2]}\tword {n % 2} and {n}\n" for n in range(60)))
    changes = {"model.epochs": 1, "train.threads": 1}
    recipe = resolve_recipe("classify", data=str(data), model="fasttext", changes=changes).recipe
    train_recipe(recipe, tmp_path / "run", TrainOptions())
    with pytest.raises(ConfigError, match=r"model.epochs: 1 → 25") as caught:
        resume(tmp_path / "run", {"model.epochs": 25}, TrainOptions())
    expected = f"saccade train classify --data {data} --model fasttext --set model.epochs=25"
    assert expected in str(caught.value)
    assert open_without_weights(tmp_path / "run").recipe.model.model_dump()["epochs"] == 1
