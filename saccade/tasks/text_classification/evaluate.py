"""Accuracy, F1 and calibration of predicted labels, the report by label, and the worst mistakes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.estimators.baselines import majority_class
from saccade.estimators.text_classifiers.naive_bayes import naive_bayes_labels
from saccade.metrics.calibration import ReliabilityBins, reliability
from saccade.metrics.classification import (
    ClassReport,
    class_report,
    confusion_matrix,
    macro_f1,
    micro_f1,
)
from saccade.tasks.base import Evaluator
from saccade.tasks.text_classification.scorer import LabelScorer
from saccade.tasks.text_classification.texts import TextSplit, known_rows
from saccade.types.arrays import BoolArray, FloatArray, IntArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction

MAX_REPORTED_LABELS = 100  # of the report by label: the most frequent
MAX_CONFUSION_LABELS = 40
MAX_MISTAKES = 10
MAX_MISTAKE_CHARS = 160
MAX_NAMED_LABELS = 5
MIN_RANKED_LABELS = 11  # labels from which recall at 5 is reported
MAX_FLOOR_TEXTS = 20_000  # training texts of the baseline that counts words


@dataclass(frozen=True, eq=False)
class ScoredTexts:
    """Texts of a split with their probabilities and predicted labels."""

    split: TextSplit
    labels: Sequence[str]
    probabilities: FloatArray  # (texts, labels)
    decided: BoolArray  # (texts, labels): labels that are predicted

    @cached_property
    def truths(self) -> BoolArray:
        """(texts, labels): labels that are true."""
        return self.split.truths(len(self.labels))

    @cached_property
    def predicted(self) -> IntArray:
        """The most probable label of each text."""
        return self.probabilities.argmax(1)

    @cached_property
    def confidence(self) -> FloatArray:
        """Its probability."""
        return self.probabilities.max(1)

    @cached_property
    def is_correct(self) -> BoolArray:
        """True where that label is true."""
        return self.truths[np.arange(len(self.predicted)), self.predicted]

    @property
    def reliability(self) -> ReliabilityBins:
        """Accuracy by confidence."""
        return reliability(self.confidence, self.is_correct)

    @property
    def report(self) -> ClassReport:
        """Precision, recall and F1 of each label."""
        return class_report(self.truths, self.decided)

    def frequent_labels(self, limit: int) -> IntArray:
        """Return the labels that occur most often in these texts, in the order of their ids."""
        support = self.truths.sum(0)
        return np.sort(np.argsort(-support, kind="stable")[:limit])

    def mistakes(self, limit: int = MAX_MISTAKES) -> list[dict[str, Any]]:
        """Return the texts whose wrong label is most probable, most probable first."""
        has_truth = np.diff(self.split.labels.starts) > 0
        wrong = np.flatnonzero(~self.is_correct & has_truth & self.truths.any(1))
        order = wrong[np.argsort(-self.confidence[wrong], kind="stable")][:limit]
        return [
            {
                "text": shorten(self.split.texts[row]),
                "true": ",".join(self.labels[i] for i in np.flatnonzero(self.truths[row]).tolist()),
                "predicted": self.labels[int(self.predicted[row])],
                "probability": round(float(self.confidence[row]), 4),
            }
            for row in order.tolist()
        ]


def shorten(text: str, limit: int = MAX_MISTAKE_CHARS) -> str:
    """Return a text in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def score_texts(scorer: LabelScorer, split: TextSplit) -> ScoredTexts:
    """Return the probabilities and decisions of all texts of a split."""
    probabilities = scorer.predict_proba(split.texts)
    return ScoredTexts(split, scorer.vocabulary.labels, probabilities, scorer.decide(probabilities))


class LabelEvaluator(Evaluator[TextSplit]):
    """Accuracy and macro-F1; of texts with several labels micro- and macro-F1."""

    def __init__(self, scorer: LabelScorer):
        self.scorer, self.labels = scorer, scorer.vocabulary.labels
        self.multi_label = scorer.multi_label
        name = "micro_f1" if self.multi_label else "accuracy"
        self.metric = ComparisonMetric(name, higher_is_better=True, factor=100.0)
        self.headline = (name, "macro_f1")

    def evaluate(
        self,
        split: TextSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of the texts of a split, and tables of labels and mistakes."""
        self.refuse_options(options, "a classifier computes one probability for each label")
        scored = score_texts(self.scorer, split.take(limit))
        on_progress("evaluating", len(scored.split), len(scored.split))
        metrics, conventions = self._several(scored) if self.multi_label else self._one(scored)
        omitted = {}
        known = known_rows(scored.split)
        if len(known):
            metrics["loss"] = self._loss(scored, known)
            conventions["loss"] = "mean of -log p of the true labels"
        else:
            omitted["loss"] = "the run knows none of the labels"
        metrics["ece"] = scored.reliability.error
        conventions["ece"] = "expected calibration error: mean of |accuracy - confidence|, 10 bins"
        if len(self.labels) >= MIN_RANKED_LABELS:
            metrics["recall_at_5"] = self._recall_at(scored, 5)
            conventions["recall_at_5"] = "share of true labels among the 5 most probable ones"
        metrics["examples"] = float(len(scored.split))
        return Evaluation(metrics, conventions, self._tables(scored), omitted=omitted)

    def _one(self, scored: ScoredTexts) -> tuple[dict[str, float], dict[str, str]]:
        """Return accuracy and macro-F1 of texts with one label each."""
        metrics = {"accuracy": float(scored.is_correct.mean())}
        conventions = {"accuracy": "share of texts whose most probable label is true"}
        if unknown := _name_unknown(scored.split):
            conventions["accuracy"] += f"; {unknown}"
        if scored.split.has_one_label_each:
            targets = scored.split.labels.rows.astype(np.int64)
            metrics["macro_f1"] = _defined_f1(targets, scored.predicted, len(self.labels))
            conventions["macro_f1"] = "mean F1 over the labels that occur or were predicted"
        return metrics, conventions

    def _several(self, scored: ScoredTexts) -> tuple[dict[str, float], dict[str, str]]:
        """Return F1 and exact matches of texts with several labels."""
        report, truths, decided = scored.report, scored.truths, scored.decided
        occurs = (report.support > 0) | decided.any(0)
        is_exact = (truths == decided).all(1) & ~_has_unknown(scored.split)
        threshold = f"labels with p of at least {self.scorer.calibration.threshold:.2f}"
        metrics = {
            "micro_f1": micro_f1(truths, decided),
            "macro_f1": float(report.f1[occurs].mean()) if occurs.any() else 0.0,
            "exact": float(is_exact.mean()),
        }
        conventions = {
            "micro_f1": f"F1 over all texts and labels; predicted: {threshold}, or the best one",
            "macro_f1": "mean F1 over the labels that occur or were predicted",
            "exact": "share of texts all of whose labels are predicted, and no other",
        }
        if unknown := _name_unknown(scored.split):
            conventions["micro_f1"] += f"; {unknown}"
        return metrics, conventions

    def _loss(self, scored: ScoredTexts, rows: IntArray) -> float:
        """Return the mean negative log-likelihood of the true labels."""
        probabilities, truths = scored.probabilities[rows], scored.truths[rows]
        of_true = np.log(np.maximum(probabilities[truths], 1e-30))
        return float(-of_true.mean())

    def _recall_at(self, scored: ScoredTexts, k: int) -> float:
        best = np.argpartition(-scored.probabilities, k, axis=1)[:, :k]
        hits = int(np.take_along_axis(scored.truths, best, 1).sum())
        return hits / max(len(scored.split.labels.rows), 1)

    def _tables(self, scored: ScoredTexts) -> dict[str, Any]:
        """Return the report by label, the confusion matrix, mistakes and reliability."""
        report, labels = scored.report, scored.frequent_labels(MAX_REPORTED_LABELS)
        tables: dict[str, Any] = {
            "classes": report.rows(self.labels, labels),
            "mistakes": scored.mistakes(),
            "reliability": [
                {"confidence": round(c, 4), "accuracy": round(a, 4), "texts": n}
                for c, a, n in zip(*(part.tolist() for part in scored.reliability), strict=True)
            ],
        }
        if not self.multi_label and scored.split.has_one_label_each:
            if len(self.labels) <= MAX_CONFUSION_LABELS:
                counts = label_confusion(scored)
                tables["confusion"] = {"classes": list(self.labels), "counts": counts.tolist()}
        if scored.split.unknown:
            tables["unknown_labels"] = dict(scored.split.unknown)
        return tables

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return accuracy or micro-F1, and among nearly equal ones the smaller loss."""
        return metrics[self.metric.name] - 0.01 * metrics.get("loss", 0.0)

    def floors(self, train: TextSplit, split: TextSplit) -> dict[str, dict[str, float]]:
        """Return the metrics of the most frequent label, and of naive Bayes on words."""
        if self.multi_label:
            return {"majority label": self._several_floor(train, split)}
        trained, targets = train.labels.rows, split.labels.rows.astype(np.int64)
        found = majority_class(trained[trained >= 0], targets, unknown=-1).metrics
        if not split.has_one_label_each:
            texts = max(len(split), 1)
            return {"majority label": {"accuracy": found["accuracy"] * len(targets) / texts}}
        floors = {"majority label": found}
        small = train.take(MAX_FLOOR_TEXTS)
        if small.has_one_label_each and len(rows := known_rows(small)):
            predicted = naive_bayes_labels(
                small.texts_at(rows),
                small.labels.take(rows).rows.astype(np.int64),
                split.texts,
                len(self.labels),
                self.scorer.recipe.data.split,
            )
            floors["naive Bayes"] = {
                "accuracy": float((predicted == targets).mean()),
                "macro_f1": _defined_f1(targets, predicted, len(self.labels)),
            }
        return floors

    def _several_floor(self, train: TextSplit, split: TextSplit) -> dict[str, float]:
        """Return micro- and macro-F1 of always predicting the most frequent label."""
        truths = split.truths(len(self.labels))
        decided = np.zeros_like(truths)
        decided[:, train.truths(len(self.labels)).sum(0).argmax()] = True
        report = class_report(truths, decided)
        occurs = (report.support > 0) | decided.any(0)
        return {
            "micro_f1": micro_f1(truths, decided),
            "macro_f1": float(report.f1[occurs].mean()),
        }

    def inputs(self, split: TextSplit) -> list[Any]:
        """Return the texts."""
        return list(split.texts)

    def score_each(
        self, split: TextSplit, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64] | None:
        """Return 100 for each text whose label is right; None for several labels."""
        if self.multi_label or not split.has_one_label_each:
            return None
        ids = self.scorer.vocabulary.label_ids
        predicted = np.array([ids[prediction.text] for prediction in predictions])
        return 100.0 * (predicted == split.labels.rows)


def label_confusion(scored: ScoredTexts) -> IntArray:
    """Return how often a text of each label (rows) was predicted to be of each (columns)."""
    targets = scored.split.labels.rows.astype(np.int64)
    return confusion_matrix(targets, scored.predicted, len(scored.labels))


def _defined_f1(targets: IntArray, predicted: IntArray, num_labels: int) -> float:
    """Return macro-F1; 0 where the run knows no label of the texts."""
    return macro_f1(targets, predicted, num_labels) if len(predicted) else 0.0


def _has_unknown(split: TextSplit) -> BoolArray:
    """Return which texts have a label that the run does not know."""
    unknown = split.labels.owners[split.labels.rows < 0]
    return np.bincount(unknown, minlength=len(split)) > 0


def _name_unknown(split: TextSplit) -> str:
    """Describe labels that the run does not know, with what to do; empty: there are none."""
    count = int(_has_unknown(split).sum())
    if not count:
        return ""
    names = ", ".join(repr(label[:40]) for label in list(split.unknown)[:MAX_NAMED_LABELS])
    more = ", …" if len(split.unknown) > MAX_NAMED_LABELS else ""
    return (
        f"{count:,} texts with labels that the run does not know ({names}{more}) count as errors: "
        "train on texts of these labels, or try --label COLUMN"
    )
