"""From what a person typed to a recipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import read_toml, set_paths
from saccade.errors import ConfigError
from saccade.lookup import did_you_mean, pick
from saccade.recipes.forecast import forecast
from saccade.recipes.language import language
from saccade.recipes.regression import kernel_regression
from saccade.recipes.translation import copy, dates, numbers, reverse, translate
from saccade.tasks import TASKS, Recipe, kind_of, read_recipe

RECIPES: dict[str, Callable[..., Recipe]] = {
    "copy": copy,
    "dates": dates,
    "forecast": forecast,
    "kernel-regression": kernel_regression,
    "language": language,
    "numbers": numbers,
    "reverse": reverse,
    "translate": translate,
}


class Found(NamedTuple):
    """A recipe, and whether the model, too, is left for the data to choose."""

    recipe: Recipe
    name_model: bool = False


def find(
    what: str,
    *,
    data: str | None = None,
    model: str | None = None,
    changes: dict[str, Any] | None = None,
) -> Found:
    """The recipe that a person means: a recipe's name, a .toml file, or a file of pairs.

    `data` is a file of pairs, two of them with a comma, or the name of a made set; `changes` are
    settings by dotted path.
    """
    changes = dict(changes or {})
    model = model or changes.get("model.name")
    if what in RECIPES:
        if model is not None:
            pick(kind_of(RECIPES[what]()).models, model, "model")
        recipe = RECIPES[what](model) if model else RECIPES[what]()
        open_model = what == "translate" and model is None
    elif what.endswith(".toml"):
        values = read_toml(Path(what))
        if model is not None and values.get("model", {}).get("name") != model:
            values["model"] = {"name": model}
        recipe, open_model = read_recipe(values, what), False
    elif data is None and (Path(what).exists() or "," in what):
        if model is not None:
            pick(TASKS["translate"].models, model, "model")
        recipe, open_model, data = translate(model or "bahdanau"), model is None, what
    else:
        raise ConfigError(
            f"There is no recipe {what!r} and no file of that name.{did_you_mean(what, RECIPES)} "
            f"Recipes: {', '.join(sorted(RECIPES))}. A .toml file or a file of pairs will do too."
        )
    if data is not None:
        is_made = data in kind_of(recipe).made and not Path(data).exists()
        changes["data.made"], changes["data.path"] = (data, None) if is_made else (None, data)
        if not is_made and "data.size" not in changes and hasattr(recipe.data, "size"):
            changes["data.size"] = None
    recipe = set_paths(recipe, changes)
    if recipe.data.made is None and recipe.data.path is None:
        wanted = "pairs.tsv (source TAB target), or a.en,a.de"
        if recipe.task != "translate":
            wanted = f"FILE, or what is always there: {', '.join(kind_of(recipe).made)}"
        raise ConfigError(f"{what} needs data: --data {wanted}.")
    return Found(recipe, open_model)
