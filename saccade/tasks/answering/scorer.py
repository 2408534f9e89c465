"""The best spans of questions over the windows of their contexts."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.answering.readers import Question
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.models.bert_answerer import ALWAYS_ANSWER, BertAnswerer, WindowInputs, best_spans
from saccade.tasks.answering.config import AnswerRecipe
from saccade.tasks.answering.objective import window_inputs
from saccade.tasks.answering.windows import WindowEncoder, WindowTable
from saccade.tasks.neural import device_of
from saccade.types.arrays import IntArray

SCORE_WINDOWS = 32  # of a batch


class ScoredSpan(NamedTuple):
    """Characters of a context, context[start:end], and the score of the span."""

    start: int
    end: int
    score: float
    window: int
    tokens: tuple[int, int]  # positions in the window


class FoundAnswers(NamedTuple):
    """The best spans of a question, best first, and what their probabilities follow from."""

    spans: tuple[ScoredSpan, ...]
    total: float  # log Σ exp(score) over the spans of all windows
    no_answer: float  # the lowest score of no answer over the windows

    @property
    def margin(self) -> float:
        """The score of no answer minus that of the best span; without a span, infinity."""
        return self.no_answer - self.spans[0].score if self.spans else float("inf")


class AnswerScorer:
    """Answers of a model. Keeps no state between calls."""

    def __init__(self, recipe: AnswerRecipe, model: BertAnswerer, tokenizer: WordPieceTokenizer):
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.encoder = WindowEncoder(tokenizer, recipe.data, recipe.model.max_length)

    @property
    def threshold(self) -> float:
        """The margin above which a question has no answer."""
        return float(self.model.threshold)

    @property
    def may_be_unanswered(self) -> bool:
        """True if the model may predict that there is no answer."""
        return self.threshold < ALWAYS_ANSWER

    def encode(self, questions: Sequence[Question]) -> WindowTable:
        """Return the windows of some questions."""
        return self.encoder.encode(questions)

    def inputs(self, table: WindowTable, rows: IntArray) -> WindowInputs:
        """Return some windows as tensors on the device of the model."""
        return window_inputs(table, rows).to(device_of(self.model))

    def logits(
        self, table: WindowTable
    ) -> Iterator[tuple[IntArray, WindowInputs, Float[Tensor, "B T 2"]]]:
        """Yield batches of windows of similar length: rows, inputs and scores."""
        was_training = self.model.training
        self.model.eval()
        order = np.argsort(np.diff(table.ids.starts), kind="stable")
        for first in range(0, len(order), SCORE_WINDOWS):
            rows = order[first : first + SCORE_WINDOWS]
            inputs = self.inputs(table, rows)
            with torch.no_grad():
                logits = self.model(inputs).float()
            yield rows, inputs, logits
        self.model.train(was_training)

    def find(self, table: WindowTable, count: int = 1) -> list[FoundAnswers]:
        """Return the `count` best spans of each question over its windows."""
        spans: list[list[ScoredSpan]] = [[] for _ in table.spans]
        total = np.full(len(spans), -np.inf)
        no_answer = np.full(len(spans), np.inf)
        for rows, inputs, logits in self.logits(table):
            best = best_spans(logits, inputs, self.recipe.data.max_answer, count)
            owners = table.owners[rows]
            np.logaddexp.at(total, owners, best.total.double().cpu().numpy())
            np.minimum.at(no_answer, owners, best.no_answer.double().cpu().numpy())
            found = (part.tolist() for part in (best.scores, best.starts, best.ends))
            for window, owner, *of_window in zip(
                rows.tolist(), owners.tolist(), *found, strict=True
            ):
                for score, start, end in zip(*of_window, strict=True):
                    if score > -np.inf:
                        characters = table.characters(window, start, end)
                        spans[owner].append(ScoredSpan(*characters, score, window, (start, end)))
        ranked = (
            sorted(some, key=lambda span: (-span.score, span.start))[:count] for some in spans
        )
        return [
            FoundAnswers(tuple(some), t, n)
            for some, t, n in zip(ranked, total.tolist(), no_answer.tolist(), strict=True)
        ]

    def is_unanswered(self, found: FoundAnswers) -> bool:
        """Return True if the prediction is that the question has no answer."""
        return not found.spans or found.margin > self.threshold

    def probabilities(self, found: FoundAnswers) -> tuple[list[float], float]:
        """Return the probability of each span, and that of no answer: their softmax."""
        total = (
            np.logaddexp(found.total, found.no_answer) if self.may_be_unanswered else found.total
        )
        none = float(np.exp(found.no_answer - total)) if self.may_be_unanswered else 0.0
        return [min(1.0, float(np.exp(span.score - total))) for span in found.spans], none
