"""Attributions, confusion matrix, reliability and checks of a text classifier. No torch."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from saccade.data.text.text_pairs import PAIR_SEPARATOR
from saccade.data.word_splitting import SPAN_SPLITTERS
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.attribution import Attribution
from saccade.inspection.checks import BATCH_INVARIANCE, RELOAD_CONSISTENCY, CheckResult
from saccade.inspection.figures import ConfusionMatrix, Figure, ReliabilityDiagram
from saccade.tasks.base import AttentionKey, Inspector
from saccade.tasks.text_classification.attributions import attribute_text
from saccade.tasks.text_classification.evaluate import (
    ScoredTexts,
    label_confusion,
    score_texts,
)
from saccade.tasks.text_classification.scorer import LabelScorer
from saccade.tasks.text_classification.texts import TextSplit

EXAMPLE_CHARS = 80  # of the text in the suggested command
LOGIT_DIFFERENCE = 2e-4  # rounding errors of float32 logits
MAX_REPORTED_MISTAKES = 100
MAX_MATRIX_LABELS = 2000  # labels up to which their confusion is counted: 32 MB


class LabelInspector(Inspector[TextSplit]):
    """Shows which words led to a label, and which labels are confused with which."""

    def __init__(self, scorer: LabelScorer):
        self.scorer, self.labels = scorer, scorer.vocabulary.labels
        self.attribution_methods = scorer.methods

    def example_input(self, split: TextSplit) -> str:
        """Return the start of a held-out text."""
        text = next((text for text in split.texts if text.strip()), "")
        if self.scorer.recipe.data.pair is None:
            return _start_of(text, EXAMPLE_CHARS)
        sides = text.split(PAIR_SEPARATOR)
        return PAIR_SEPARATOR.join(_start_of(side, EXAMPLE_CHARS // 2) for side in sides)

    def attributions(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> Attribution:
        """Return the contribution of each word."""
        return attribute_text(self.scorer, str(raw), method, output)

    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Return the attention between the words of a text, of a network that has attention."""
        spans = SPAN_SPLITTERS[self.scorer.recipe.data.split](text)
        return self.scorer.attention_maps(text, [text[start:end] for start, end in spans])

    def views(self) -> dict[str, str]:
        """Return attributions, and attention maps where there are any."""
        views = {"INPUT": "the words that led to the label"}
        for method in self.attribution_methods[1:]:
            views[f"INPUT --method {method}"] = "the same by another method"
        return views

    def figures(self, splits: Mapping[str, TextSplit]) -> dict[str, Figure]:
        """Return the confusion matrix and the reliability of the probabilities."""
        scored = score_texts(self.scorer, splits["test"])
        figures: dict[str, Figure] = {"reliability.png": self._reliability(scored)}
        is_small = len(self.labels) <= MAX_MATRIX_LABELS
        if is_small and not self.scorer.multi_label and scored.split.has_one_label_each:
            figures["confusion.png"] = ConfusionMatrix(label_confusion(scored), self.labels)
        return figures

    def _reliability(self, scored: ScoredTexts) -> ReliabilityDiagram:
        bins = scored.reliability
        temperature = self.scorer.calibration.temperature
        return ReliabilityDiagram(bins.confidence, bins.accuracy, bins.counts, temperature)

    def report_files(self, splits: Mapping[str, TextSplit]) -> dict[str, str]:
        """Return the most confident mistakes on the test split as a table."""
        scored = score_texts(self.scorer, splits["test"])
        content = io.StringIO(newline="")
        writer = csv.writer(content, delimiter="\t", lineterminator="\n")
        writer.writerow(["probability", "true", "predicted", "text"])
        for mistake in scored.mistakes(MAX_REPORTED_MISTAKES):
            writer.writerow(
                [mistake[name] for name in ("probability", "true", "predicted", "text")]
            )
        return {"mistakes.tsv": content.getvalue()}

    def checks(self, split: TextSplit, count: int) -> Iterator[CheckResult]:
        """Check that the logits of a text depend neither on its neighbours nor on padding."""
        texts = split.take(count).texts
        together = self.scorer.logits(texts)
        alone = np.concatenate([self.scorer.logits([text]) for text in texts])
        yield _compare(BATCH_INVARIANCE, together, alone)
        yield from self.scorer.checks(texts)

    def compare_reloaded(self, other: Any, split: TextSplit, count: int) -> CheckResult:
        """Check that the reloaded model gives the same logits."""
        texts = split.take(count).texts
        reloaded = self.scorer.with_model(other)
        result = _compare(RELOAD_CONSISTENCY, self.scorer.logits(texts), reloaded.logits(texts))
        same = self.scorer.calibration == reloaded.calibration
        return result if same else result._replace(difference=float("inf"))


def _start_of(text: str, limit: int) -> str:
    """Return a text in one line, cut after a word within a limit of characters."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    cut = line[:limit]
    return cut.rpartition(" ")[0] or cut


def _compare(invariant: str, one: Any, two: Any) -> CheckResult:
    difference = float(np.abs(one - two).max(initial=0.0))
    return CheckResult(invariant, len(one), difference, LOGIT_DIFFERENCE)
