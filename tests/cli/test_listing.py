"""The list says what there is, and its sizes are true."""

import pytest

from saccade.cli.listing import ENTRIES
from saccade.data.synthetic import SYNTHETIC
from saccade.models import TRANSLATORS
from saccade.recipes import RECIPES, dates
from saccade.tasks.translation import Translation, prepare


def names(group: str) -> set[str]:
    return {entry.name for entry in ENTRIES if entry.group == group}


def test_everything_is_listed_and_nothing_else() -> None:
    assert names("model") == set(TRANSLATORS)
    assert names("recipe") == set(RECIPES)
    assert names("data") == set(SYNTHETIC)


@pytest.mark.parametrize("model", TRANSLATORS)
def test_the_size_of_a_model_is_the_one_listed(model: str) -> None:
    recipe = dates(model)
    few = recipe.with_values(data={"made": "dates", "size": 20_000})
    prepared = prepare(few, lambda what, done, total: None)
    task = Translation(prepared.recipe, prepared.vocabulary)
    millions = sum(p.numel() for p in task.model.parameters()) / 1e6
    listed = next(e.size for e in ENTRIES if e.group == "model" and e.name == model)
    assert f"{millions:.1f} M" == listed
