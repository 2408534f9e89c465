"""Predicting the answer to a question in a context."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from saccade.config import Config, build_config
from saccade.data.answering.readers import Question
from saccade.data.text.text_pairs import PAIR_SEPARATOR
from saccade.errors import ConfigError
from saccade.tasks.answering.scorer import AnswerScorer, FoundAnswers
from saccade.tasks.base import PredictContext, Predictor
from saccade.types.limits import MAX_COUNT
from saccade.types.results import Prediction

PREDICT_QUESTIONS = 512  # between two reports of progress
EXPECTED_INPUT = "expected a question and its context, after a question mark or a tab"
_QUESTION_END = re.compile(r"(?<=[?？؟])\s*(?=\S)")  # where a context may follow


class AnswerOptions(Config):
    """Options of a prediction."""

    n_best: int = Field(1, ge=1, le=MAX_COUNT)


class AnswerPredictor(Predictor[Question]):
    """Predicts the span of a context that answers a question, or that there is none."""

    input_types = (str, tuple)
    options = AnswerOptions

    def __init__(self, scorer: AnswerScorer):
        self.scorer = scorer

    def parse_options(self, options: Mapping[str, Any]) -> AnswerOptions:
        """Validate options; those of a search by tokens are refused."""
        given = {name: value for name, value in options.items() if (name, value) != ("beam", 1)}
        if other := sorted(given.keys() - {"n_best"}):
            raise ConfigError(
                f"got {', '.join(other)}; expected n_best alone: all spans of the context are "
                "scored, and no text is generated."
            )
        return build_config(AnswerOptions, given, "the options")

    def parse(self, raw: object, number: int) -> Question:
        """Return a question from "question? context", with a tab, or from a tuple of both."""
        if isinstance(raw, str):
            has_tab = PAIR_SEPARATOR in raw
            raw = tuple(raw.split(PAIR_SEPARATOR, 1) if has_tab else _QUESTION_END.split(raw, 1))
        if not isinstance(raw, tuple) or not all(isinstance(text, str) for text in raw):
            raise ConfigError(f"input {number}: got a {type(raw).__name__}; {EXPECTED_INPUT}.")
        if len(raw) != 2 or not all(text.strip() for text in raw):
            missing = "an empty one" if len(raw) == 2 else f"{len(raw)} texts"
            raise ConfigError(
                f"input {number}: got {missing}; {EXPECTED_INPUT}; try 'Who sang? Ada sang in "
                "Rome.', or --file with the columns question and context."
            )
        return Question(str(number), str(raw[0]), str(raw[1]), (), "")

    def predict(
        self, inputs: Sequence[Question], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the best answers to each question, best first."""
        assert isinstance(options, AnswerOptions)
        predictions: list[Prediction] = []
        for start in range(0, len(inputs), PREDICT_QUESTIONS):
            some = inputs[start : start + PREDICT_QUESTIONS]
            found = self.scorer.find(self.scorer.encode(some), options.n_best)
            predictions += [
                self._predict(question, answers, options.n_best)
                for question, answers in zip(some, found, strict=True)
            ]
            context.on_progress("predicting", len(predictions), len(inputs))
        return predictions

    def _predict(self, question: Question, found: FoundAnswers, count: int) -> Prediction:
        probabilities, none = self.scorer.probabilities(found)
        ranked = [
            _span_prediction(question.context, span.start, span.end, probability)
            for span, probability in zip(found.spans, probabilities, strict=True)
        ]
        if self.scorer.is_unanswered(found):
            ranked.insert(0, Prediction("", none, notes=("no answer in the context",)))
        elif self.scorer.may_be_unanswered:
            ranked.append(Prediction("", none, notes=("no answer in the context",)))
        return ranked[0]._replace(alternatives=tuple(ranked[1:count]))


def _span_prediction(context: str, start: int, end: int, probability: float) -> Prediction:
    text = context[start:end]
    span = {"label": "answer", "text": text, "start": start, "end": end, "score": probability}
    return Prediction(text, probability, spans=(span,))
