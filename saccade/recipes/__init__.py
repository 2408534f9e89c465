"""Recipes: functions that return settings, and nothing else.

A recipe sets what was tried and found good; what it leaves open follows from the data.
"""

from saccade.recipes.finding import RECIPES, Found, find
from saccade.recipes.forecast import forecast
from saccade.recipes.language import language, ptb, tinyshakespeare
from saccade.recipes.published import (
    fra_eng,
    multi30k_bahdanau,
    multi30k_luong,
    multi30k_seq2seq,
    multi30k_transformer,
)
from saccade.recipes.regression import kernel_regression
from saccade.recipes.translation import copy, dates, numbers, reverse, translate

__all__ = [
    "Found",
    "RECIPES",
    "copy",
    "dates",
    "find",
    "forecast",
    "fra_eng",
    "kernel_regression",
    "language",
    "multi30k_bahdanau",
    "multi30k_luong",
    "multi30k_seq2seq",
    "multi30k_transformer",
    "numbers",
    "ptb",
    "reverse",
    "tinyshakespeare",
    "translate",
]
