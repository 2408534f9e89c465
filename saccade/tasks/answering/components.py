"""Capabilities of the answering task."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from saccade.data.wordpiece import WordPieceTokenizer
from saccade.metrics.answers import best_threshold
from saccade.models.bert_answerer import BertAnswerer
from saccade.models.bert_classifier import copy_bert_encoder
from saccade.tasks.answering.config import AnswerRecipe
from saccade.tasks.answering.data import QuestionSplit
from saccade.tasks.answering.evaluate import AnswerEvaluator, span_scores
from saccade.tasks.answering.inspect import AnswerInspector
from saccade.tasks.answering.objective import AnswerObjective, build_answerer
from saccade.tasks.answering.predict import AnswerPredictor
from saccade.tasks.answering.scorer import AnswerScorer
from saccade.tasks.base import Components

AnswerComponents = Components[AnswerRecipe, WordPieceTokenizer, BertAnswerer, QuestionSplit]


def choose_threshold(
    recipe: AnswerRecipe,
    model: BertAnswerer,
    tokenizer: WordPieceTokenizer,
    splits: Mapping[str, QuestionSplit],
) -> None:
    """Set the no-answer threshold with the highest F1 on dev, if training has such questions."""
    dev = splits["dev"]
    if not splits["train"].has_unanswered:
        return
    found = AnswerScorer(recipe, model, tokenizer).find(dev.table)
    answered = span_scores(dev.questions, found)[:, 1]
    margins = np.array([some.margin for some in found])
    has_answer = [bool(question.answers) for question in dev.questions]
    best = best_threshold(margins, answered, has_answer)
    with torch.no_grad():
        model.threshold.fill_(best.threshold)


def _inspector(*given: Any) -> AnswerInspector:
    scorer = AnswerScorer(*given)
    return AnswerInspector(scorer, AnswerPredictor(scorer))


ANSWERER = AnswerComponents(
    build_model=build_answerer,
    predictor=lambda *given: AnswerPredictor(AnswerScorer(*given)),
    evaluator=lambda *given: AnswerEvaluator(AnswerScorer(*given)),
    inspector=_inspector,
    objective=AnswerObjective,
    transfer_weights=copy_bert_encoder,
    calibrate=choose_threshold,
)


def answer_components(recipe: AnswerRecipe) -> AnswerComponents:
    """Return the capabilities of a recipe."""
    return ANSWERER
