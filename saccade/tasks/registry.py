"""The tasks by name: the one table in which a recipe finds what it is about."""

from typing import Any

from saccade.config import build_config
from saccade.registry import LazyRegistry, lookup
from saccade.tasks.task import TaskSpec

# each is loaded when it is asked for: who looks for word vectors waits for no network
TASKS: LazyRegistry[TaskSpec] = LazyRegistry(
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


def task_spec_for(recipe: Any) -> TaskSpec:
    """What a recipe is about."""
    return TASKS[recipe.task]


def read_recipe(values: dict[str, Any], where: str) -> Any:
    """A recipe from plain values, of whatever task they name."""
    name = values.get("task", "translate")
    kind = lookup(TASKS, name if isinstance(name, str) else str(name), "task")
    return build_config(kind.recipe, values, where)
