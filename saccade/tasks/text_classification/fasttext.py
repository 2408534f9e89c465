"""fastText's classifier with its n-gram buckets as a model of the task. Does not import torch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.fasttext_classifier import (
    FastTextClassifier,
    LabelledBags,
    concat_bags,
    word_ngram_buckets,
)
from saccade.estimators.text_classifiers.config import FastTextClassifierConfig
from saccade.tasks.text_classification.components import keep_calibration, make_components
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.scorer import (
    Calibration,
    LabelScorer,
    LinearTerms,
    read_calibration,
)
from saccade.tasks.text_classification.texts import (
    LabelVocabulary,
    TextSplit,
    WordEncoder,
    known_rows,
    label_weights,
)
from saccade.training.estimator import FitContext
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.bags import Bags


class FastTextModel:
    """fastText's classifier: rows for words, for every text, and for the n-grams of training."""

    def __init__(self, recipe: ClassifyRecipe, vocabulary: LabelVocabulary):
        assert isinstance(recipe.model, FastTextClassifierConfig)
        self.config, self.seed = recipe.model, recipe.train.seed
        self.vocabulary = vocabulary
        self.weights = label_weights(vocabulary) if recipe.is_balanced else None
        self.calibration = Calibration()
        self.used = np.empty(0, np.int64)  # n-gram buckets that have a row
        self.classifier: FastTextClassifier | None = None

    def initialise(self, words: Bags) -> FastTextClassifier:
        """Initialise the rows for the words and n-grams of the training texts."""
        if self.config.word_ngrams > 1:
            _, buckets = word_ngram_buckets(
                words.rows, words.starts, self.config.word_ngrams, self.config.buckets
            )
            used, counts = np.unique(buckets, return_counts=True)
            self.used = used[counts >= self.config.min_count]
        self.classifier = self._make()
        return self.classifier

    def _make(self) -> FastTextClassifier:
        rows = len(self.vocabulary.words) + 1 + len(self.used)
        counts = np.array(self.vocabulary.met, np.int64)
        return FastTextClassifier(self.config, rows, counts, self.seed, self.weights)

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
        ngrams = self._ngram_rows(buckets)
        known = ngrams >= 0
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])
        return concat_bags(with_end, Bags(before[ends], ngrams[known].astype(np.int32)))

    def _ngram_rows(self, buckets: IntArray) -> IntArray:
        """Return the row of each bucket, −1 if it has none."""
        positions = np.searchsorted(self.used, buckets)
        known = positions < len(self.used)
        known[known] = self.used[positions[known]] == buckets[known]
        return np.where(known, len(self.vocabulary.words) + 1 + positions, -1)

    def word_terms(self, words: Bags) -> tuple[FloatArray, FloatArray]:
        """Return the terms of each word of one text, (words, labels), and of the end of the line.

        The logits are a mean over the rows of the text; the term of an n-gram is divided evenly
        among its words.
        """
        assert self.classifier is not None
        inputs, outputs = (
            table[:, : self.config.width].astype(np.float64)
            for table in (self.classifier.inputs, self.classifier.outputs)
        )
        count, max_n = len(words.rows), self.config.word_ngrams
        size = self.rows(words).starts[-1]
        terms = inputs[words.rows] @ outputs.T
        if max_n > 1:
            _, buckets = word_ngram_buckets(words.rows, words.starts, max_n, self.config.buckets)
            rows = iter(self._ngram_rows(buckets).tolist())
            for first in range(count):
                for last in range(first + 1, min(first + max_n, count)):
                    row = next(rows)
                    if row >= 0:
                        share = inputs[row] @ outputs.T / (last - first + 1)
                        terms[first : last + 1] += share
        return terms / size, inputs[len(self.vocabulary.words)] @ outputs.T / size

    def state_dict(self) -> dict[str, Any]:
        """Return the input and output rows, and which buckets have one."""
        assert self.classifier is not None
        return {
            "inputs": self.classifier.inputs,
            "outputs": self.classifier.outputs,
            "used": self.used,
            "calibration": self.calibration.to_array(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the rows."""
        self.used = state["used"]
        self.calibration = read_calibration(state)
        self.classifier = self._make()
        for name in ("inputs", "outputs"):
            got, expected = state[name].shape, getattr(self.classifier, name).shape
            if got != expected:
                raise RuntimeError(f"got {name} of shape {got}; expected {expected}")
            setattr(self.classifier, name, state[name])


class FastTextFit:
    """Estimator: stochastic gradient descent, text by text, epoch after epoch."""

    is_resumable = True

    def __init__(
        self,
        recipe: ClassifyRecipe,
        model: FastTextModel,
        vocabulary: LabelVocabulary,
        splits: Mapping[str, TextSplit],
    ):
        train = splits["train"]
        rows = known_rows(train)
        self.model, self.words, self.labels = model, train.words.take(rows), train.labels.take(rows)

    def fit(self, context: FitContext) -> None:
        """Fit the classifier, resuming from a checkpoint if there is one."""
        context.on_progress("finding n-grams", 0, None)
        if context.resume_state is not None:
            self.model.load_state_dict(context.resume_state)
        else:
            self.model.initialise(self.words)
        classifier = self.model.classifier
        assert classifier is not None
        size = self.words.size
        blocks = classifier.blocks(size)
        on_progress = self._reporter(context, size, context.start_block / blocks)
        labelled = LabelledBags(*self.model.rows(self.words), *self.labels)

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


class FastTextLabelScorer(LabelScorer):
    """Log-probabilities of fastText; of independent labels, their log-odds."""

    model: FastTextModel

    def __init__(self, recipe: ClassifyRecipe, model: FastTextModel, vocabulary: LabelVocabulary):
        super().__init__(recipe, model, vocabulary)
        self.encoder = WordEncoder(vocabulary.words, recipe.data.split)
        if model.config.loss != "hierarchical_softmax":
            self.methods = ("contributions", "occlusion")

    @property
    def calibration(self) -> Calibration:
        """The calibration of the model."""
        return self.model.calibration

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, labels)."""
        found = self.model.predict_proba(self.encoder.encode(texts)).astype(np.float64)
        if self.model.config.loss != "one_vs_all":
            return np.log(np.maximum(found, 1e-30))
        clipped = np.clip(found, 1e-7, 1 - 1e-7)
        return np.log(clipped) - np.log1p(-clipped)

    def linear_terms(self, text: str) -> LinearTerms | None:
        """Return the terms of the words; those of unknown words are 0."""
        if "contributions" not in self.methods:
            return None
        words = self.encoder.splitter(text.lower())
        known = [number for number, word in enumerate(words) if word in self.encoder.ids]
        terms = np.zeros((len(words), len(self.vocabulary.labels)))
        terms[known], biases = self.model.word_terms(self.encoder.encode([text]))
        return LinearTerms(terms, biases)


def fit_candidate(
    recipe: ClassifyRecipe, vocabulary: LabelVocabulary, train: TextSplit, threads: int
) -> FastTextLabelScorer:
    """Return a classifier fitted to some texts, to compare settings."""
    model = FastTextModel(recipe, vocabulary)
    FastTextFit(recipe, model, vocabulary, {"train": train}).fit(FitContext(threads=threads))
    return FastTextLabelScorer(recipe, model, vocabulary)


FASTTEXT = make_components(
    FastTextLabelScorer,
    keep_calibration,
    build_model=FastTextModel,
    estimator=FastTextFit,
)
