"""Starting from what another run has learned: its model, and what it knows of its data, stay."""

from typing import Any

from saccade.config import Config, build_config, diff_settings
from saccade.errors import ConfigError
from saccade.tasks.registry import task_spec_for
from saccade.tasks.task import Recipe


def inherit_config(recipe: Recipe, other: Recipe, where: str, is_trained: bool = True) -> Recipe:
    """The recipe with the model of another run, and the settings of the data that go with it.

    What it asks to be otherwise is refused; a tokenizer is taken over whatever it asks. `where` is
    the other run's folder, and `by_steps` whether the loop has trained it.
    """
    if recipe.task != other.task:
        raise ConfigError(
            f"{where} is a run of the task {other.task}; its weights cannot start one of the task "
            f"{recipe.task}."
        )
    transferable_data_settings = task_spec_for(other).transferable_data_settings
    if transferable_data_settings is None or not is_trained:
        raise ConfigError(
            f"{where}: {other.model.name} learns from all of its data at once, and cannot go on "
            "from weights that are there. Put the old data and the new into one file, and train "
            "on that."
        )
    if changed := _otherwise(other.model, recipe.model, type(recipe.model).model_fields):
        raise ConfigError(
            f"the weights of {where} do not fit these settings of the model: "
            f"{'; '.join(changed)}. Leave them out, or train from the beginning."
        )
    if changed := _otherwise(
        other.data,
        recipe.data,
        [name for name in transferable_data_settings if name not in UNCHECKED_DATA_SETTINGS],
    ):
        raise ConfigError(
            f"{where} has learned with other settings of the data: {'; '.join(changed)}. Leave "
            "them out, or train from the beginning."
        )
    data = recipe.data.model_dump(exclude_unset=True)
    data |= {
        name: value
        for name, value in other.data.model_dump().items()
        if name in transferable_data_settings
    }
    return recipe.with_values(model=other.model.model_dump(), data=data)


UNCHECKED_DATA_SETTINGS = (
    "tokenizer",
)  # a recipe has one for its own data, and nobody asked for it


def _otherwise(old: Config, new: Config, names: Any) -> list[str]:
    """What `new` asks for among these settings, and `old` has otherwise."""
    asked = {n: v for n, v in new.model_dump(exclude_unset=True).items() if n in names}
    return diff_settings(old, build_config(type(new), asked))
