"""What a batch, a loss, a score and an answer mean for one problem: where the knot is tied."""

from saccade.tasks.forecast import Forecast, ForecastRecipe
from saccade.tasks.kinds import TASKS, Kind, kind_of, read_recipe
from saccade.tasks.numbers import Numbers
from saccade.tasks.recipe import Recipe, TranslationRecipe
from saccade.tasks.regression import AttentionFit, KernelFit, Regression, RegressionRecipe
from saccade.tasks.sizing import Choice
from saccade.tasks.task import Fitted, Network, Prepared, Task
from saccade.tasks.translation import Translation

__all__ = [
    "AttentionFit",
    "Choice",
    "Fitted",
    "Forecast",
    "ForecastRecipe",
    "KernelFit",
    "Kind",
    "Network",
    "Numbers",
    "Prepared",
    "Recipe",
    "Regression",
    "RegressionRecipe",
    "TASKS",
    "Task",
    "Translation",
    "TranslationRecipe",
    "kind_of",
    "read_recipe",
]
