r"""Naive Bayes on the words of a text: a floor that a trained classifier must beat.

    log p(k | x) ∝ log p_k + Σ_{f in x} log p(f | k),   p(f | k) = (n_fk + 1) / Σ_f (n_fk + 1)

with n_fk the texts of label k that have the word f. As scikit-learn's `MultinomialNB` on the
presence of words.
"""

from collections.abc import Sequence

import numpy as np

from saccade.estimators.text_classifiers.features import build_vocabulary
from saccade.types.arrays import IntArray


def naive_bayes_labels(
    train_texts: Sequence[str],
    train_labels: IntArray,
    texts: Sequence[str],
    num_labels: int,
    split: str = "words",
) -> IntArray:
    """Return the label of each text, by a model fitted to labelled texts."""
    vocabulary = build_vocabulary(train_texts, word_ngrams=1, min_count=1, split=split)
    rows = vocabulary.rows(train_texts)
    log_shares = np.empty((num_labels, len(vocabulary)), np.float32)
    for label in range(num_labels):
        own = rows.take(np.flatnonzero(train_labels == label)).columns
        counts = np.bincount(own, minlength=len(vocabulary)) + 1.0
        log_shares[label] = np.log(counts / counts.sum())
    met = np.bincount(train_labels, minlength=num_labels)
    log_priors = np.log(np.maximum(met, 1e-9) / max(len(train_labels), 1))
    found = vocabulary.rows(texts).dot(log_shares) + log_priors[:, None]
    return found.argmax(0)
