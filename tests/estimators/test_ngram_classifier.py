"""Logistic regression on n-grams: against scikit-learn, definitions by loops, invariance."""

import math
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from saccade.estimators.text_classifiers.config import NGramClassifierConfig
from saccade.estimators.text_classifiers.features import (
    KeyIndex,
    build_vocabulary,
    term_weights,
    weigh,
)
from saccade.estimators.text_classifiers.logistic import (
    TrainingRows,
    fit_one_vs_all,
    fit_softmax,
)
from saccade.estimators.text_classifiers.ngrams import (
    NGramClassifier,
    choose_loss,
    text_weights,
    training_rows,
)
from saccade.estimators.text_classifiers.sparse import SparseRows
from saccade.types.bags import Bags, make_bags


def sparse(table: NDArray[np.float64]) -> SparseRows:
    """Return a dense table as sparse rows."""
    starts = np.concatenate([[0], np.cumsum((table != 0).sum(1))])
    rows, columns = table.nonzero()
    values = table[rows, columns].astype(np.float32)
    return SparseRows(starts, columns.astype(np.int32), values, table.shape[1])


def random_table(rows: int = 60, columns: int = 9, seed: int = 0) -> NDArray[np.float64]:
    """Return a table with empty rows and columns."""
    random = np.random.default_rng(seed)
    table = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < 0.4)
    table[::7] = 0
    table[:, 3] = 0
    return table


def test_sparse_products_are_those_of_dense_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.estimators.text_classifiers.sparse.BLOCK_VALUES", 16)
    table = random_table()
    rows = sparse(table)
    assert len(rows.blocks) > 3
    weights = np.random.default_rng(1).normal(size=(3, 9)).astype(np.float32)
    np.testing.assert_allclose(rows.dot(weights), weights @ table.T, atol=1e-5)
    errors = np.random.default_rng(2).normal(size=(2, 60)).astype(np.float32)
    np.testing.assert_allclose(rows.transposed().dot(errors), errors @ table, atol=1e-5)
    chosen = np.array([5, 0, 5, 8])
    np.testing.assert_allclose(rows.take(chosen).dot(weights), weights @ table[chosen].T, atol=1e-5)


def labelled(num_labels: int, rows: int = 60) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a table and labels that depend on it."""
    table = random_table(rows)
    truth = np.random.default_rng(3).normal(size=(9, num_labels))
    noise = np.random.default_rng(4).gumbel(size=(rows, num_labels))
    return table, (table @ truth + noise).argmax(1)


@pytest.mark.parametrize("num_labels", [2, 4])
@pytest.mark.parametrize("penalty", [0.1, 2.0])
def test_softmax_weights_are_those_of_scikit_learn(num_labels: int, penalty: float) -> None:
    table, labels = labelled(num_labels)
    weights = np.random.default_rng(5).random(60) + 0.5
    weights /= weights.mean()
    theirs = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=10_000)
    theirs.fit(table, labels, sample_weight=weights)
    rows = sparse(table)
    targets = np.eye(num_labels, dtype=bool)[:, labels]
    data = TrainingRows(rows, rows.transposed(), targets, weights.astype(np.float32))
    ours = fit_softmax(data, penalty, tolerance=1e-9).logits(rows)
    expected = theirs.decision_function(table)
    if num_labels == 2:
        np.testing.assert_allclose(ours[:, 1] - ours[:, 0], expected, atol=5e-3)
    else:  # a constant added to all logits changes no probability
        centred = ours - ours.mean(1, keepdims=True)
        np.testing.assert_allclose(centred, expected - expected.mean(1, keepdims=True), atol=5e-3)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_vs_all_weights_are_those_of_scikit_learn(threads: int) -> None:
    table, labels = labelled(3)
    rows = sparse(table)
    targets = np.eye(3, dtype=bool)[:, labels]
    data = TrainingRows(rows, rows.transposed(), targets, np.ones(60, np.float32))
    done: list[int] = []
    found = fit_one_vs_all(data, 0.5, tolerance=1e-9, threads=threads, on_progress=done.append)
    assert done == [1, 2, 3]
    for label in range(3):
        theirs = LogisticRegression(C=2, tol=1e-10, max_iter=10_000).fit(table, targets[label])
        np.testing.assert_allclose(found.weights[label], theirs.coef_[0], atol=5e-3)
        np.testing.assert_allclose(found.biases[label], theirs.intercept_[0], atol=5e-3)


def test_warm_start_ends_at_the_same_weights() -> None:
    table, labels = labelled(3)
    rows = sparse(table)
    data = TrainingRows(
        rows, rows.transposed(), np.eye(3, dtype=bool)[:, labels], np.ones(60, np.float32)
    )
    cold = fit_softmax(data, 0.5, tolerance=1e-9)
    warm = fit_softmax(data, 0.5, start=fit_softmax(data, 5.0), tolerance=1e-9)
    np.testing.assert_allclose(cold.weights, warm.weights, atol=5e-3)
    stopped = fit_softmax(data, 0.5, stop=lambda: True)
    assert not stopped.weights.any()


def test_key_index_finds_every_key_and_no_other() -> None:
    random = np.random.default_rng(0)
    keys = np.unique(random.integers(0, 1 << 63, 500).astype(np.uint64) << np.uint64(1))
    keys = np.unique(np.concatenate([keys, np.arange(40, dtype=np.uint64)]))  # one crowded bucket
    index = KeyIndex(keys)
    assert index.find(keys).tolist() == list(range(len(keys)))
    assert (index.find(keys + np.uint64(1))[len(keys) // 2 :] == -1).all()
    assert KeyIndex(keys[:0]).find(keys).tolist() == [-1] * len(keys)


TEXTS = ["good film", "a good good cast", "bad film", "so bad , so bad", "", "the cast"]
LABELS = make_bags([[0], [0], [1], [1], [0], [1]])


def test_vocabulary_keeps_frequent_ngrams_and_all_words() -> None:
    vocabulary = build_vocabulary(TEXTS, word_ngrams=2, min_count=2)
    assert len(vocabulary) == 8 + 1  # eight words, and "so bad"
    rows = vocabulary.rows(TEXTS)
    assert np.diff(rows.starts).tolist() == [2, 3, 2, 4, 0, 2]  # presence, not counts
    for start, end in pairwise(rows.starts):
        assert (np.diff(rows.columns[start:end]) > 0).all()
    limited = build_vocabulary(TEXTS, word_ngrams=2, min_count=2, max_features=4)
    assert len(limited) == 4


def test_counting_in_parts_finds_the_same_ngrams(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build_vocabulary(TEXTS, word_ngrams=3, char_ngrams=3, min_count=2)
    module = "saccade.estimators.text_classifiers.features"
    monkeypatch.setattr(f"{module}.MAX_UNMERGED_KEYS", 3)
    monkeypatch.setattr(f"{module}.chunk_texts", lambda texts: ([text] for text in texts))
    parts = build_vocabulary(TEXTS, word_ngrams=3, char_ngrams=3, min_count=2)
    assert np.array_equal(whole.words.keys, parts.words.keys)
    assert np.array_equal(whole.chars.keys, parts.chars.keys)


def test_term_weights_are_idf_times_the_root_of_the_log_count_ratio() -> None:
    rows = build_vocabulary(TEXTS, word_ngrams=1).rows(TEXTS)
    found = term_weights(rows, LABELS, 2)
    has = [set(rows.columns[a:b].tolist()) for a, b in pairwise(rows.starts)]
    features = range(rows.num_columns)
    for feature in features:
        texts_with = sum(feature in text for text in has)
        idf = math.log((1 + len(TEXTS)) / (1 + texts_with)) + 1
        shares = []
        for label in (0, 1):
            own = [text for text, given in zip(has, LABELS.rows, strict=True) if given == label]
            counts = {f: sum(f in text for text in own) + 1.0 for f in features}
            shares.append(counts[feature] / sum(counts.values()))
        ratio = abs(math.log(shares[0] / shares[1]))  # with two labels the others are one label
        assert found[feature] == pytest.approx(idf * math.sqrt(ratio), rel=1e-5)


def test_words_and_characters_of_a_text_have_equal_norms() -> None:
    vocabulary = build_vocabulary(TEXTS, word_ngrams=1, char_ngrams=3, min_count=1)
    words = len(vocabulary.words.keys)
    ones = vocabulary.rows(TEXTS)
    rows = weigh(ones, np.linspace(1, 2, len(vocabulary)).astype(np.float32), words)
    for text, (start, end) in zip(TEXTS, pairwise(rows.starts), strict=True):
        is_char = rows.columns[start:end] >= words
        squares = np.square(rows.values[start:end])
        if text:
            assert squares[is_char].sum() == pytest.approx(0.5, rel=1e-5)
            assert squares[~is_char].sum() == pytest.approx(0.5, rel=1e-5)
    alone = weigh(ones, np.ones(len(vocabulary), np.float32), len(vocabulary))
    assert np.square(alone.values[: alone.starts[1]]).sum() == pytest.approx(1, rel=1e-5)


def fitted(**settings: object) -> NGramClassifier:
    """Return a classifier fitted to the texts."""
    config = NGramClassifierConfig.model_validate({"penalty": 0.1, **settings})
    classifier = NGramClassifier(config, 2)
    classifier.fit(TEXTS * 3, make_bags([[int(label)] for label in LABELS.rows] * 3))
    return classifier


@pytest.mark.parametrize("loss", ["softmax", "one_vs_all"])
@pytest.mark.parametrize("chars", [0, 4])
def test_contributions_of_words_add_up_to_the_logits(loss: str, chars: int) -> None:
    classifier = fitted(loss=loss, char_ngrams=chars)
    for text in ("a good cast , not a bad film", "Good GOOD unknown", "xyzzy", "", "so bad"):
        shares, biases = classifier.explain_words(text)
        assert len(shares) == len(text.replace(",", " , ").split())
        np.testing.assert_allclose(shares.sum(0) + biases, classifier.logits([text])[0], atol=1e-5)
    shares, _ = classifier.explain_words("good film")
    assert shares[0, 0] > shares[0, 1]


def test_neither_neighbours_nor_saving_change_logits() -> None:
    classifier = fitted(char_ngrams=3)
    together = classifier.logits([*TEXTS, "good\nbad"])
    for row, text in enumerate([*TEXTS, "good\nbad"]):
        assert np.array_equal(classifier.logits([text])[0], together[row])
    other = NGramClassifier(classifier.config, 2)
    other.load_state_dict(classifier.state_dict())
    assert np.array_equal(other.logits(TEXTS), classifier.logits(TEXTS))
    assert classifier.logits([]).shape == (0, 2)
    with pytest.raises(RuntimeError, match=r"got biases of shape \(2,\); expected \(3,\)"):
        NGramClassifier(classifier.config, 3).load_state_dict(
            {**classifier.state_dict(), "weights": np.zeros((3, len(classifier.features.weights)))}
        )


def test_texts_of_several_labels_have_the_mean_of_their_weights() -> None:
    labels = Bags(np.array([0, 1, 3, 3]), np.array([0, 0, 1], np.int32))
    found = text_weights(labels, np.array([1.0, 3.0]))
    assert found == pytest.approx(np.array([1.0, 2.0, 0.0]))
    data = training_rows(sparse(np.ones((3, 2))), labels, 2)
    assert data.targets.tolist() == [[True, True, False], [False, True, False]]


def test_loss_follows_from_the_number_of_weights() -> None:
    config = NGramClassifierConfig()
    assert choose_loss(config, 1000, 4) == "softmax"
    assert choose_loss(config, 100_000, 58) == "one_vs_all"
    assert choose_loss(config.with_values(loss="softmax"), 100_000, 58) == "softmax"
