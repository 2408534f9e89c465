"""The tasks by name: the one table in which a recipe finds what it is about."""

from typing import Any

from saccade.config import build
from saccade.lookup import Loaded, pick
from saccade.tasks.task import Kind

# each is loaded when it is asked for: who looks for word vectors waits for no network
TASKS: Loaded[Kind] = Loaded(
    {
        "classify": "saccade.tasks.classify:CLASSIFY",
        "forecast": "saccade.tasks.forecast:FORECAST",
        "kernel-regression": "saccade.tasks.regression:REGRESSION",
        "language": "saccade.tasks.language:LANGUAGE",
        "table": "saccade.tasks.online:TABLE",
        "translate": "saccade.tasks.translation:TRANSLATE",
        "vectors": "saccade.tasks.vectors:VECTORS",
    }
)


def kind_of(recipe: Any) -> Kind:
    """What a recipe is about."""
    return TASKS[recipe.task]


def read_recipe(values: dict[str, Any], where: str) -> Any:
    """A recipe from plain values, of whatever task they name."""
    name = values.get("task", "translate")
    kind = pick(TASKS, name if isinstance(name, str) else str(name), "task")
    return build(kind.recipe, values, where)
