"""Trivial baselines against scikit-learn's dummies and slow loops."""

import math
import subprocess
import sys

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, f1_score, mean_absolute_error, r2_score

from saccade.estimators import baselines
from saccade.estimators.ngram.model import NGram


@pytest.mark.parametrize("seed", range(5))
def test_majority_class_agrees_with_dummy_classifier(seed: int) -> None:
    random = np.random.default_rng(seed)
    train, test = random.integers(0, 4, 50), random.integers(0, 6, 30)  # with unseen classes
    dummy = DummyClassifier(strategy="most_frequent").fit(np.zeros((50, 1)), train)
    predicted = dummy.predict(np.zeros((30, 1)))
    found = baselines.majority_class(train, test)
    assert found.metrics["accuracy"] == pytest.approx(accuracy_score(test, predicted))
    expected = f1_score(test, predicted, average="macro", zero_division=0)
    assert found.metrics["macro_f1"] == pytest.approx(expected)
    assert f"most frequent class, {predicted[0]} (" in found.description


def test_majority_class_takes_strings() -> None:
    found = baselines.majority_class(np.array(["b", "a", "b"]), np.array(["a", "b"]))
    assert found.metrics == {"accuracy": 0.5, "macro_f1": pytest.approx(1 / 3)}
    assert "class, b (66.7%" in found.description


def test_majority_class_counts_unknown_labels_as_errors_only() -> None:
    found = baselines.majority_class(np.array([1, 0, 1]), np.array([1, 0, -1, -1]), unknown=-1)
    assert found.metrics["accuracy"] == 0.25
    assert found.metrics["macro_f1"] == pytest.approx((2 / 5 + 0) / 2)  # over classes 0 and 1


def test_mean_prediction_agrees_with_dummy_regressor() -> None:
    random = np.random.default_rng(1)
    train, test = random.normal(size=40), random.normal(0.5, 2, size=25)
    predicted = DummyRegressor().fit(np.zeros((40, 1)), train).predict(np.zeros((25, 1)))
    found = baselines.mean_prediction(train, test).metrics
    assert found["rmse"] == pytest.approx(np.sqrt(((predicted - test) ** 2).mean()))
    assert found["mae"] == pytest.approx(mean_absolute_error(test, predicted))
    assert found["r2"] == pytest.approx(r2_score(test, predicted)) and found["r2"] <= 0
    assert "r2" not in baselines.mean_prediction(train, np.ones(3)).metrics


def test_copy_source_scores_equal_texts_as_perfect() -> None:
    texts = ["the cat sat on the mat", "a dog ran over the green hill"]
    found = baselines.copy_source(texts, texts).metrics
    assert found == {"exact": 1.0, "bleu": pytest.approx(100), "chrf": pytest.approx(100)}
    half = baselines.copy_source(texts, [texts[0], "etwas ganz und gar anderes hier"]).metrics
    assert half["exact"] == 0.5 and 0 < half["bleu"] < 100 and 0 < half["chrf"] < 100


def test_unigram_entropy_equals_slow_loop() -> None:
    random = np.random.default_rng(2)
    train, test = random.integers(0, 7, 100), random.integers(0, 9, 50)  # with unseen tokens
    loss = 0.0
    for token in test:
        loss -= math.log((sum(int(t == token) for t in train) + 1) / (100 + 9)) / 50
    found = baselines.unigram_entropy(train, test, 9).metrics
    assert found == {"loss": pytest.approx(loss), "perplexity": pytest.approx(math.exp(loss))}


def test_unigram_entropy_of_chunks_and_from_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    train, test = (random.integers(0, 9, size) for size in (101, 50))
    whole = baselines.unigram_entropy(train, test[1:], 9).metrics
    monkeypatch.setattr(baselines, "COUNTED_CHUNK", 20)
    assert baselines.unigram_entropy(train, test, 9, start=1).metrics == whole


def test_trigram_equals_token_by_token_scoring() -> None:
    random = np.random.default_rng(3)
    train, test = random.integers(0, 5, 300), random.integers(0, 6, 40)
    model = NGram(3, 6, "kneser-ney").fit(train[:200])
    loss = (
        -sum(
            model.log_probability(test[max(0, t - 2) : t].tolist(), int(test[t])) for t in range(30)
        )
        / 30
    )
    found = baselines.trigram(train, test, 6, max_train_tokens=200, max_test_tokens=30)
    assert found.metrics["loss"] == pytest.approx(loss)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(loss))
    assert "200 tokens" in found.description
    later = baselines.trigram(train[:200], test[:30], 6, start=1).metrics["loss"]
    assert 29 * later == pytest.approx(30 * loss + model.log_probability([], int(test[0])))


def test_trigram_beats_unigram_on_regular_text() -> None:
    text = np.tile(np.arange(10), 50)
    trigram = baselines.trigram(text, text[:100], 10).metrics["loss"]
    assert trigram < 0.2 < baselines.unigram_entropy(text, text[:100], 10).metrics["loss"]


@pytest.mark.parametrize(("horizon", "start"), [(1, 1), (3, 1), (2, 7)])
def test_last_value_equals_slow_loop(horizon: int, start: int) -> None:
    series = np.random.default_rng(4).normal(size=20).cumsum()
    errors = [series[t] - series[t - horizon] for t in range(max(start, horizon), 20)]
    found = baselines.last_value(series, horizon, start).metrics
    assert found[f"rmse_{horizon}"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert found[f"mae_{horizon}"] == pytest.approx(np.mean(np.abs(errors)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: baselines.majority_class(np.array([]), np.array([1])),
            "got train values of shape",
        ),
        (lambda: baselines.unigram_entropy(np.array([0]), np.array([5]), 5), "expected 0 to 4"),
        (lambda: baselines.last_value(np.arange(3.0), 3), "more values than both"),
    ],
)
def test_baselines_refuse_invalid_input(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_baselines_load_no_torch() -> None:
    code = "import sys, saccade.estimators.baselines; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
