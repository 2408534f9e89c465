"""What a batch, a loss, a score and an answer mean for one problem: where the knot is tied."""

from saccade.tasks.kinds import TASKS, Kind, kind_of, read_recipe
from saccade.tasks.recipe import Recipe, TranslationRecipe
from saccade.tasks.sizing import Choice
from saccade.tasks.task import Fitted, Network, Prepared, Task
from saccade.tasks.translation import Prediction, Translation

__all__ = [
    "Choice",
    "Fitted",
    "Kind",
    "Network",
    "Prediction",
    "Prepared",
    "Recipe",
    "TASKS",
    "Task",
    "Translation",
    "TranslationRecipe",
    "kind_of",
    "read_recipe",
]
