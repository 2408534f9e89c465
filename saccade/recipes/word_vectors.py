"""Recipes for word vectors and text classification."""

from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.word_vectors.config import VectorsRecipe


def vectors_recipe(model: str = "skipgram") -> VectorsRecipe:
    """Word vectors of your own text (--data) or of the Python reference."""
    return VectorsRecipe(data={"synthetic": "python"}, model={"name": model})


def classify_recipe(model: str = "ngrams") -> ClassifyRecipe:
    """Classify your own texts (--data, label TAB text), or the language of dates."""
    return ClassifyRecipe(data={"synthetic": "languages"}, model={"name": model})
