"""The classifier with its n-gram buckets, and its fit."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.word_corpus import WordIndex
from saccade.estimators.fasttext_classifier import (
    FastTextClassifier,
    LabelledBags,
    concat_bags,
    word_ngram_buckets,
)
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.data import EncodedTexts, LabelVocabulary
from saccade.training.estimator import FitContext
from saccade.types.bags import Bags


class TextClassifier:
    """fastText's classifier: rows for words, for every text, and for the n-grams of training."""

    def __init__(self, recipe: ClassifyRecipe, vocabulary: LabelVocabulary):
        self.config, self.seed = recipe.model, recipe.train.seed
        self.vocabulary = vocabulary
        self.index = WordIndex(vocabulary.words)
        self.used = np.empty(0, np.int64)  # n-gram buckets that have a row
        self.classifier: FastTextClassifier | None = None

    def initialise(self, train: EncodedTexts) -> FastTextClassifier:
        """Initialise the rows for the words and n-grams of the training texts."""
        if self.config.word_ngrams > 1:
            _, buckets = word_ngram_buckets(
                train.words.rows, train.words.starts, self.config.word_ngrams, self.config.buckets
            )
            self.used = np.unique(buckets)
        self.classifier = self._make()
        return self.classifier

    def _make(self) -> FastTextClassifier:
        rows = len(self.vocabulary.words) + 1 + len(self.used)
        counts = np.array(self.vocabulary.met, np.int64)
        return FastTextClassifier(self.config, rows, counts, self.seed)

    def predict_proba(self, words: Bags) -> NDArray[np.float32]:
        """Return (N, labels): the probability of each label."""
        assert self.classifier is not None
        return self.classifier.predict_proba(self.rows(words))

    def rows(self, words: Bags) -> Bags:
        """Return the rows of texts: of their words, of every text, and of their known n-grams.

        fastText too has a row for the end of a line, which holds the prior of the labels.
        """
        size = len(words.starts) - 1
        end = np.full(size, len(self.vocabulary.words), np.int32)
        with_end = concat_bags(words, Bags(np.arange(size + 1), end))
        if self.config.word_ngrams == 1:
            return with_end
        ends, buckets = word_ngram_buckets(
            words.rows, words.starts, self.config.word_ngrams, self.config.buckets
        )
        positions = np.searchsorted(self.used, buckets)
        known = positions < len(self.used)
        known[known] = self.used[positions[known]] == buckets[known]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])
        ngrams = (len(self.vocabulary.words) + 1 + positions[known]).astype(np.int32)
        return concat_bags(with_end, Bags(before[ends], ngrams))

    def state_dict(self) -> dict[str, Any]:
        """Return the input and output rows, and which buckets have one."""
        assert self.classifier is not None
        return {
            "inputs": self.classifier.inputs,
            "outputs": self.classifier.outputs,
            "used": self.used,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the rows."""
        self.used = state["used"]
        self.classifier = self._make()
        for name in ("inputs", "outputs"):
            got, expected = state[name].shape, getattr(self.classifier, name).shape
            if got != expected:
                raise RuntimeError(f"got {name} of shape {got}; expected {expected}")
            setattr(self.classifier, name, state[name])


class ClassifierFit:
    """Estimator: stochastic gradient descent, text by text, epoch after epoch."""

    is_resumable = True

    def __init__(
        self,
        recipe: ClassifyRecipe,
        model: TextClassifier,
        vocabulary: LabelVocabulary,
        splits: Mapping[str, EncodedTexts],
    ):
        self.model, self.train = model, splits["train"]

    def fit(self, context: FitContext) -> None:
        """Fit the classifier, resuming from a checkpoint if there is one."""
        context.on_progress("finding n-grams", 0, None)
        if context.resume_state is not None:
            self.model.load_state_dict(context.resume_state)
        else:
            self.model.initialise(self.train)
        classifier = self.model.classifier
        assert classifier is not None
        size = len(self.train.words.starts) - 1
        blocks = classifier.blocks(size)
        on_progress = self._reporter(context, size, context.start_block / blocks)
        labelled = LabelledBags(*self.model.rows(self.train.words), *self.train.labels)

        def fit_blocks(start: int, stop: Callable[[], bool]) -> int:
            return classifier.fit_blocks(
                labelled, threads=context.threads, on_progress=on_progress, stop=stop, start=start
            )

        context.run_blocks(blocks, fit_blocks, self.model.state_dict)

    def _reporter(
        self, context: FitContext, size: int, share: float
    ) -> Callable[[int, float], None]:
        """Return a callback that shows progress and logs the training loss twenty times."""
        epochs = self.model.config.epochs
        total, loss_sum, since = size * epochs, 0.0, 0
        done = round(share * total)

        def report(count: int, loss: float) -> None:
            nonlocal done, loss_sum, since
            done, loss_sum, since = min(done + count, total), loss_sum + loss, since + count
            epoch = min(done // size + 1, epochs)
            what = f"epoch {epoch} of {epochs}  loss {loss_sum / since:.4f}"
            context.on_progress(what, done, total)
            if since >= total / 20:
                context.log_metrics({"loss": loss_sum / since})
                loss_sum, since = 0.0, 0

        return report
