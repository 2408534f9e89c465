"""Warm starts: a new run that keeps the model and the preprocessor of another one."""

from collections.abc import Collection

from saccade.config import Config, build_config, diff_settings
from saccade.errors import ConfigError
from saccade.tasks.base import Recipe
from saccade.tasks.registry import task_spec_for

UNCHECKED_DATA_SETTINGS = ("tokenizer",)  # every recipe has one; that of the other run is kept


def inherit_config(
    recipe: Recipe, other: Recipe, where: str, is_incremental: bool = True
) -> Recipe:
    """Return the recipe with the model of another run, and the data settings that go with it.

    Args:
        recipe: the new recipe; settings that contradict the other run are refused.
        other: the recipe of the run to start from.
        where: folder of that run, for messages.
        is_incremental: whether its model can be trained further.
    """
    transfers = task_spec_for(recipe).transfers
    changeable: tuple[str, ...] = ()
    kept = task_spec_for(other).transferable_data_settings
    if recipe.task != other.task:
        if other.task not in transfers:
            also = "".join(f", or {name}" for name in transfers)
            raise ConfigError(
                f"got weights of the task {other.task} ({where}) for a run of the task "
                f"{recipe.task}; expected the same task{also}."
            )
        kept = transfers[other.task].data_settings
        changeable = transfers[other.task].open_model_settings
    if kept is None or not is_incremental:
        instead = "to put the old and the new data into one file, and train on that"
        if hasattr(recipe.data, "world"):
            instead = "saccade train control --world NAME, which trains from scratch"
        raise ConfigError(
            f"{where}: got {other.model_name}, which is fitted to all of its data together and "
            f"cannot be trained further; try {instead}."
        )
    fields, kept_model = {*type(recipe.model).model_fields}, other.model.model_dump()
    if recipe.task != other.task:  # whose model may have settings of its own
        own = {*transfers[other.task].own_model_settings}
        if recipe.model_name in transfers[other.task].models:
            own.add("name")
        kept_model = {n: v for n, v in kept_model.items() if n in fields - own}
    names = kept_model.keys() - {*changeable}
    if changed := _differences(other.model, recipe.model, names):
        raise ConfigError(
            f"got other settings of the model than those of {where}: {'; '.join(changed)}; try "
            "without them, or train from scratch."
        )
    checked = [name for name in kept if name not in UNCHECKED_DATA_SETTINGS]
    if changed := _differences(other.data, recipe.data, checked):
        raise ConfigError(
            f"got other settings of the data than those of {where}: {'; '.join(changed)}; try "
            "without them, or train from scratch."
        )
    data = recipe.data.model_dump(exclude_unset=True)
    data |= {name: value for name, value in other.data.model_dump().items() if name in kept}
    given = recipe.model.model_dump(exclude_unset=True)
    model = kept_model | {n: v for n, v in given.items() if n not in names}
    return recipe.with_values(model=model, data=data)


def _differences(old: Config, new: Config, names: Collection[str]) -> list[str]:
    """Describe the settings among `names` that are set in `new` and differ from `old`."""
    given = {n: v for n, v in new.model_dump(exclude_unset=True).items() if n in names}
    changed = diff_settings(old, build_config(type(new), given))  # a model always has its name
    return [change for change in changed if "name" in names or not change.startswith("name:")]
