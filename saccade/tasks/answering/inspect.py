"""Probabilities of first and last tokens, saliency, and invariance checks of an answerer."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from saccade.data.answering.readers import Question
from saccade.inspection.checks import (
    BATCH_INVARIANCE,
    PADDING_INVARIANCE,
    RELOAD_CONSISTENCY,
    CheckResult,
)
from saccade.inspection.figures import HeatMap
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.models.bert_answerer import BertAnswerer, WindowInputs
from saccade.tasks.answering.data import QuestionSplit
from saccade.tasks.answering.predict import AnswerPredictor
from saccade.tasks.answering.scorer import AnswerScorer, ScoredSpan
from saccade.tasks.base import HeatMapKey, Inspector
from saccade.types.arrays import FloatArray, IntArray

MAX_CONTEXT_TOKENS = 40  # of the context, around the answer
MAX_EXAMPLE_CONTEXT = 300  # of the context in the suggested command


class AnswerInspector(Inspector[QuestionSplit]):
    """Shows where an answer may start and end, and which tokens led to it."""

    has_attention = False
    heat_map_kinds = ("spans", "saliency")

    def __init__(self, scorer: AnswerScorer, predictor: AnswerPredictor):
        self.scorer, self.predictor = scorer, predictor
        self.model = scorer.model

    def example_input(self, split: QuestionSplit) -> str:
        """Return a held-out question with an answer, and the start of its context."""
        suited = (q for q in split.questions if q.answers and len(q.context) <= MAX_EXAMPLE_CONTEXT)
        question = next(suited, split.questions[0])
        context = " ".join(question.context.split())[:MAX_EXAMPLE_CONTEXT]
        return f"{' '.join(question.question.split())} {context}"

    def views(self) -> dict[str, str]:
        """Return the heat maps of one question."""
        return {
            "INPUT": "the probability of each token as the first and the last of the answer",
            "INPUT --kind saliency": "the tokens that led to the answer",
        }

    def heat_maps(self, text: str, answer: str | None = None) -> dict[HeatMapKey, HeatMap]:
        """Return the maps of one question, of the window with the best answer."""
        question = self.predictor.parse(text, 1)
        table = self.scorer.encode([question])
        [found] = self.scorer.find(table)
        span = found.spans[0]
        inputs = self.scorer.inputs(table, np.array([span.window]))
        columns, names = self._columns(question, table, span)
        return {
            ("spans", 1): self._span_map(inputs, columns, names),
            ("saliency", 1): self._saliency_map(inputs, span, columns, names),
        }

    def _columns(self, question: Question, table: Any, span: ScoredSpan) -> tuple[IntArray, Any]:
        """Return positions to draw, [CLS], question and context around the answer, and names."""
        window, head = span.window, int(table.context[span.window])
        start, end = int(table.ids.starts[window]), int(table.ids.starts[window + 1])
        ids = table.ids.rows[start:end].tolist()
        first = max(head, (span.tokens[0] + span.tokens[1] - MAX_CONTEXT_TOKENS) // 2)
        last = min(len(ids) - 1, first + MAX_CONTEXT_TOKENS)
        tokens = self.scorer.tokenizer.tokens
        names = [tokens[id] for id in ids]
        for at in range(first, last):
            a, b = table.characters(window, at, at)
            names[at] = question.context[a:b]
        columns = np.array([*range(head), *range(first, last)])
        return columns, [names[at] for at in columns.tolist()]

    def _span_map(self, inputs: WindowInputs, columns: IntArray, names: list[str]) -> HeatMap:
        self.model.eval()
        with torch.no_grad():
            logits = self.model(inputs).float()[0]
        is_possible = inputs.in_context[0]
        is_possible[0] = True
        shares = logits.masked_fill(~is_possible[:, None], -torch.inf).softmax(0)
        values = shares.double().cpu().numpy().T[:, columns].clip(0, 1)
        title = "p(first token) and p(last token); [CLS]: no answer"
        return HeatMap(values, ["first", "last"], names, title, "tokens", "", (0.0, 1.0))

    def _saliency_map(
        self, inputs: WindowInputs, span: ScoredSpan, columns: IntArray, names: list[str]
    ) -> HeatMap:
        """Return gradient × input for the scores of the first and the last token."""
        self.model.eval()
        with torch.no_grad():
            embedded = self.model.embed(inputs)
        rows = []
        with torch.enable_grad():
            x = embedded.detach().requires_grad_()
            logits = self.model.score(x, inputs).float()[0]
            for side, at in enumerate(span.tokens):
                [gradient] = torch.autograd.grad(logits[at, side], x, retain_graph=True)
                rows.append((gradient * x).sum(-1)[0].detach().double().cpu().numpy())
        title = "gradient × input for the scores of the answer"
        return HeatMap(np.stack(rows)[:, columns], ["first", "last"], names, title, "tokens read")

    # --- checks -----------------------------------------------------------------------------------

    def checks(self, split: QuestionSplit, count: int) -> Iterator[CheckResult]:
        """Check that scores depend neither on the neighbours in a batch nor on padding."""
        table = split.take(count).table
        rows = np.arange(table.ids.size)
        inputs = self.scorer.inputs(table, rows)
        together = window_scores(self.model, inputs)
        alone = [
            window_scores(self.model, self.scorer.inputs(table, rows[r : r + 1])) for r in rows
        ]
        yield _compare(BATCH_INVARIANCE, together, np.concatenate(alone), len(rows))
        padded = window_scores(self.model, inputs.padded(3))
        yield _compare(PADDING_INVARIANCE, together, padded, len(rows))

    def compare_reloaded(
        self, other: BertAnswerer, split: QuestionSplit, count: int
    ) -> CheckResult:
        """Check that the reloaded model gives the same scores and threshold."""
        table = split.take(count).table
        inputs = self.scorer.inputs(table, np.arange(table.ids.size))
        one, two = (window_scores(model, inputs) for model in (self.model, other))
        result = _compare(RELOAD_CONSISTENCY, one, two, table.ids.size)
        if float(self.model.threshold) == float(other.threshold):
            return result
        return result._replace(difference=float("inf"))


@torch.no_grad()
def window_scores(model: BertAnswerer, inputs: WindowInputs) -> FloatArray:
    """Return the scores of [CLS] and of the tokens of the context, window after window."""
    scores = model.eval()(inputs)
    is_scored = inputs.in_context
    is_scored[:, 0] = True
    found: FloatArray = scores[is_scored].double().cpu().numpy()
    return found


def _compare(invariant: str, one: FloatArray, two: FloatArray, count: int) -> CheckResult:
    difference = float(np.abs(one - two).max(initial=0.0))
    return CheckResult(invariant, count, difference, LOGIT_TOLERANCE[torch.float32])
