r"""Temperature scaling of a classifier's probabilities, and the threshold of several labels.

    p = softmax(z / T), or σ(z / T) for labels that are independent of each other

T minimises the negative log-likelihood of held-out examples (Guo et al. 2017), with the smoothed
targets of Platt 1999. It changes no ranking of labels; above 1 it makes an overconfident model less
confident.
"""

from collections.abc import Callable

import numpy as np

from saccade.types.arrays import BoolArray, FloatArray, IntArray

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0
BISECTIONS = 60
MIN_THRESHOLD, MAX_THRESHOLD = 0.05, 0.95


def stable_softmax(logits: FloatArray) -> FloatArray:
    """Return softmax over the last axis."""
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def stable_sigmoid(logits: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-z)) without overflow."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)


def negative_log_likelihood(logits: FloatArray, targets: IntArray) -> float:
    """Return the mean of -log softmax(z)_y."""
    shifted = logits - logits.max(-1, keepdims=True)
    of_true = shifted[np.arange(len(targets)), targets]
    return float(np.mean(np.log(np.exp(shifted).sum(-1)) - of_true))


def fit_temperature(logits: FloatArray, targets: IntArray) -> float:
    """Return T for one label of each example; 1 without examples."""
    of_true = logits[np.arange(len(targets)), targets]
    smoothing = _smoothing(len(targets))
    of_others = (logits.sum(-1) - of_true) / max(logits.shape[-1] - 1, 1)
    expected = (1 - smoothing) * of_true + smoothing * of_others

    def slope(inverse: float) -> float:
        return float(np.sum((stable_softmax(inverse * logits) * logits).sum(-1) - expected))

    return _solve(slope, len(targets))


def fit_binary_temperature(logits: FloatArray, is_true: BoolArray) -> float:
    """Return T for independent labels, (N, K) logits and truths; 1 without examples."""
    smoothing = _smoothing(len(logits))
    expected = np.where(is_true, 1 - smoothing, smoothing)

    def slope(inverse: float) -> float:
        return float(np.sum((stable_sigmoid(inverse * logits) - expected) * logits))

    return _solve(slope, len(logits))


def _smoothing(count: int) -> float:
    """Return the share of the target that other labels get, 1 / (N + 2), as Platt 1999.

    Without it, N correct predictions would make the model infinitely confident.
    """
    return 1 / (count + 2)


def _solve(slope: Callable[[float], float], count: int) -> float:
    """Return T at the root of the likelihood's slope in 1 / T, which increases, by bisection."""
    if not count:
        return 1.0
    low, high = np.log(1 / MAX_TEMPERATURE), np.log(1 / MIN_TEMPERATURE)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if slope(float(np.exp(middle))) > 0:
            high = middle
        else:
            low = middle
    return float(np.exp(-(low + high) / 2))


def fit_threshold(probabilities: FloatArray, is_true: BoolArray) -> float:
    """Return the probability from which a label is predicted, with the largest micro-F1.

    F1 = 2 TP / (2 TP + FP + FN) over all examples and labels; 0.5 without a true label.
    """
    order = np.argsort(-probabilities, axis=None, kind="stable")
    ordered, truths = probabilities.ravel()[order], is_true.ravel()[order]
    total = int(truths.sum())
    if not total:
        return 0.5
    f1 = 2 * np.cumsum(truths) / (np.arange(1, len(truths) + 1) + total)
    f1[:-1][ordered[:-1] == ordered[1:]] = 0.0  # a threshold does not divide equal probabilities
    best = int(f1.argmax())
    below = ordered[best + 1] if best + 1 < len(ordered) else 0.0
    return float(np.clip((ordered[best] + below) / 2, MIN_THRESHOLD, MAX_THRESHOLD))
