"""Scores of trivial baselines on a train/test split: the floor that a trained model must beat.

Each function returns metrics under the names that the tasks report, and a one-line description.
They load no torch and take seconds.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.ngram.backoff import BackoffModel
from saccade.metrics.classification import accuracy, macro_f1
from saccade.metrics.regression import mae, r_squared, rmse
from saccade.metrics.translation import bleu, chrf, exact_match
from saccade.types.arrays import FloatArray, IntArray

MAX_TRIGRAM_TRAIN_TOKENS = 2_000_000  # the first tokens; keeps counting within seconds
MAX_TRIGRAM_TEST_TOKENS = 500_000
COUNTED_CHUNK = 1 << 22  # tokens counted at a time
_MAX_EXPONENT = 700.0  # of e, below overflow; as the tasks clip it


class BaselineScores(NamedTuple):
    """Metrics of a baseline, by name, and what the baseline does."""

    metrics: dict[str, float]
    description: str


def majority_class(
    train_labels: NDArray[Any], test_labels: NDArray[Any], unknown: int | None = None
) -> BaselineScores:
    """Predict the most frequent training label; of a tie, the smallest.

    Test labels equal to `unknown` are errors, and no class of their own in macro_f1. Agrees with
    scikit-learn's `DummyClassifier(strategy="most_frequent")`.
    """
    train_labels, test_labels = _not_empty(train_labels, "train"), _not_empty(test_labels, "test")
    classes, ids = np.unique(np.concatenate([train_labels, test_labels]), return_inverse=True)
    train, targets = np.split(ids, [len(train_labels)])
    if unknown is not None:
        targets = np.where(test_labels == unknown, -1, targets)
    majority = int(np.bincount(train).argmax())
    predictions = np.full(len(targets), majority)
    frequency = float((train == majority).mean())
    return BaselineScores(
        {
            "accuracy": accuracy(targets, predictions),
            "macro_f1": macro_f1(targets, predictions, len(classes)),
        },
        f"always predicts the most frequent class, {classes[majority]} "
        f"({frequency:.1%} of the training rows)",
    )


def mean_prediction(train_targets: NDArray[Any], test_targets: NDArray[Any]) -> BaselineScores:
    """Predict the mean training target; r2 is left out if all test targets are equal.

    Agrees with scikit-learn's `DummyRegressor(strategy="mean")`.
    """
    train = _not_empty(train_targets, "train").astype(np.float64)
    targets = _not_empty(test_targets, "test").astype(np.float64)
    mean = float(train.mean())
    description = f"always predicts the mean of the training targets, {mean:.4g}"
    return BaselineScores(_regression_metrics(targets, np.full(len(targets), mean)), description)


def copy_source(sources: Sequence[str], targets: Sequence[str]) -> BaselineScores:
    """Translate by copying the source; exact from 0 to 1, bleu and chrf (sacreBLEU) to 100."""
    return BaselineScores(
        {
            "exact": exact_match(sources, targets),
            "bleu": bleu(sources, targets).value,
            "chrf": chrf(sources, targets).value,
        },
        "copies the source as the translation",
    )


def unigram_entropy(
    train_ids: NDArray[Any], test_ids: NDArray[Any], vocab_size: int, start: int = 0
) -> BaselineScores:
    r"""Predict each token by its training frequency, with add-one (Laplace) smoothing.

    P(w) = (c(w) + 1) / (N + V). Scores the tokens from index `start` on. The loss is the
    cross-entropy in nats per token, and the perplexity e to the loss. The ids may be
    memory-mapped and larger than memory.
    """
    train, test = (
        _count_tokens(ids, vocab_size, name)
        for ids, name in ((train_ids, "train"), (test_ids[start:], "test"))
    )
    log_probabilities = np.log((train + 1) / (train.sum() + vocab_size))
    return BaselineScores(
        _language_metrics(float(log_probabilities @ test), int(test.sum())),
        "predicts each token by its frequency in the training text (add-one smoothing)",
    )


def trigram(
    train_ids: NDArray[Any],
    test_ids: NDArray[Any],
    vocab_size: int,
    max_train_tokens: int = MAX_TRIGRAM_TRAIN_TOKENS,
    max_test_tokens: int = MAX_TRIGRAM_TEST_TOKENS,
    start: int = 0,
) -> BaselineScores:
    """Predict each token from the two before it, with modified Kneser–Ney smoothing.

    Only the first `max_train_tokens` and `max_test_tokens` tokens are used. Scores the tokens from
    index `start` on; those before are context. The loss is the cross-entropy in nats per token,
    and the perplexity e to the loss.
    """
    train = _token_ids(train_ids[:max_train_tokens], vocab_size, "train")
    test = _token_ids(test_ids[:max_test_tokens], vocab_size, "test")
    model = BackoffModel(3, vocab_size, "kneser-ney").fit(train)
    scored = _not_empty(model.log_probabilities(test)[start:], "test")
    return BaselineScores(
        _language_metrics(float(scored.sum()), len(scored)),
        f"a trigram model with modified Kneser–Ney smoothing, counted on {len(train):,} tokens",
    )


def last_value(series: NDArray[Any], horizon: int, start: int = 1) -> BaselineScores:
    """Forecast each value as the last known one, `horizon` steps before (persistence).

    Scores the values from index `start` on for which a value `horizon` steps earlier exists. The
    metric `rmse_<horizon>` is that of the forecast task.
    """
    values = _not_empty(series, "series").astype(np.float64)
    first = max(start, horizon)
    if horizon < 1 or first >= len(values):
        raise ValueError(
            f"got {len(values)} values, horizon {horizon} and start {start}; expected a horizon of "
            "1 or more, and more values than both."
        )
    targets, predictions = values[first:], values[first - horizon : len(values) - horizon]
    unit = "step" if horizon == 1 else "steps"
    description = f"forecasts the value of {horizon} {unit} before (persistence)"
    metrics = {
        f"rmse_{horizon}": rmse(targets, predictions),
        f"mae_{horizon}": mae(targets, predictions),
    }
    return BaselineScores(metrics, description)


def _regression_metrics(targets: FloatArray, predictions: FloatArray) -> dict[str, float]:
    metrics = {"rmse": rmse(targets, predictions), "mae": mae(targets, predictions)}
    r2 = r_squared(targets, predictions)
    return metrics if math.isnan(r2) else metrics | {"r2": r2}


def _language_metrics(log_likelihood: float, tokens: int) -> dict[str, float]:
    loss = -log_likelihood / tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, _MAX_EXPONENT))}


def _not_empty(values: NDArray[Any], name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"got {name} values of shape {array.shape}; expected a non-empty 1-D array."
        )
    return array


def _count_tokens(ids: NDArray[Any], vocab_size: int, name: str) -> IntArray:
    """Return how often each token occurs, in chunks that fit into memory."""
    counts = np.zeros(vocab_size, np.int64)
    for start in range(0, max(len(ids), 1), COUNTED_CHUNK):
        tokens = _token_ids(ids[start : start + COUNTED_CHUNK], vocab_size, name)
        counts += np.bincount(tokens, minlength=vocab_size)
    return counts


def _token_ids(ids: NDArray[Any], vocab_size: int, name: str) -> IntArray:
    tokens = _not_empty(ids, name).astype(np.int64)
    if not 0 <= tokens.min() <= tokens.max() < vocab_size:
        raise ValueError(
            f"got {name} ids from {tokens.min()} to {tokens.max()}; expected 0 to "
            f"{vocab_size - 1} (vocab_size − 1)."
        )
    return tokens
