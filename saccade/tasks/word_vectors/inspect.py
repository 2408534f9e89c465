"""Word map and checks of word vectors."""

from collections.abc import Mapping

import numpy as np

from saccade.data.text.word_corpus import WordVocabulary
from saccade.inspection.checks import CheckResult
from saccade.inspection.figures import Figure, WordMap
from saccade.tasks.base import Inspector
from saccade.tasks.word_vectors.config import VectorsRecipe
from saccade.tasks.word_vectors.data import WordSplit
from saccade.tasks.word_vectors.lookup import WordVectorModel


class WordVectorInspector(Inspector[WordSplit]):
    """Shows frequent words on a map."""

    def __init__(self, recipe: VectorsRecipe, model: WordVectorModel, vocabulary: WordVocabulary):
        self.model, self.vocabulary = model, vocabulary

    def example_input(self, split: WordSplit) -> str:
        """Return a word of medium frequency."""
        words = [w for w in self.vocabulary.words[100:2000] if w.isalpha() and len(w) > 3]
        return words[0] if words else self.vocabulary.words[0]

    def figures(self, splits: Mapping[str, WordSplit]) -> dict[str, Figure]:
        """Return a map of frequent words that are not the most frequent of all."""
        words = [word for word in self.vocabulary.words[100:400] if word.isalpha()][:40]
        if len(words) <= 2:
            return {}
        return {"words.png": WordMap(words, self.model.unit_vectors_of(words))}

    def compare_reloaded(self, other: WordVectorModel, split: WordSplit, count: int) -> CheckResult:
        """Check that the reloaded vectors are the same."""
        difference = float(np.abs(self.model.unit_vectors - other.unit_vectors).max())
        return CheckResult("reload consistency", len(self.vocabulary.words), difference, 0.0)
