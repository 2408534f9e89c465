r"""Logistic regression on a bag of n-grams: a strong classifier that fits in seconds.

    logits = W x + b

with x the weighted n-grams of a text (`features`). Being linear, each logit is a sum over the
n-grams of the text, which `explain_words` distributes over its words.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from saccade.data.text.ngram_hashes import HashedText, join_texts
from saccade.estimators.text_classifiers.config import NGramClassifierConfig
from saccade.estimators.text_classifiers.features import (
    KeyIndex,
    NGramVocabulary,
    build_vocabulary,
    chunk_texts,
    term_weights,
    weigh,
)
from saccade.estimators.text_classifiers.logistic import (
    LinearWeights,
    TrainingRows,
    fit_one_vs_all,
    fit_softmax,
)
from saccade.estimators.text_classifiers.sparse import SparseRows
from saccade.types.arrays import Float32Array, FloatArray
from saccade.types.bags import Bags

MAX_SOFTMAX_PARAMS = 4_000_000  # weights up to which all labels are fitted together


class NGramFeatures(NamedTuple):
    """A vocabulary and the weight of each of its n-grams."""

    vocabulary: NGramVocabulary
    weights: Float32Array

    def rows(self, texts: Sequence[str]) -> SparseRows:
        """Return the weighted n-grams of some texts."""
        return weigh(self.vocabulary.rows(texts), self.weights, len(self.vocabulary.words.keys))


def fit_features(
    config: NGramClassifierConfig, split: str, texts: Sequence[str], labels: Bags, num_labels: int
) -> tuple[NGramFeatures, SparseRows]:
    """Return the features of training texts, and the texts as weighted rows."""
    vocabulary = build_vocabulary(
        texts,
        word_ngrams=config.word_ngrams,
        char_ngrams=config.char_ngrams,
        min_count=config.min_count,
        max_features=config.max_features,
        split=split,
    )
    ones = vocabulary.rows(texts)
    weights = term_weights(ones, labels, num_labels)
    rows = weigh(ones, weights, len(vocabulary.words.keys))
    return NGramFeatures(vocabulary, weights), rows


def training_rows(
    rows: SparseRows, labels: Bags, num_labels: int, label_weights: FloatArray | None = None
) -> TrainingRows:
    """Return rows with their labels as a table; `label_weights` weigh the texts of each label."""
    targets = np.zeros((num_labels, rows.num_rows), np.bool_)
    targets[labels.rows, labels.owners] = True
    row_weights = np.ones(rows.num_rows, np.float32)
    if label_weights is not None:
        row_weights = text_weights(labels, label_weights)
    return TrainingRows(rows, rows.transposed(), targets, row_weights)


def text_weights(labels: Bags, label_weights: FloatArray) -> Float32Array:
    """Return the mean weight of the labels of each text, scaled to a mean of 1."""
    sums = np.bincount(labels.owners, weights=label_weights[labels.rows], minlength=labels.size)
    means = sums / np.maximum(np.diff(labels.starts), 1)
    return (means / means.mean()).astype(np.float32)


def choose_loss(config: NGramClassifierConfig, num_features: int, num_labels: int) -> str:
    """Return the loss: that of the settings, or softmax unless there are very many weights."""
    if config.loss is not None:
        return config.loss
    return "softmax" if num_features * num_labels <= MAX_SOFTMAX_PARAMS else "one_vs_all"


def fit_weights(
    data: TrainingRows,
    loss: str,
    penalty: float,
    start: LinearWeights | None = None,
    tolerance: float = 1e-4,
    stop: Callable[[], bool] = lambda: False,
    threads: int = 1,
    on_progress: Callable[[int], None] = lambda done: None,
) -> LinearWeights:
    """Fit the weights by one of the losses, from a start that may be the fit of another penalty."""
    if loss == "softmax":
        return fit_softmax(data, penalty, start, tolerance, stop)
    return fit_one_vs_all(data, penalty, start, tolerance, stop, threads, on_progress)


class NGramClassifier:
    """Logistic regression on weighted n-grams of words and characters."""

    def __init__(self, config: NGramClassifierConfig, num_labels: int, split: str = "words"):
        self.config, self.num_labels, self.split = config, num_labels, split
        empty = KeyIndex(np.empty(0, np.uint64))
        sizes = (config.word_ngrams, config.char_ngrams, split)
        self.features = NGramFeatures(
            NGramVocabulary(empty, empty, *sizes), np.empty(0, np.float32)
        )
        self.linear = LinearWeights(
            np.zeros((num_labels, 0), np.float32), np.zeros(num_labels, np.float32)
        )

    def fit(
        self,
        texts: Sequence[str],
        labels: Bags,
        label_weights: FloatArray | None = None,
        stop: Callable[[], bool] = lambda: False,
        threads: int = 1,
        on_progress: Callable[[str], None] = lambda what: None,
    ) -> SparseRows:
        """Fit vocabulary, n-gram weights and logistic regression; return the texts as rows."""
        on_progress("counting n-grams")
        self.features, rows = fit_features(self.config, self.split, texts, labels, self.num_labels)
        self.linear = LinearWeights(
            np.zeros((self.num_labels, rows.num_columns), np.float32),
            np.zeros(self.num_labels, np.float32),
        )
        self.fit_rows(rows, labels, label_weights, None, stop, threads, on_progress)
        return rows

    def fit_rows(
        self,
        rows: SparseRows,
        labels: Bags,
        label_weights: FloatArray | None = None,
        start: LinearWeights | None = None,
        stop: Callable[[], bool] = lambda: False,
        threads: int = 1,
        on_progress: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Fit the logistic regression to weighted rows, from other weights if they are given."""
        on_progress("fitting the weights")
        data = training_rows(rows, labels, self.num_labels, label_weights)
        self.linear = fit_weights(
            data,
            choose_loss(self.config, rows.num_columns, self.num_labels),
            self.config.penalty,
            start,
            stop=stop,
            threads=threads,
            on_progress=lambda done: on_progress(f"fitted {done} of {self.num_labels} labels"),
        )

    def logits(self, texts: Sequence[str]) -> Float32Array:
        """Return (texts, labels)."""
        parts = [self.linear.logits(self.features.rows(chunk)) for chunk in chunk_texts(texts)]
        return np.concatenate([np.empty((0, self.num_labels), np.float32), *parts])

    def explain_words(self, text: str) -> tuple[FloatArray, FloatArray]:
        """Return the contribution of each word to each logit (words, labels), and the biases.

        The contribution w_f x_f of an n-gram is divided evenly among its occurrences, and among the
        words of each occurrence, so that the contributions and the bias add up to the logits.
        """
        joined = join_texts([text], self.split)
        starts, _ = HashedText(joined).words
        shares = np.zeros((len(starts), self.num_labels))
        row = self.features.rows([text])
        values = np.zeros(row.num_columns, np.float32)
        values[row.columns] = row.values
        occurrences = list(self._occurrences(joined))
        counts = np.zeros(row.num_columns)
        for feature, _, _ in occurrences:
            counts[feature] += 1
        weights = self.linear.weights.astype(np.float64)
        for feature, start, end in occurrences:
            first = int(np.searchsorted(starts, start + (joined[start] == " "), "right")) - 1
            last = int(np.searchsorted(starts, end - 1, "right")) - 1
            count = last - first + 1
            share = weights[:, feature] * float(values[feature]) / (counts[feature] * count)
            shares[first : last + 1] += share
        return shares, self.linear.biases.astype(np.float64)

    def _occurrences(self, joined: str) -> Iterator[tuple[int, int, int]]:
        """Yield the feature, start and end of each n-gram of a text that has a feature."""
        for ngrams, features in self.features.vocabulary.occurrences(joined):
            for index in np.flatnonzero(features >= 0).tolist():
                yield int(features[index]), int(ngrams.starts[index]), int(ngrams.ends[index])

    def state_dict(self) -> dict[str, Any]:
        """Return the hashes, n-gram weights and linear weights as arrays."""
        vocabulary = self.features.vocabulary
        return {
            "word_keys": vocabulary.words.keys.view(np.int64),
            "char_keys": vocabulary.chars.keys.view(np.int64),
            "ngram_weights": self.features.weights,
            "weights": self.linear.weights,
            "biases": self.linear.biases,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        keys = [
            KeyIndex(np.ascontiguousarray(state[name]).view(np.uint64))
            for name in ("word_keys", "char_keys")
        ]
        features = sum(len(index.keys) for index in keys)
        shapes = {
            "ngram_weights": (features,),
            "weights": (self.num_labels, features),
            "biases": (self.num_labels,),
        }
        for name, expected in shapes.items():
            if state[name].shape != expected:
                raise RuntimeError(f"got {name} of shape {state[name].shape}; expected {expected}")
        words, chars = keys
        sizes = self.config.word_ngrams, self.config.char_ngrams
        vocabulary = NGramVocabulary(words, chars, *sizes, self.split)
        self.features = NGramFeatures(vocabulary, state["ngram_weights"])
        self.linear = LinearWeights(state["weights"], state["biases"])
