"""From what a person typed to a recipe."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import override_settings, read_toml
from saccade.errors import ConfigError
from saccade.io.run_folder import read_run_settings
from saccade.registry import LazyRegistry, did_you_mean, lookup
from saccade.tasks.registry import TASKS, read_recipe, task_spec_for
from saccade.tasks.task import Recipe

RECIPES: LazyRegistry[Callable[..., Recipe]] = LazyRegistry(
    {
        "classify": "saccade.recipes.word_vectors:classify_recipe",
        "copy": "saccade.recipes.translation:copy_recipe",
        "dates": "saccade.recipes.translation:dates_recipe",
        "forecast": "saccade.recipes.forecast:forecast_recipe",
        "fra-eng": "saccade.recipes.published:fra_eng_recipe",
        "kernel-regression": "saccade.recipes.kernel_regression:kernel_regression_recipe",
        "language": "saccade.recipes.language:language_recipe",
        "multi30k-bahdanau": "saccade.recipes.published:multi30k_bahdanau_recipe",
        "multi30k-luong": "saccade.recipes.published:multi30k_luong_recipe",
        "multi30k-seq2seq": "saccade.recipes.published:multi30k_seq2seq_recipe",
        "multi30k-transformer": "saccade.recipes.published:multi30k_transformer_recipe",
        "numbers": "saccade.recipes.translation:numbers_recipe",
        "ptb": "saccade.recipes.language:ptb_recipe",
        "reverse": "saccade.recipes.translation:reverse_recipe",
        "table": "saccade.recipes.tables:table_recipe",
        "tinyshakespeare": "saccade.recipes.language:tinyshakespeare_recipe",
        "translate": "saccade.recipes.translation:translate_recipe",
        "vectors": "saccade.recipes.word_vectors:vectors_recipe",
    }
)


class ResolvedRecipe(NamedTuple):
    """A recipe, and whether the model, too, is left for the data to choose."""

    recipe: Recipe
    auto_model: bool = False


def resolve_recipe(
    what: str,
    *,
    data: str | None = None,
    model: str | None = None,
    changes: dict[str, Any] | None = None,
) -> ResolvedRecipe:
    """The recipe that a person means: a recipe's name, a .toml file, or a file of pairs.

    A file with a "data.target" among the `changes` is a table.
    `data` is a file of pairs, two of them with a comma, or the name of a made or a published set;
    `changes` are settings by dotted path.
    """
    changes = dict(changes or {})
    model = model or changes.get("model.name")
    if what in RECIPES:
        if model is not None:
            lookup(task_spec_for(RECIPES[what]()).models, model, "model")
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
            lookup(TASKS[name].models, model, "model")
        recipe = RECIPES[name](model) if model else RECIPES[name]()
        open_model, data = name == "translate" and model is None, what
    else:
        raise ConfigError(
            f"There is no recipe {what!r} and no file of that name.{did_you_mean(what, RECIPES)} "
            f"Recipes: {', '.join(sorted(RECIPES))}. A .toml file or a file of pairs will do too."
        )
    if data is not None:
        changes = _freed(recipe, data) | changes | _placed(recipe, data)
    recipe = override_settings(recipe, changes)
    if all(getattr(recipe.data, place, None) is None for place in DATA_SOURCES):
        wanted = "pairs.tsv (source TAB target), or a.en,a.de"
        if recipe.task != "translate":
            wanted = f"FILE, or what is always there: {', '.join(task_spec_for(recipe).synthetic)}"
        raise ConfigError(f"{what} needs data: --data {wanted}.")
    return ResolvedRecipe(recipe, open_model)


# what settings of the data say about that data alone; a translator's answers are as long as it asks
DATA_SPECIFIC_SETTINGS = ("dev", "test", "direction", "size")
ANSWER_SETTINGS = {"translate": ("max_new_tokens",)}
# each row is a step of its own, and the last is learned from as the first was
ONLINE_SETTINGS = {
    "online": True,
    "batch_tokens": 1,
    "accumulate_steps": 1,
    "warmup": 0,
    "schedule": "constant",
}
EPOCH_SETTINGS = ("steps", "evaluate_every", "patience", "minutes")


def resolve_finetune_recipe(
    folder: Path, data: str, *, changes: dict[str, Any] | None = None, online: bool = False
) -> Recipe:
    """The recipe of a run that is there, for other data; `online`, row after row."""
    values = read_run_settings(folder)["recipe"]
    recipe = read_recipe(values, str(folder / "run.toml"))
    freed = (*DATA_SOURCES, *DATA_SPECIFIC_SETTINGS, *ANSWER_SETTINGS.get(recipe.task, ()))
    values["data"] = _without(values["data"], freed)
    if "online" in type(recipe.train).model_fields:
        values["train"] = _without(values["train"], ("online",))
        if online:
            values["train"] = _without(values["train"], EPOCH_SETTINGS) | ONLINE_SETTINGS
    elif online:
        raise ConfigError(
            f"{folder} is a run of the task {recipe.task}, which has no rows to answer one by one; "
            "a table has. Leave --online out to go on with all of the file at once."
        )
    fresh = read_recipe(values, str(folder / "run.toml"))
    return override_settings(fresh, (changes or {}) | _placed(fresh, data))


def check_exclusive(finetune_on: object, online: bool, given: Mapping[str, object]) -> None:
    """Say what cannot be asked for together with going on, or without it."""
    if online and finetune_on is None:
        raise ConfigError(
            "to learn online is to go on from a run, row after row of a table: saccade train RUN "
            "--on FILE --online."
        )
    beside = [name for name, value in given.items() if value is not None]
    if finetune_on is not None and beside:
        raise ConfigError(
            f"to go on from a run takes its model, and other data; {' and '.join(beside)} cannot "
            "be given beside that: saccade train RUN --on FILE."
        )


def _without(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


DATA_SOURCES = ("synthetic", "dataset", "path")


def _placed(recipe: Recipe, data: str) -> dict[str, Any]:
    """Where the data is, as settings: one of the places, and none of the others."""
    place = "path"
    if not Path(data).exists():  # else the file is meant
        if data in task_spec_for(recipe).synthetic:
            place = "synthetic"
        elif data in task_spec_for(recipe).datasets:
            place = "dataset"
    every = dict.fromkeys(DATA_SOURCES) | {place: data}
    return {f"data.{name}": every[name] for name in DATA_SOURCES if hasattr(recipe.data, name)}


def _freed(recipe: Recipe, data: str) -> dict[str, Any]:
    """What a recipe says about its own data says nothing about other data."""
    freed = {"direction"} if data != getattr(recipe.data, "dataset", None) else set()
    freed |= {"size"} if _placed(recipe, data)["data.synthetic"] is None else set()
    return {f"data.{name}": None for name in sorted(freed) if hasattr(recipe.data, name)}
