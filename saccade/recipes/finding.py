"""From what a person typed to a recipe."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import read_toml, set_paths
from saccade.errors import ConfigError
from saccade.folder import read_settings
from saccade.lookup import Loaded, did_you_mean, pick
from saccade.tasks.kinds import TASKS, kind_of, read_recipe
from saccade.tasks.task import Recipe

RECIPES: Loaded[Callable[..., Recipe]] = Loaded(
    {
        "classify": "saccade.recipes.words:classify",
        "copy": "saccade.recipes.translation:copy",
        "dates": "saccade.recipes.translation:dates",
        "forecast": "saccade.recipes.forecast:forecast",
        "fra-eng": "saccade.recipes.published:fra_eng",
        "kernel-regression": "saccade.recipes.regression:kernel_regression",
        "language": "saccade.recipes.language:language",
        "multi30k-bahdanau": "saccade.recipes.published:multi30k_bahdanau",
        "multi30k-luong": "saccade.recipes.published:multi30k_luong",
        "multi30k-seq2seq": "saccade.recipes.published:multi30k_seq2seq",
        "multi30k-transformer": "saccade.recipes.published:multi30k_transformer",
        "numbers": "saccade.recipes.translation:numbers",
        "ptb": "saccade.recipes.language:ptb",
        "reverse": "saccade.recipes.translation:reverse",
        "table": "saccade.recipes.tables:table",
        "tinyshakespeare": "saccade.recipes.language:tinyshakespeare",
        "translate": "saccade.recipes.translation:translate",
        "vectors": "saccade.recipes.words:vectors",
    }
)


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

    A file with a "data.target" among the `changes` is a table.
    `data` is a file of pairs, two of them with a comma, or the name of a made or a published set;
    `changes` are settings by dotted path.
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
        name = "table" if changes.get("data.target") else "translate"
        if model is not None:
            pick(TASKS[name].models, model, "model")
        recipe = RECIPES[name](model) if model else RECIPES[name]()
        open_model, data = name == "translate" and model is None, what
    else:
        raise ConfigError(
            f"There is no recipe {what!r} and no file of that name.{did_you_mean(what, RECIPES)} "
            f"Recipes: {', '.join(sorted(RECIPES))}. A .toml file or a file of pairs will do too."
        )
    if data is not None:
        changes = _freed(recipe, data) | changes | _placed(recipe, data)
    recipe = set_paths(recipe, changes)
    if all(getattr(recipe.data, place, None) is None for place in PLACES):
        wanted = "pairs.tsv (source TAB target), or a.en,a.de"
        if recipe.task != "translate":
            wanted = f"FILE, or what is always there: {', '.join(kind_of(recipe).made)}"
        raise ConfigError(f"{what} needs data: --data {wanted}.")
    return Found(recipe, open_model)


# what settings of the data say about that data alone; a translator's answers are as long as it asks
OF_ITS_DATA = ("dev", "test", "direction", "size")
OF_ITS_ANSWERS = {"translate": ("longest_answer",)}
# each row is a step of its own, and the last is learned from as the first was
ONLINE = {"online": True, "batch_tokens": 1, "accumulate": 1, "warmup": 0, "decay": "constant"}
OF_MANY_ROUNDS = ("steps", "evaluate_every", "patience", "minutes")


def find_on(
    folder: Path, data: str, *, changes: dict[str, Any] | None = None, online: bool = False
) -> Recipe:
    """The recipe of a run that is there, for other data; `online`, row after row."""
    values = read_settings(folder)["recipe"]
    recipe = read_recipe(values, str(folder / "run.toml"))
    freed = (*PLACES, *OF_ITS_DATA, *OF_ITS_ANSWERS.get(recipe.task, ()))
    values["data"] = _without(values["data"], freed)
    if "online" in type(recipe.train).model_fields:
        values["train"] = _without(values["train"], ("online",))
        if online:
            values["train"] = _without(values["train"], OF_MANY_ROUNDS) | ONLINE
    elif online:
        raise ConfigError(
            f"{folder} is a run of the task {recipe.task}, which has no rows to answer one by one; "
            "a table has. Leave --online out to go on with all of the file at once."
        )
    fresh = read_recipe(values, str(folder / "run.toml"))
    return set_paths(fresh, (changes or {}) | _placed(fresh, data))


def refuse_beside(on: object, online: bool, given: Mapping[str, object]) -> None:
    """Say what cannot be asked for together with going on, or without it."""
    if online and on is None:
        raise ConfigError(
            "to learn online is to go on from a run, row after row of a table: saccade train RUN "
            "--on FILE --online."
        )
    beside = [name for name, value in given.items() if value is not None]
    if on is not None and beside:
        raise ConfigError(
            f"to go on from a run takes its model, and other data; {' and '.join(beside)} cannot "
            "be given beside that: saccade train RUN --on FILE."
        )


def _without(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


PLACES = ("made", "published", "path")


def _placed(recipe: Recipe, data: str) -> dict[str, Any]:
    """Where the data is, as settings: one of the places, and none of the others."""
    place = "path"
    if not Path(data).exists():  # else the file is meant
        if data in kind_of(recipe).made:
            place = "made"
        elif data in kind_of(recipe).published:
            place = "published"
    every = dict.fromkeys(PLACES) | {place: data}
    return {f"data.{name}": every[name] for name in PLACES if hasattr(recipe.data, name)}


def _freed(recipe: Recipe, data: str) -> dict[str, Any]:
    """What a recipe says about its own data says nothing about other data."""
    freed = {"direction"} if data != getattr(recipe.data, "published", None) else set()
    freed |= {"size"} if _placed(recipe, data)["data.made"] is None else set()
    return {f"data.{name}": None for name in sorted(freed) if hasattr(recipe.data, name)}
