"""Resolution of command-line arguments to a recipe."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import build_config, override_settings, read_toml
from saccade.data.records.role_names import TASK_ROLES
from saccade.errors import ConfigError
from saccade.io.run_folder import read_run_settings
from saccade.recipes.control import control_recipe, world_settings
from saccade.recipes.preview import choose_task
from saccade.registry import LazyRegistry, did_you_mean, lookup
from saccade.tasks.base import Recipe
from saccade.tasks.control.data import choose_agent
from saccade.tasks.registry import read_recipe, task_spec_for

RECIPES: LazyRegistry[Callable[..., Recipe]] = LazyRegistry(
    {
        "answer": "saccade.recipes.answering:answer_recipe",
        "bert": "saccade.recipes.bert:bert_recipe",
        "bert-small": "saccade.recipes.bert:bert_small_recipe",
        "caption": "saccade.recipes.image:caption_recipe",
        "cifar-10": "saccade.recipes.image:cifar_10_recipe",
        "classify": "saccade.recipes.word_vectors:classify_recipe",
        "contrastive": "saccade.recipes.image:contrastive_recipe",
        "control": "saccade.recipes.control:control_recipe",
        "copy": "saccade.recipes.translation:copy_recipe",
        "dates": "saccade.recipes.translation:dates_recipe",
        "embed": "saccade.recipes.embedding:embedding_recipe",
        "fashion-mnist": "saccade.recipes.image:fashion_mnist_recipe",
        "forecast": "saccade.recipes.forecast:forecast_recipe",
        "fra-eng": "saccade.recipes.published:fra_eng_recipe",
        "image": "saccade.recipes.image:image_recipe",
        "kernel-regression": "saccade.recipes.kernel_regression:kernel_regression_recipe",
        "language": "saccade.recipes.language:language_recipe",
        "multi30k-bahdanau": "saccade.recipes.published:multi30k_bahdanau_recipe",
        "multi30k-luong": "saccade.recipes.published:multi30k_luong_recipe",
        "multi30k-seq2seq": "saccade.recipes.published:multi30k_seq2seq_recipe",
        "multi30k-transformer": "saccade.recipes.published:multi30k_transformer_recipe",
        "numbers": "saccade.recipes.translation:numbers_recipe",
        "prompt": "saccade.recipes.bert:prompt_recipe",
        "ptb": "saccade.recipes.language:ptb_recipe",
        "reverse": "saccade.recipes.translation:reverse_recipe",
        "table": "saccade.recipes.tables:table_recipe",
        "tag": "saccade.recipes.tagging:tag_recipe",
        "tinyshakespeare": "saccade.recipes.language:tinyshakespeare_recipe",
        "translate": "saccade.recipes.translation:translate_recipe",
        "vectors": "saccade.recipes.word_vectors:vectors_recipe",
    }
)


class ResolvedRecipe(NamedTuple):
    """A recipe; `auto_model` if the model is to be chosen from the data as well."""

    recipe: Recipe
    auto_model: bool = False
    notes: tuple[str, ...] = ()  # for the user: why this task


def task_of(what: str | Recipe) -> str:
    """Return the task of a recipe, given as such, by name or as a .toml file."""
    if isinstance(what, Recipe):
        return what.task
    return named_recipe(what).task


def named_recipe(what: str, model: str | None = None) -> Recipe:
    """Return a recipe by its name or file, for one of its task's models; no data is needed."""
    if what.endswith(".toml"):
        values = read_toml(Path(what))
        if model is not None and values.get("model", {}).get("name") != model:
            values["model"] = {"name": model}
        return read_recipe(values, what)
    make = lookup(RECIPES, what, "recipe")
    if model is None:
        return make()
    lookup(task_spec_for(make()).models, model, "model")
    return make(model)


def resolve_recipe(
    what: str | Recipe,
    *,
    data: str | None = None,
    model: str | None = None,
    changes: dict[str, Any] | None = None,
    init_from: Path | None = None,
) -> ResolvedRecipe:
    """Return the recipe for a recipe name, a .toml file or a data file.

    Args:
        what: name of a recipe, path of a .toml file, path of a data file, or a recipe. The task
            of a data file follows from the columns that `changes` names and from its contents.
        data: a data file, two parallel files with a comma, or the name of a dataset.
        model: name of a model of the task.
        changes: settings by dotted path.
        init_from: run whose weights are the start; unless a model is named, its model is taken.
    """
    changes = dict(changes or {})
    model = model or changes.get("model.name")
    notes: tuple[str, ...] = ()
    if isinstance(what, Recipe):
        recipe, auto_model = what, False
        if model is not None and model != what.model_name:
            lookup(task_spec_for(what).models, model, "model")
            recipe = what.with_values(model={"name": model})
    elif what in RECIPES or what.endswith(".toml"):
        if what == "control" and model is None:
            model, notes = _choose_agent(data, changes)
        if init_from is not None and model is None and what in RECIPES:
            recipe, model = _recipe_to_initialise(what, init_from)
        else:
            recipe = named_recipe(what, model)
        auto_model = what in ("classify", "translate") and model is None
    elif data is None and (Path(what).exists() or "," in what):
        name, reason = choose_task(what, changes)
        notes = (f"{what}: the task is {name}: {reason}.",)
        if init_from is not None and model is None:
            recipe, model = _recipe_to_initialise(name, init_from)
        else:
            recipe = named_recipe(name, model)
        auto_model, data = name == "translate" and model is None, what
    elif data is not None and Path(what).exists():
        raise ConfigError(_two_files(what, data))
    else:
        raise ConfigError(
            f"There is no recipe {what!r} and no file of that name.{did_you_mean(what, RECIPES)} "
            f"Give a recipe ({', '.join(sorted(RECIPES))}), a .toml file or a data file."
        )
    if data is not None:
        changes = _reset_for(recipe, data) | changes | _data_source(recipe, data)
    if isinstance(what, str) and not what.endswith(".toml"):
        recipe = _with_open_length(recipe, changes)
    if what == "control":
        own = world_settings(data or changes.get("data.world"), recipe.model_name)
        changes = own | changes
        if own:
            notes += (f"{recipe.model_name} has other settings in this environment (run.toml).",)
    recipe = override_settings(recipe, changes)
    if all(getattr(recipe.data, name, None) is None for name in DATA_SOURCES):
        expected = "pairs.tsv (source TAB target), or a.en,a.de"
        if recipe.task != "translate":
            expected = f"FILE, or built-in data: {', '.join(task_spec_for(recipe).synthetic)}"
        name = recipe.task if isinstance(what, Recipe) else what
        raise ConfigError(f"{name} needs data: --data {expected}.")
    _refuse_columns_without_file(recipe, changes)
    return ResolvedRecipe(recipe, auto_model, notes)


def _choose_agent(
    data: str | None, changes: Mapping[str, Any]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the model for an environment that is given, and a note with the reason."""
    given = {name: value for name, value in changes.items() if name.startswith("data.")}
    if data is not None:
        given["data.world"] = data
    if given.get("data.world") is None:
        return None, ()
    config = override_settings(control_recipe(), given).data
    model, reason = choose_agent(config)
    return model, (f"{config.world}: the model is {model}: {reason}.",)


def _recipe_to_initialise(name: str, folder: Path) -> tuple[Recipe, str | None]:
    """Return a recipe for the model of a run, and its name; None if the run has another task.

    Settings that follow from the run are unset, so that only those that the user gives can
    contradict it.
    """
    recipe = named_recipe(name)
    other = read_recipe(read_run_settings(folder)["recipe"], str(folder / "run.toml"))
    spec = task_spec_for(recipe)
    transfer = spec.transfers.get(other.task)
    if other.task != recipe.task and transfer is None:
        return recipe, None  # refused, with the reason, when the weights are read
    is_own = transfer is not None and recipe.model_name in transfer.models
    model = recipe.model_name if is_own else other.model_name
    recipe = named_recipe(name, model)
    inherited = spec.transferable_data_settings if transfer is None else transfer.data_settings
    inherited = inherited or ()
    data = _without(recipe.data.model_dump(exclude_unset=True), tuple(inherited))
    return recipe.with_values(model={"name": model}, data=data), model


def _two_files(first: str, second: str) -> str:
    """Return the message for a file where a task is expected."""
    if second in RECIPES:
        return (
            f"got the file {first} before the task {second}; expected the task first; try saccade "
            f"train {second} {first}"
        )
    return (
        f"got the files {first} and {second}; expected a task and a file, or two parallel files "
        f"with a comma between; try saccade train TASK {first}, or saccade train {first},{second}"
    )


def _refuse_columns_without_file(recipe: Recipe, changes: Mapping[str, Any]) -> None:
    """Raise a ConfigError if columns are named of data that has none; built-in tables have some."""
    named = [
        f"--{role.name} {column}"
        for role in TASK_ROLES.get(recipe.task, ())
        if (column := changes.get(f"data.{role.name}")) is not None
    ]
    if named and getattr(recipe.data, "path", None) is None and recipe.task != "table":
        raise ConfigError(
            f"got {', '.join(named)}; expected a file with columns; {recipe.data_name} has none."
        )


# data settings that hold only for the data of the original run, and those of decoding lengths
DATA_SPECIFIC_SETTINGS = ("dev", "test", "direction", "size")
TASK_SPECIFIC_SETTINGS = {"translate": ("max_new_tokens",)}
# one step per row at a constant learning rate
ONLINE_SETTINGS = {
    "online": True,
    "batch_tokens": 1,
    "accumulate_steps": 1,
    "warmup": 0,
    "schedule": "constant",
}
LENGTH_SETTINGS = ("steps", "warmup", "evaluate_every")  # shares of a time budget
EPOCH_SETTINGS = ("steps", "evaluate_every", "patience", "minutes")


def resolve_finetune_recipe(
    folder: Path, data: str, *, changes: dict[str, Any] | None = None, online: bool = False
) -> Recipe:
    """Return the recipe of a run for new data; with `online`, one step per row."""
    values = read_run_settings(folder)["recipe"]
    recipe = read_recipe(values, str(folder / "run.toml"))
    task_settings = TASK_SPECIFIC_SETTINGS.get(recipe.task, ())
    reset = (*DATA_SOURCES, *DATA_SPECIFIC_SETTINGS, *task_settings)
    values["data"] = _without(values["data"], reset)
    if "online" in type(recipe.train).model_fields:
        values["train"] = _without(values["train"], ("online",))
        if online:
            values["train"] = _without(values["train"], EPOCH_SETTINGS) | ONLINE_SETTINGS
    elif online:
        raise ConfigError(
            f"{folder}: got a run of the task {recipe.task}; --online needs a table. Without "
            "--online it is fine-tuned on the whole file."
        )
    fresh = _with_open_length(read_recipe(values, str(folder / "run.toml")), changes or {})
    return override_settings(fresh, (changes or {}) | _data_source(fresh, data))


def _with_open_length(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    """Return the recipe without the length it has been given, if `changes` have a time budget."""
    if changes.get("train.minutes") is None:
        return recipe
    values = recipe.model_dump(exclude_unset=True)
    values["train"] = _without(values.get("train", {}), LENGTH_SETTINGS)
    return build_config(type(recipe), values)


def _without(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


DATA_SOURCES = ("synthetic", "dataset", "path", "world")


def _data_source(recipe: Recipe, data: str) -> dict[str, Any]:
    """Return the settings of the data source: one of them set, the others None."""
    kind = "path"
    if hasattr(recipe.data, "world"):
        kind = "world"
    elif not Path(data).exists():  # an existing file takes precedence
        if data in task_spec_for(recipe).synthetic:
            kind = "synthetic"
        elif data in task_spec_for(recipe).datasets:
            kind = "dataset"
    sources = dict.fromkeys(DATA_SOURCES) | {kind: data}
    return {f"data.{name}": sources[name] for name in DATA_SOURCES if hasattr(recipe.data, name)}


def _reset_for(recipe: Recipe, data: str) -> dict[str, Any]:
    """Return overrides that unset what the recipe sets for its own data only."""
    reset = {"direction"} if data != getattr(recipe.data, "dataset", None) else set()
    reset |= {"size"} if _data_source(recipe, data).get("data.synthetic") is None else set()
    return {f"data.{name}": None for name in sorted(reset) if hasattr(recipe.data, name)}
