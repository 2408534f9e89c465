"""`train.minutes` in every task: what is left to the clock, and what it ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.config import flatten
from saccade.errors import ConfigError
from saccade.recipes.resolve import resolve_finetune_recipe, resolve_recipe
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.base import Choice, PrepareContext
from saccade.tasks.registry import task_spec_for
from saccade.training.loop import EvalEvent, Event, PlanEvent, StepEvent

LENGTH = ("train.steps", "train.warmup", "train.evaluate_every")


@pytest.fixture
def rhyme(tmp_path: Path) -> Path:
    path = tmp_path / "rhyme.txt"
    path.write_text("humpty dumpty sat on a wall\nhumpty dumpty had a great fall\n" * 60)
    return path


def choices_of(what: str, **options: Any) -> tuple[dict[str, Choice], dict[str, Any]]:
    """Return the choices and the settings of a recipe once its data is read."""
    recipe = resolve_recipe(what, **options).recipe
    data = task_spec_for(recipe).prepare(recipe, PrepareContext())
    return {choice.path: choice for choice in data.choices}, flatten(data.recipe)


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["dates", "forecast", "table", "tinyshakespeare"])
def test_time_budget_replaces_the_length_of_a_recipe(what: str) -> None:
    assert any(path in flatten(resolve_recipe(what).recipe, True) for path in LENGTH)
    changes = {"train.minutes": 3.0}
    limited = flatten(resolve_recipe(what, changes=changes).recipe, exclude_unset=True)
    assert not limited.keys() & set(LENGTH)
    given = {"train.steps": 9, "train.warmup": 2, "train.evaluate_every": 4}
    kept = flatten(resolve_recipe(what, changes=changes | given).recipe)
    assert {path: kept[path] for path in LENGTH} == given


def test_time_budget_keeps_the_length_of_a_recipe_of_your_own(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('task = "table"\n[data]\nsynthetic = "moons"\n[train]\nsteps = 77\n')
    recipe = resolve_recipe(str(own), changes={"train.minutes": 3.0}).recipe
    assert flatten(recipe)["train.steps"] == 77
    again = resolve_recipe(recipe, changes={"train.minutes": 2.0}).recipe
    assert flatten(again)["train.steps"] == 77


def test_time_budget_replaces_the_length_of_the_run_that_is_fine_tuned(
    trained_runs: dict[str, Path], words_file: Path
) -> None:
    folder = trained_runs["bahdanau"]
    usual = flatten(resolve_finetune_recipe(folder, str(words_file)))
    assert (usual["train.steps"], usual["train.evaluate_every"]) == (13, 5)
    limited = resolve_finetune_recipe(folder, str(words_file), changes={"train.minutes": 1.0})
    assert [flatten(limited)[path] for path in LENGTH] == [None, None, None]


@pytest.mark.parametrize("what", ["translate", "language", "table"])
def test_reasons_of_a_time_budget_name_it(what: str, words_file: Path, rhyme: Path) -> None:
    data = {"translate": str(words_file), "language": str(rhyme), "table": None}[what]
    choices, settings = choices_of(what, data=data, changes={"train.minutes": 3.0})
    assert not {"train.warmup", "train.evaluate_every"} & choices.keys()
    assert settings["train.warmup"] is settings["train.evaluate_every"] is None
    steps = choices["train.steps"]
    assert steps.reason.endswith("if 3 min are enough") and "about" not in steps.reason
    assert settings["train.steps"] == steps.value


def test_steps_of_a_text_state_the_bound_that_decided(rhyme: Path) -> None:
    choices, _ = choices_of("language", data=str(rhyme))
    assert choices["train.steps"].value == 200
    assert choices["train.steps"].reason.endswith("; the lower limit")
    assert choices["train.evaluate_every"].reason == "the lower limit: 4 times in 200 steps"
    choices, _ = choices_of("language", data=str(rhyme), changes={"train.steps": 9})
    assert choices["train.evaluate_every"].reason == "once, after the last of 9 steps"


# --- training -----------------------------------------------------------------------------------

QUICK = {"train.minutes": 20.0, "train.threads": 1, "train.patience": 1000}
SMALL = {
    "translate": {"model.width": 8, "train.batch_tokens": 128, "data.max_new_tokens": 8},
    "language": {"model.width": 8, "model.depth": 1, "model.heads": 2, "train.batch_tokens": 256},
    "table": {},
    "forecast": {"data.length": 200},
}


@pytest.mark.parametrize("what", SMALL)
@pytest.mark.usefixtures("counted_time", "no_report")
def test_training_ends_with_its_time_budget(
    what: str, words_file: Path, rhyme: Path, tmp_path: Path
) -> None:
    data = {"translate": str(words_file), "language": str(rhyme)}.get(what)
    model = {"translate": "bahdanau", "language": "gpt2"}.get(what)
    events: list[Event] = []
    messages: list[str] = []
    changes = {**QUICK, **SMALL[what]}
    recipe = resolve_recipe(what, data=data, model=model, changes=changes).recipe
    options = TrainOptions(on_event=events.append, log=messages.append)
    result = train_recipe(recipe, tmp_path / "run", options)
    steps = [event for event in events if isinstance(event, StepEvent)]
    assert result.stop_reason == "minutes"
    assert 0.95 * 1200 < steps[-1].seconds <= 1.01 * 1200  # the last evaluation takes seconds
    [planned] = [event for event in events if isinstance(event, PlanEvent)]
    assert steps[-1].step == pytest.approx(planned.plan.steps, rel=0.25)
    assert any(f"About {planned.plan.steps:,} steps fit" in message for message in messages)
    peak = recipe.train.learning_rate
    rates = [event.learning_rate for event in steps]
    assert max(rates) > 0.9 * peak and rates[0] < 0.1 * peak and rates[-1] < 0.1 * peak
    assert rates.index(max(rates)) < 0.3 * len(rates)
    evaluated = [event for event in events if isinstance(event, EvalEvent)]
    assert evaluated[-1].step == steps[-1].step and len(evaluated) > 3
    assert load_run(tmp_path / "run").recipe.train.minutes == 20


@pytest.mark.usefixtures("counted_time", "no_report")
def test_reading_the_data_is_part_of_the_time_budget(
    smallest: Callable[..., Any], tmp_path: Path
) -> None:
    messages: list[str] = []
    recipe = smallest("bahdanau", {"train.steps": None, "train.minutes": 0.3})
    train_recipe(recipe, tmp_path / "run", TrainOptions(log=messages.append))
    text = "\n".join(messages)
    assert "Reading the data took 10 s of 18 s; training gets half of the time all the same" in text
    assert "Time budget 18 s, 9.0 s of it used: it includes reading the data" in text


def test_model_settings_that_are_given_are_kept_by_the_chosen_model(words_file: Path) -> None:
    recipe = resolve_recipe(str(words_file), changes={"model.width": 24}).recipe
    prepared = task_spec_for(recipe).prepare(recipe, PrepareContext(auto_model=True))
    assert flatten(prepared.recipe)["model.width"] == 24


def test_setting_of_another_model_than_the_chosen_one_is_refused(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"a b c {n}\td e f g {n}\n" for n in range(60)))
    recipe = resolve_recipe(str(pairs), changes={"model.cell": "lstm"}).recipe
    with pytest.raises(ConfigError, match="has no setting 'cell'"):
        task_spec_for(recipe).prepare(recipe, PrepareContext(auto_model=True))
