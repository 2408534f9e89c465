"""The list says what there is, and its sizes are true."""

import pytest

from saccade.cli.listing import ENTRIES
from saccade.models import TRANSLATORS
from saccade.recipes import RECIPES, dates, language
from saccade.tasks import TASKS
from saccade.tasks.language import LANGUAGE_MODELS, language_task
from saccade.tasks.language import prepare as prepare_text
from saccade.tasks.translation import Translation, prepare


def names(group: str) -> set[str]:
    return {entry.name for entry in ENTRIES if entry.group == group}


def test_everything_is_listed_and_nothing_else() -> None:
    assert names("task") == set(TASKS)
    for task, kind in TASKS.items():
        assert names(f"model of {task}") == set(kind.models)
    assert names("recipe") == set(RECIPES)
    assert names("data") == {name for kind in TASKS.values() for name in kind.made}


@pytest.mark.parametrize("model", TRANSLATORS)
def test_the_size_of_a_model_is_the_one_listed(model: str) -> None:
    recipe = dates(model)
    few = recipe.with_values(data={"made": "dates", "size": 20_000})
    prepared = prepare(few, lambda what, done, total: None)
    task = Translation(prepared.recipe, prepared.vocabulary)
    millions = sum(p.numel() for p in task.model.parameters()) / 1e6
    listed = next(e.size for e in ENTRIES if e.group == "model of translate" and e.name == model)
    assert f"{millions:.1f} M" == listed


@pytest.mark.parametrize("model", sorted(set(LANGUAGE_MODELS) - {"ngram"}))
def test_the_size_of_a_language_model_is_the_one_listed(model: str) -> None:
    prepared = prepare_text(language(model), lambda what, done, total: None)
    task = language_task(prepared.recipe, prepared.vocabulary)
    millions = sum(tensor.numel() for tensor in task.weights().values()) / 1e6
    listed = next(e.size for e in ENTRIES if e.group == "model of language" and e.name == model)
    assert f"{millions:.{1 if millions > 0.1 else 2}f} M" == listed
