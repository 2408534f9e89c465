"""Reliability and report by class: against loops, and against scikit-learn."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import f1_score, precision_recall_fscore_support

from saccade.metrics import class_report, expected_calibration_error, micro_f1, reliability


def test_reliability_bins_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    confidence = random.random(500)
    correct = random.random(500) < confidence**2
    shares, means = calibration_curve(correct, confidence, n_bins=10)
    found = reliability(confidence, correct)
    np.testing.assert_allclose(found.accuracy, shares)
    np.testing.assert_allclose(found.confidence, means)
    assert found.counts.sum() == 500


def test_calibration_error_is_the_weighted_gap() -> None:
    confidence = np.array([0.95, 0.95, 0.55, 0.0, 1.0])
    correct = np.array([True, False, True, False, True])
    gaps = (3 * abs(2 / 3 - 2.9 / 3) + abs(1 - 0.55) + 0) / 5
    assert expected_calibration_error(confidence, correct) == pytest.approx(gaps)
    assert expected_calibration_error(np.zeros(0), np.zeros(0, bool)) == 0


def test_class_report_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(1)
    truths, decided = random.random((50, 4)) < 0.3, random.random((50, 4)) < 0.3
    truths[:, 2] = decided[:, 3] = False
    report = class_report(truths, decided)
    theirs = precision_recall_fscore_support(truths, decided, zero_division=0)
    for ours, expected in zip(report, theirs, strict=True):
        np.testing.assert_allclose(ours, expected)
    assert micro_f1(truths, decided) == pytest.approx(f1_score(truths, decided, average="micro"))
    assert micro_f1(truths[:0], decided[:0]) == 0
