"""Recipes for what is learned from words alone."""

from saccade.tasks.classify import ClassifyRecipe
from saccade.tasks.vectors import VectorsRecipe


def vectors(model: str = "skipgram") -> VectorsRecipe:
    """A text of your own (--data), or the Python reference: a vector for each of its words."""
    return VectorsRecipe(data={"made": "python"}, model={"name": model})


def classify(model: str = "fasttext") -> ClassifyRecipe:
    """Texts of your own (--data label TAB text), or days in 46 languages: which is it?"""
    return ClassifyRecipe(data={"made": "languages"}, model={"name": model})
