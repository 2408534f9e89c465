"""The classifier against a slow twin in plain NumPy, and against what it is to learn."""

import numpy as np
import pytest

from saccade.estimators import fasttext_classifier
from saccade.estimators.fasttext_classifier import (
    LABEL_LOSSES,
    FastTextClassifier,
    LabelledBags,
    concat_bags,
    train_on_texts,
    word_ngram_buckets,
)
from saccade.estimators.text_classifiers.config import FastTextClassifierConfig
from saccade.estimators.word_vectors.kernels import SIGMOID_TABLE
from saccade.estimators.word_vectors.sampling import HuffmanPaths, rng_state
from saccade.types.bags import Bags


def some_texts(several: bool = False) -> LabelledBags:
    """Sixty bags of twelve rows with one of four labels, or more."""
    random = np.random.default_rng(4)
    sizes = random.integers(0, 7, 60)
    many = random.integers(1, 3, 60) if several else np.ones(60, np.int64)
    return LabelledBags(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        random.integers(0, 12, sizes.sum()).astype(np.int32),
        np.concatenate([[0], np.cumsum(many)]).astype(np.int64),
        random.integers(0, 4, many.sum()).astype(np.int32),
    )


def sigmoid(x: float) -> float:
    """From the kernel's table, so that steps can be held against each other."""
    return float(SIGMOID_TABLE[int(np.clip(np.float32(x) * 256 + 2048, 0, 4095))])


def by_hand(
    texts: LabelledBags,
    inputs: np.ndarray,
    outputs: np.ndarray,
    paths: HuffmanPaths,
    loss: str,
    rates: tuple,
) -> None:
    """The docstring's equations, a text at a time, in order."""
    size = len(texts.starts) - 1
    for text in range(size):
        rows = texts.rows[texts.starts[text] : texts.starts[text + 1]]
        own = texts.labels[texts.label_starts[text] : texts.label_starts[text + 1]].tolist()
        if not len(rows):
            continue
        learning_rate = rates[0] + (rates[1] - rates[0]) * text / size
        h = inputs[rows].mean(0)
        if loss == "hierarchical_softmax":
            path = range(paths.starts[own[0]], paths.starts[own[0] + 1])
            labels = [(int(paths.nodes[p]), float(paths.code_bits[p])) for p in path]
            steps = [(row, turn - sigmoid(h @ outputs[row])) for row, turn in labels]
        elif loss == "softmax":
            exps = np.exp(outputs @ h - (outputs @ h).max())
            p = exps / exps.sum()
            steps = [(row, float(row == own[0]) - p[row]) for row in range(len(outputs))]
        else:
            steps = [
                (row, float(row in own) - sigmoid(h @ outputs[row])) for row in range(len(outputs))
            ]
        e = sum(learning_rate * step * outputs[row] for row, step in steps)
        for row, step in steps:
            outputs[row] += learning_rate * step * h
        for row in rows:
            inputs[row] += e / len(rows)


@pytest.mark.parametrize(
    "max_copied", [fasttext_classifier.MAX_COPIED_LABELS, 3]
)  # rows of labels for each thread, or for all
@pytest.mark.parametrize("loss", LABEL_LOSSES)
def test_fasttext_classifier_kernel_equals_slow_reference(
    loss: str, max_copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fasttext_classifier, "MAX_COPIED_LABELS", max_copied)
    texts = some_texts(several=loss == "one_vs_all")
    model = FastTextClassifier(
        FastTextClassifierConfig(width=8, loss=loss), 12, np.array([30, 20, 8, 2]), seed=1
    )
    inputs, outputs = model.inputs.astype(np.float64), model.outputs.astype(np.float64)
    rates = np.array([0.5, 0.2])
    for _ in range(3):
        train_on_texts(texts, np.arange(60), model.kernel_args(), rates, rng_state(1))
        by_hand(texts, inputs, outputs, model.paths, loss, tuple(rates))
        assert np.allclose(model.inputs, inputs, atol=2e-3)
        assert np.allclose(model.outputs, outputs, atol=2e-3)


@pytest.mark.parametrize("loss", LABEL_LOSSES)
def test_fasttext_classifier_learns_and_probabilities_are_valid(loss: str) -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 4, 2000).astype(np.int32)
    rows = np.stack([labels * 3 + random.integers(0, 3, 2000), random.integers(12, 16, 2000)], 1)
    starts = np.arange(0, 4001, 2)
    texts = LabelledBags(starts, rows.ravel().astype(np.int32), np.arange(2001), labels)
    config = FastTextClassifierConfig(width=16, loss=loss, learning_rate=0.5)
    found, losses = [], []
    for _ in range(2):
        model = FastTextClassifier(config, 16, np.bincount(labels), seed=3)
        model.fit_blocks(texts, on_progress=lambda more, lost: losses.append(lost / more))
        found.append(model.predict_proba(Bags(starts, texts.rows)))
    assert np.array_equal(*found)  # one thread, one seed
    assert losses[-1] < losses[0] and losses[: len(losses) // 2] == losses[len(losses) // 2 :]
    assert (found[0].argmax(1) == labels).mean() > 0.99
    assert (found[0] >= 0).all() and (found[0] <= 1).all()
    if loss != "one_vs_all":
        assert np.allclose(found[0].sum(1), 1, atol=1e-4)
    together = FastTextClassifier(config, 16, np.bincount(labels), seed=3)
    together.fit_blocks(texts, threads=2)
    assert (together.predict_proba(Bags(starts, texts.rows)).argmax(1) == labels).mean() > 0.99


def test_grams_of_words_are_those_within_a_text() -> None:
    ids, starts = np.array([1, 2, 3, 2, 3], np.int32), np.array([0, 3, 3, 5])
    ends, found = word_ngram_buckets(ids, starts, 3, 1 << 40)
    assert ends.tolist() == [0, 3, 3, 4]  # 12 123 23 | | 23
    assert found[2] == found[3] and len(set(found.tolist())) == 3
    ends, _ = word_ngram_buckets(ids, starts, 1, 100)
    assert ends.tolist() == [0, 0, 0, 0]


def test_bags_are_joined_text_by_text() -> None:
    one = Bags(np.array([0, 2, 2, 3]), np.array([1, 2, 3], np.int32))
    other = Bags(np.array([0, 0, 1, 3]), np.array([7, 8, 9], np.int32))
    both = concat_bags(one, other)
    assert both.starts.tolist() == [0, 2, 3, 6]
    assert both.rows.tolist() == [1, 2, 7, 3, 8, 9]
