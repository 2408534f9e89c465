"""Recipes for what is learned from words alone."""

from saccade.tasks.classify import ClassifyRecipe
from saccade.tasks.vectors import VectorsRecipe


def vectors_recipe(model: str = "skipgram") -> VectorsRecipe:
    """A text of your own (--data), or the Python reference: a vector for each of its words."""
    return VectorsRecipe(data={"synthetic": "python"}, model={"name": model})


def classify_recipe(model: str = "fasttext") -> ClassifyRecipe:
    """Texts of your own (--data label TAB text), or days in 46 languages: which is it?"""
    return ClassifyRecipe(data={"synthetic": "languages"}, model={"name": model})
