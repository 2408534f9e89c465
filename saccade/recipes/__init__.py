"""Recipes: functions that return settings, and nothing else.

A recipe sets what was tried and found good; what it leaves open follows from the data.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import build, read_toml, set_paths
from saccade.data.synthetic import SYNTHETIC
from saccade.errors import ConfigError
from saccade.lookup import did_you_mean, pick
from saccade.tasks import MODELS, Recipe, TranslationRecipe

__all__ = ["RECIPES", "Found", "copy", "dates", "find", "numbers", "reverse", "translate"]


def dates(model: str = "bahdanau") -> Recipe:
    """Days as written in 46 languages → ISO 8601."""
    if model == "transformer":
        train = {"steps": 4000, "learning_rate": 1e-3, "warmup": 400, "evaluate_every": 250}
    else:
        train = {"steps": 700, "learning_rate": 2e-3, "warmup": 100, "evaluate_every": 100}
    return TranslationRecipe(
        data={"made": "dates", "size": 120_000},
        model={"name": model, "width": 128},
        train={**train, "batch_tokens": 2200},
    )


def numbers(model: str = "bahdanau") -> Recipe:
    """Numbers spelt out in 39 languages → digits."""
    return TranslationRecipe(data={"made": "numbers"}, model={"name": model})


def reverse(model: str = "bahdanau") -> Recipe:
    """Short words of made-up letters, backwards."""
    sizes: dict[str, Any] = {"width": 64}
    train: dict[str, Any] = {"steps": 600, "learning_rate": 2e-3}
    if model == "seq2seq":  # the whole word must go through its one context
        sizes = {"width": 128, "cell": "lstm", "dropout": 0.0}
        train = {"steps": 800, "learning_rate": 4e-3}
    elif model == "transformer":
        sizes = {"width": 64, "dropout": 0.0}
        train = {"steps": 600, "learning_rate": 3e-3}
    return TranslationRecipe(data={"made": "reverse"}, model={"name": model, **sizes}, train=train)


def copy(model: str = "bahdanau") -> Recipe:
    """Short words of made-up letters, as they are."""
    return TranslationRecipe(data={"made": "copy"}, model={"name": model, "width": 64})


def translate(model: str = "bahdanau") -> Recipe:
    """A file of sentence pairs of your own (--data): all settings follow from it."""
    return TranslationRecipe(model={"name": model})


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
