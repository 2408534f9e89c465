"""The list says what there is, and its sizes are true."""

from json import loads
from pathlib import Path

import pytest

from saccade.cli.listing import ENTRIES, list_all
from saccade.data.sources import PUBLISHED
from saccade.models import TRANSLATORS
from saccade.recipes.finding import RECIPES, find
from saccade.recipes.language import language
from saccade.recipes.translation import dates
from saccade.tasks.kinds import TASKS
from saccade.tasks.language import LANGUAGE_MODELS, language_task
from saccade.tasks.task import Prepared
from saccade.tasks.text import prepare as prepare_text
from saccade.tasks.translation import prepare


def names(group: str) -> set[str]:
    return {entry.name for entry in ENTRIES if entry.group == group}


def test_everything_is_listed_and_nothing_else() -> None:
    assert names("task") == set(TASKS)
    for task, kind in TASKS.items():
        assert names(f"model of {task}") == set(kind.models)
    assert names("recipe") == set(RECIPES)
    assert names("data") == {name for kind in TASKS.values() for name in kind.made}
    assert names("published data") == set(PUBLISHED)


@pytest.mark.parametrize("name", [name for name in RECIPES if name.startswith("multi30k-")])
def test_the_size_of_a_recipe_for_a_published_set_is_the_one_listed(name: str) -> None:
    recipe = find(name).recipe
    vocab = recipe.data.tokenizer.size
    sizes = {"source_vocab": vocab, "target_vocab": vocab}
    if recipe.model.name == "transformer":
        sizes["shared_vocab"] = True
    model = TRANSLATORS[recipe.model.name](recipe.model.with_values(**sizes))
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    listed = next(e.size for e in ENTRIES if e.group == "recipe" and e.name == name)
    assert f"{millions:.1f} M" == listed


def listed(capsys: pytest.CaptureFixture[str], json: bool = False) -> str:
    list_all(json)
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
    absent_sets = set(PUBLISHED) - {"fra-eng"}
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
    for name, published in PUBLISHED.items():
        (tmp_path / name).mkdir()
        for file in published.files:
            (tmp_path / name / f"{file.name}.xz").touch()
    assert "*" not in listed(capsys)


@pytest.fixture(scope="module")
def some_dates() -> Prepared:
    few = dates().with_values(data={"made": "dates", "size": 20_000})
    return prepare(few, lambda what, done, total: None)


@pytest.mark.parametrize("model", TRANSLATORS)
def test_the_size_of_a_model_is_the_one_listed(model: str, some_dates: Prepared) -> None:
    known = some_dates.recipe.model
    sizes = {"source_vocab": known.source_vocab, "target_vocab": known.target_vocab}
    built = TRANSLATORS[model](dates(model).model.with_values(**sizes))
    millions = sum(parameter.numel() for parameter in built.parameters()) / 1e6
    listed = next(e.size for e in ENTRIES if e.group == "model of translate" and e.name == model)
    assert f"{millions:.1f} M" == listed


@pytest.mark.parametrize("model", sorted(set(LANGUAGE_MODELS) - {"ngram"}))
def test_the_size_of_a_language_model_is_the_one_listed(model: str) -> None:
    prepared = prepare_text(language(model), lambda what, done, total: None)
    task = language_task(prepared.recipe, prepared.vocabulary)
    millions = sum(tensor.numel() for tensor in task.weights().values()) / 1e6
    listed = next(e.size for e in ENTRIES if e.group == "model of language" and e.name == model)
    assert f"{millions:.{1 if millions > 0.1 else 2}f} M" == listed
