"""From what a person typed to a recipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import build, read_toml, set_paths
from saccade.data.synthetic import SYNTHETIC
from saccade.errors import ConfigError
from saccade.lookup import did_you_mean, pick
from saccade.recipes.translation import copy, dates, numbers, reverse, translate
from saccade.tasks import MODELS, Recipe, TranslationRecipe

RECIPES: dict[str, Callable[..., Recipe]] = {
    "copy": copy,
    "dates": dates,
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
    if model is not None:
        pick(MODELS, model, "model")
    if what in RECIPES:
        recipe = RECIPES[what](model) if model else RECIPES[what]()
        open_model = what == "translate" and model is None
    elif what.endswith(".toml"):
        values = read_toml(Path(what))
        if model is not None and values.get("model", {}).get("name") != model:
            values["model"] = {"name": model}
        recipe, open_model = build(TranslationRecipe, values, what), False
    elif data is None and (Path(what).exists() or "," in what):
        recipe, open_model, data = translate(model or "bahdanau"), model is None, what
    else:
        raise ConfigError(
            f"There is no recipe {what!r} and no file of that name.{did_you_mean(what, RECIPES)} "
            f"Recipes: {', '.join(sorted(RECIPES))}. A .toml file or a file of pairs will do too."
        )
    if data is not None:
        is_made = data in SYNTHETIC and not Path(data).exists()
        changes["data.made"], changes["data.path"] = (data, None) if is_made else (None, data)
        if not is_made and "data.size" not in changes:
            changes["data.size"] = None
    recipe = set_paths(recipe, changes)
    if recipe.data.made is None and recipe.data.path is None:
        raise ConfigError(f"{what} needs data: --data pairs.tsv (source TAB target), or a.en,a.de.")
    return Found(recipe, open_model)
