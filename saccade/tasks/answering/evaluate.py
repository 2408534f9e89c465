"""Exact match and F1 of answers by SQuAD's rules, floors, and mistakes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.answering.readers import Question
from saccade.metrics.answers import best_threshold, normalise_answer, score_answer
from saccade.tasks.answering.data import QuestionSplit
from saccade.tasks.answering.scorer import AnswerScorer, FoundAnswers
from saccade.tasks.base import Evaluator
from saccade.types.arrays import FloatArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation, Prediction

MAX_ANSWER_MISTAKES = 10
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
ANSWER_CONVENTIONS = {
    "f1": "mean F1 of the words of answer and reference, by SQuAD's official rules",
    "exact": "share of answers equal to a reference, by SQuAD's official rules",
    "f1_answered": "f1 of the questions with an answer",
    "f1_unanswered": "share of the questions without an answer for which none is predicted",
    "best_f1": "f1 with the best no-answer threshold for these very questions",
}


class AnswerEvaluator(Evaluator[QuestionSplit]):
    """Exact match and F1 of the best answer to each question."""

    metric = ComparisonMetric("f1", higher_is_better=True, factor=100.0)
    headline = ("f1", "exact", "f1_answered", "f1_unanswered")
    floors_need_training = False

    def __init__(self, scorer: AnswerScorer):
        self.scorer = scorer

    def evaluate(
        self,
        split: QuestionSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of the questions of a split, and some mistakes."""
        self.refuse_options(options, "all spans of the context are scored")
        split = split.take(limit)
        found = self.scorer.find(split.table)
        on_progress("evaluating", len(split), len(split))
        texts = [
            "" if self.scorer.is_unanswered(some) else span_text(question, some)
            for question, some in zip(split.questions, found, strict=True)
        ]
        metrics = answer_metrics(split.questions, texts)
        if split.has_unanswered:
            margins = np.nan_to_num(np.array([some.margin for some in found]))
            has_answer = [bool(question.answers) for question in split.questions]
            scores = span_scores(split.questions, found)[:, 1]
            metrics["best_f1"] = best_threshold(margins, scores, has_answer).score
        metrics["examples"] = float(len(split))
        conventions = {name: rule for name, rule in ANSWER_CONVENTIONS.items() if name in metrics}
        tables = {"mistakes": self._mistakes(split.questions, found, texts)}
        return Evaluation(metrics, conventions, tables)

    def selection_score(self, metrics: Mapping[str, float]) -> float:
        """Return F1 with the best threshold and, among equal ones, the exact match."""
        return metrics.get("best_f1", metrics["f1"]) + 0.01 * metrics["exact"]

    def floors(self, train: QuestionSplit, split: QuestionSplit) -> dict[str, dict[str, float]]:
        """Return the metrics of the sentence that shares most words with the question."""
        questions = split.questions
        found = {
            "sentence with most words of the question": answer_metrics(
                questions, [overlapping_sentence(question) for question in questions]
            )
        }
        if split.has_unanswered:
            found["never an answer"] = answer_metrics(questions, [""] * len(questions))
        return found

    def inputs(self, split: QuestionSplit) -> list[Any]:
        """Return the question and the context of each."""
        return [(question.question, question.context) for question in split.questions]

    def score_each(
        self, split: QuestionSplit, predictions: Sequence[Prediction]
    ) -> NDArray[np.float64] | None:
        """Return the F1 of each answer."""
        pairs = zip(split.questions, predictions, strict=True)
        return np.array([100.0 * score_answer(p.text, references(q)).f1 for q, p in pairs])

    def _mistakes(
        self, questions: Sequence[Question], found: Sequence[FoundAnswers], texts: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the most confident answers that share no word with a reference."""
        rows = []
        for question, some, text in zip(questions, found, texts, strict=True):
            if score_answer(text, references(question)).f1 == 0.0:
                spans, none = self.scorer.probabilities(some)
                row = {
                    "probability": round(spans[0] if text else none, 4),
                    "id": question.id,
                    "question": question.question,
                    "true": references(question)[0] if question.answers else "",
                    "predicted": text,
                }
                rows.append(row)
        rows.sort(key=lambda row: -float(str(row["probability"])))
        return rows[:MAX_ANSWER_MISTAKES]


def references(question: Question) -> list[str]:
    """Return the texts of the answers of a question."""
    return [answer.text for answer in question.answers]


def span_text(question: Question, found: FoundAnswers) -> str:
    """Return the text of the best span; "" without one."""
    return question.context[found.spans[0].start : found.spans[0].end] if found.spans else ""


def span_scores(questions: Sequence[Question], found: Sequence[FoundAnswers]) -> FloatArray:
    """Return exact match and F1 of the best span of each question, whatever the threshold."""
    pairs = zip(questions, found, strict=True)
    return np.array([score_answer(span_text(q, some), references(q)) for q, some in pairs])


def answer_metrics(questions: Sequence[Question], texts: Sequence[str]) -> dict[str, float]:
    """Return the mean F1 and exact match; where some have no answer, F1 of both kinds as well."""
    pairs = zip(questions, texts, strict=True)
    scores = np.array([score_answer(text, references(question)) for question, text in pairs])
    metrics = {"f1": float(scores[:, 1].mean()), "exact": float(scores[:, 0].mean())}
    has_answer = np.array([bool(question.answers) for question in questions])
    for name, rows in (("answered", has_answer), ("unanswered", ~has_answer)):
        if rows.any() and not has_answer.all():
            metrics[f"f1_{name}"] = float(scores[rows, 1].mean())
    return metrics


def overlapping_sentence(question: Question) -> str:
    """Return the sentence of the context with the most different words of the question."""
    words = {*normalise_answer(question.question).split()}
    sentences = _SENTENCE_END.split(question.context)
    return max(sentences, key=lambda s: len(words & {*normalise_answer(s).split()}), default="")
