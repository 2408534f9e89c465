"""Temperature scaling and thresholds: against a search over a grid, and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from saccade.estimators.temperature import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    fit_binary_temperature,
    fit_temperature,
    fit_threshold,
    negative_log_likelihood,
    stable_sigmoid,
    stable_softmax,
)

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(size=(400, 3)) * 2
TARGETS = (LOGITS / 3 + RANDOM.gumbel(size=(400, 3))).argmax(1)  # three times too confident


def test_temperature_minimises_the_loss() -> None:
    found = fit_temperature(LOGITS, TARGETS)
    grid = np.geomspace(0.5, 10, 400)
    losses = [negative_log_likelihood(LOGITS / t, TARGETS) for t in grid]  # 400: hardly smoothed
    assert found == pytest.approx(grid[int(np.argmin(losses))], rel=0.02)
    assert 2 < found < 5


def test_few_correct_predictions_do_not_make_a_model_certain() -> None:
    logits = np.array([[4.0, 0.0]] * 6 + [[0.0, 4.0]] * 6)
    found = fit_temperature(logits, logits.argmax(1))
    assert stable_softmax(logits / found).max() == pytest.approx(1 - 1 / 14, rel=1e-6)
    truths = logits > 2
    found = fit_binary_temperature(logits - 2, truths)
    assert stable_sigmoid(2 / np.array(found)) == pytest.approx(1 - 1 / 14, rel=1e-6)


def test_temperature_stays_within_limits() -> None:
    assert fit_temperature(LOGITS / 1e4, LOGITS.argmax(1)) == pytest.approx(
        MIN_TEMPERATURE, rel=1e-6
    )
    assert fit_temperature(LOGITS, LOGITS.argmin(1)) == pytest.approx(MAX_TEMPERATURE, rel=1e-6)
    assert fit_temperature(LOGITS[:0], TARGETS[:0]) == 1.0


def test_binary_temperature_minimises_the_loss() -> None:
    truths = RANDOM.random(LOGITS.shape) < stable_sigmoid(LOGITS / 2)
    found = fit_binary_temperature(LOGITS, truths)

    def loss(t: float) -> float:
        p = stable_sigmoid(LOGITS / t)
        return float(-np.where(truths, np.log(p), np.log1p(-p)).sum())

    assert loss(found) <= min(loss(found * 0.98), loss(found * 1.02))
    assert found == pytest.approx(2, rel=0.3)


def test_threshold_has_the_largest_micro_f1() -> None:
    truths = RANDOM.random(LOGITS.shape) < stable_sigmoid(LOGITS)
    probabilities = np.round(stable_sigmoid(LOGITS), 2)  # with equal values
    found = fit_threshold(probabilities, truths)
    scores = {
        float(t): f1_score(truths, probabilities >= t, average="micro")
        for t in np.linspace(0.06, 0.94, 45)
    }
    best = f1_score(truths, probabilities >= found, average="micro")
    assert best >= max(scores.values()) - 1e-12
    assert fit_threshold(probabilities, np.zeros_like(truths)) == 0.5


def test_functions_do_not_overflow() -> None:
    extreme = np.array([[1e4, -1e4], [0.0, 0.0]])
    with np.errstate(all="raise", under="ignore"):
        assert stable_softmax(extreme).tolist() == [[1, 0], [0.5, 0.5]]
        assert stable_sigmoid(extreme).tolist() == [[1, 0], [0.5, 0.5]]
