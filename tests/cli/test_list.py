"""The list says what there is, and its sizes are true."""

from json import loads
from pathlib import Path

import pytest

from saccade.cli.list import CATALOGUE, list_command
from saccade.data.datasets import DATASETS
from saccade.models import ENCODER_DECODERS
from saccade.recipes.language import language_recipe
from saccade.recipes.resolve import RECIPES, resolve_recipe
from saccade.recipes.translation import dates_recipe
from saccade.tasks.language import LANGUAGE_MODELS, make_language_task
from saccade.tasks.registry import TASKS
from saccade.tasks.task import PreparedData
from saccade.tasks.text import prepare_text
from saccade.tasks.translation import prepare_pairs


def names(group: str) -> set[str]:
    return {entry.name for entry in CATALOGUE if entry.group == group}


def test_everything_is_listed_and_nothing_else() -> None:
    assert names("task") == set(TASKS)
    for task, kind in TASKS.items():
        assert names(f"model of {task}") == set(kind.models)
    assert names("recipe") == set(RECIPES)
    assert names("data") == {name for kind in TASKS.values() for name in kind.synthetic}
    assert names("published data") == set(DATASETS)


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("multi30k-")])
def test_the_size_of_a_recipe_for_a_published_set_is_the_one_listed(name: str) -> None:
    recipe = resolve_recipe(name).recipe
    vocab = recipe.data.tokenizer.size
    sizes = {"source_vocab_size": vocab, "target_vocab_size": vocab}
    if recipe.model.name == "transformer":
        sizes["shared_vocab"] = True
    model = ENCODER_DECODERS[recipe.model.name](recipe.model.with_values(**sizes))
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    listed = next(e.size for e in CATALOGUE if e.group == "recipe" and e.name == name)
    assert f"{millions:.1f} M" == listed


def listed(capsys: pytest.CaptureFixture[str], json: bool = False) -> str:
    list_command(json)
    return capsys.readouterr().out


def test_data_that_is_not_on_this_machine_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    (tmp_path / "fra-eng").mkdir()
    (tmp_path / "fra-eng" / "fra.txt").touch()
    shown = listed(capsys)
    marked = {line.split()[0] for line in shown.splitlines() if line.rstrip().endswith(" *")}
    absent_sets = set(DATASETS) - {"fra-eng"}
    of_multi30k = {name for name in RECIPES if name.startswith("multi30k-")}
    assert marked == of_multi30k | absent_sets
    assert "* data that is not on this machine: fetched when it is needed" in shown
    assert max(map(len, shown.splitlines())) <= 80
    absent = {entry["name"] for entry in loads(listed(capsys, True)) if not entry["data_is_here"]}
    assert absent == marked


def test_where_all_data_is_there_nothing_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    for name, dataset in DATASETS.items():
        (tmp_path / name).mkdir()
        for file in dataset.files:
            (tmp_path / name / f"{file.name}.xz").touch()
    assert "*" not in listed(capsys)


@pytest.fixture(scope="module")
def some_dates() -> PreparedData:
    few = dates_recipe().with_values(data={"synthetic": "dates", "size": 20_000})
    return prepare_pairs(few, lambda what, done, total: None)


@pytest.mark.parametrize("model", ENCODER_DECODERS)
def test_the_size_of_a_model_is_the_one_listed(model: str, some_dates: PreparedData) -> None:
    known = some_dates.recipe.model
    sizes = {
        "source_vocab_size": known.source_vocab_size,
        "target_vocab_size": known.target_vocab_size,
    }
    built = ENCODER_DECODERS[model](dates_recipe(model).model.with_values(**sizes))
    millions = sum(parameter.numel() for parameter in built.parameters()) / 1e6
    listed = next(e.size for e in CATALOGUE if e.group == "model of translate" and e.name == model)
    assert f"{millions:.1f} M" == listed


@pytest.mark.parametrize("model", sorted(set(LANGUAGE_MODELS) - {"ngram"}))
def test_the_size_of_a_language_model_is_the_one_listed(model: str) -> None:
    prepared = prepare_text(language_recipe(model), lambda what, done, total: None)
    task = make_language_task(prepared.recipe, prepared.vocabulary)
    millions = sum(tensor.numel() for tensor in task.weights().values()) / 1e6
    listed = next(e.size for e in CATALOGUE if e.group == "model of language" and e.name == model)
    assert f"{millions:.{1 if millions > 0.1 else 2}f} M" == listed
