"""What a batch, a loss, a score and an answer mean for one problem: where the knot is tied."""

from saccade.tasks.recipe import Recipe, TranslationRecipe
from saccade.tasks.sizing import Choice
from saccade.tasks.translation import MODELS, Prediction, Prepared, Translation, prepare

__all__ = [
    "Choice",
    "MODELS",
    "Prediction",
    "Prepared",
    "Recipe",
    "Translation",
    "TranslationRecipe",
    "prepare",
]
