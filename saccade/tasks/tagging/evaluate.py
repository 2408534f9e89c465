"""Span F1 and token accuracy of predicted tags, the report by label, and mistakes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.metrics.spans import span_counts, total_counts
from saccade.tasks.base import Evaluator
from saccade.tasks.tagging.scorer import TaggedTokens, TagScorer
from saccade.tasks.tagging.sentences import TaggedSplit
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction

MAX_TAG_MISTAKES = 10
MAX_NAMED_TAGS = 5
CONTEXT_TOKENS = 4  # on each side of a mistake

Tags = Sequence[Sequence[str]]


class TagEvaluator(Evaluator[TaggedSplit]):
    """Precision, recall and F1 of spans, and the accuracy of tokens."""

    def __init__(self, scorer: TagScorer):
        self.scorer = scorer
        self.is_bio = scorer.vocabulary.is_bio
        name = "f1" if self.is_bio else "accuracy"
        self.metric = ComparisonMetric(name, higher_is_better=True, factor=100.0)
        self.headline = ("f1", "precision", "recall", "accuracy") if self.is_bio else ("accuracy",)

    def evaluate(
        self,
        split: TaggedSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of the sentences of a split, by label, and some mistakes."""
        self.refuse_options(options, "a tagger searches for the most probable tags exactly")
        split = split.take(limit)
        tagged = self.scorer.predict(split.table)
        on_progress("evaluating", len(split), len(split))
        true = [sentence.tags for sentence in split.sentences]
        predicted = [found.tags for found in tagged]
        metrics = tag_metrics(true, predicted, self.is_bio)
        metrics["tokens"] = float(split.lengths.sum())
        metrics["examples"] = float(len(split))
        conventions = {"accuracy": "share of tokens whose tag is right"}
        if self.is_bio:
            rule = "of spans with the right first and last token and label (conlleval, seqeval)"
            conventions["f1"] = f"micro-averaged F1 {rule}"
            conventions["precision"] = f"precision {rule}"
            conventions["recall"] = f"recall {rule}"
        tables: dict[str, Any] = {
            "classes": label_rows(true, predicted, self.is_bio),
            "mistakes": _mistakes(split, tagged),
        }
        notes = []
        if unknown := split.unknown:
            listed = ", ".join(list(unknown)[:MAX_NAMED_TAGS])
            notes.append(
                f"{unknown.total():,} tokens have tags that the run does not know ({listed}); they "
                "count as errors."
            )
        return Evaluation(metrics, conventions, tables, notes=tuple(notes))

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return F1 and, among equal ones, the accuracy."""
        return metrics[self.metric.name] + 0.01 * metrics["accuracy"]

    def floors(self, train: TaggedSplit, split: TaggedSplit) -> dict[str, dict[str, float]]:
        """Return the metrics of the most frequent tag of each word."""
        predicted = majority_tags(train, split)
        true = [sentence.tags for sentence in split.sentences]
        return {"most frequent tag of the word": tag_metrics(true, predicted, self.is_bio)}

    def inputs(self, split: TaggedSplit) -> list[Any]:
        """Return the tokens of each sentence."""
        return [sentence.tokens for sentence in split.sentences]

    def score_each(
        self, split: TaggedSplit, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64] | None:
        """Return the share of right tags of each sentence; None for spans: F1 is no mean."""
        if self.is_bio:
            return None
        return np.array(
            [
                100.0 * np.mean([a == b for a, b in zip(s.tags, p.tags or (), strict=True)])
                for s, p in zip(split.sentences, predictions, strict=True)
            ]
        )


def tag_metrics(true: Tags, predicted: Tags, is_bio: bool) -> dict[str, float]:
    """Return the accuracy of tokens, before it precision, recall and F1 of spans."""
    pairs = [
        a == b for t, p in zip(true, predicted, strict=True) for a, b in zip(t, p, strict=True)
    ]
    accuracy = {"accuracy": float(np.mean(pairs))}
    if not is_bio:
        return accuracy
    total = total_counts(span_counts(true, predicted).values())
    spans = {"f1": total.f1, "precision": total.precision, "recall": total.recall}
    return spans | accuracy


def label_rows(true: Tags, predicted: Tags, is_bio: bool) -> list[dict[str, Any]]:
    """Return precision, recall and F1 of each label; of plain tags, each tag is a label."""
    if not is_bio:  # a token is a span of its own
        true, predicted = (
            [[f"B-{tag}" for tag in tags] for tags in some] for some in (true, predicted)
        )
    return [
        {
            "label": label,
            "precision": round(counts.precision, 4),
            "recall": round(counts.recall, 4),
            "f1": round(counts.f1, 4),
            "true": counts.true,
            "predicted": counts.predicted,
        }
        for label, counts in span_counts(true, predicted).items()
    ]


def majority_tags(train: TaggedSplit, split: TaggedSplit) -> list[list[str]]:
    """Return the tag that each word has most often in training; new words: the most frequent."""
    by_word: dict[str, Counter[str]] = {}
    for sentence in train.sentences:
        for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
            by_word.setdefault(token.lower(), Counter())[tag] += 1
    best = {word: tags.most_common(1)[0][0] for word, tags in by_word.items()}
    default = sum(by_word.values(), Counter()).most_common(1)[0][0]
    return [[best.get(t.lower(), default) for t in s.tokens] for s in split.sentences]


def _mistakes(split: TaggedSplit, tagged: Sequence[TaggedTokens]) -> list[dict[str, Any]]:
    """Return the most confident wrong tags with the words around them."""
    found = []
    for row, (sentence, predicted) in enumerate(zip(split.sentences, tagged, strict=True)):
        for at, (true, tag) in enumerate(zip(sentence.tags, predicted.tags, strict=True)):
            if true != tag:
                found.append((-float(predicted.probabilities[at]), row, at, true, tag))
    rows = []
    for negative, row, at, true, tag in sorted(found)[:MAX_TAG_MISTAKES]:
        tokens = split.sentences[row].tokens
        context = " ".join(tokens[max(0, at - CONTEXT_TOKENS) : at + CONTEXT_TOKENS + 1])
        rows.append(
            {
                "probability": round(-negative, 4),
                "true": true,
                "predicted": tag,
                "token": tokens[at],
                "text": context,
            }
        )
    return rows
