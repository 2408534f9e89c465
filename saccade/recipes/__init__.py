"""Recipes: functions that return settings, and nothing else.

A recipe sets what was tried and found good; what it leaves open follows from the data.
"""

from saccade.recipes.finding import RECIPES, Found, find
from saccade.recipes.forecast import forecast
from saccade.recipes.language import language
from saccade.recipes.regression import kernel_regression
from saccade.recipes.translation import copy, dates, numbers, reverse, translate

__all__ = [
    "Found",
    "RECIPES",
    "copy",
    "dates",
    "find",
    "forecast",
    "kernel_regression",
    "language",
    "numbers",
    "reverse",
    "translate",
]
