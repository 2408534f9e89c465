"""Predicting the tags of the words of a text, and the spans that they mark."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saccade.config import Config
from saccade.data.word_splitting import SPAN_SPLITTERS
from saccade.errors import ConfigError
from saccade.metrics.spans import tag_spans
from saccade.tasks.base import PredictContext, Predictor
from saccade.tasks.tagging.scorer import TaggedTokens, TagScorer
from saccade.types.results import Prediction

PREDICT_SENTENCES = 2048  # texts between two reports of progress


class TokenizedText(NamedTuple):
    """A text and the positions of its words."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[start:end] for start, end in self.spans)


def join_tokens(tokens: Sequence[str]) -> TokenizedText:
    """Return words as a text with a space between two of them."""
    spans, at = [], 0
    for token in tokens:
        spans.append((at, at + len(token)))
        at += len(token) + 1
    return TokenizedText(" ".join(tokens), tuple(spans))


class TagPredictor(Predictor[TokenizedText]):
    """Predicts the tag of each word of a text, or of a tuple of words."""

    input_types = (str, tuple)

    def __init__(self, scorer: TagScorer):
        self.scorer = scorer
        self.splitter = SPAN_SPLITTERS[scorer.recipe.data.split]

    def parse(self, raw: object, number: int) -> TokenizedText:
        """Return the words of a text; words that are given are not split."""
        if isinstance(raw, str):
            return TokenizedText(raw, tuple(self.splitter(raw)))
        if isinstance(raw, tuple) and all(isinstance(w, str) and w.strip() for w in raw):
            return join_tokens([str(word) for word in raw])
        raise ConfigError(
            f"input {number}: got a {type(raw).__name__}; expected a text, or a tuple of words."
        )

    def predict(
        self, inputs: Sequence[TokenizedText], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the tags and spans of each text."""
        predictions: list[Prediction] = []
        for start in range(0, len(inputs), PREDICT_SENTENCES):
            some = inputs[start : start + PREDICT_SENTENCES]
            table = self.scorer.encode([given.tokens for given in some if given.spans])
            tagged = iter(self.scorer.predict(table))
            none = TaggedTokens((), np.zeros(0))
            predictions += [self._predict(g, next(tagged) if g.spans else none) for g in some]
            context.on_progress("predicting", len(predictions), len(inputs))
        return predictions

    def _predict(self, given: TokenizedText, tagged: TaggedTokens) -> Prediction:
        score = float(tagged.probabilities.mean()) if given.spans else None
        if not self.scorer.vocabulary.is_bio:
            pairs = zip(given.tokens, tagged.tags, strict=True)
            text = " ".join(f"{token}/{tag}" for token, tag in pairs)
            return Prediction(text, score, tokens=given.tokens, tags=tagged.tags)
        spans = tuple(self._spans(given, tagged))
        return Prediction(
            bracket_spans(given.text, spans),
            score,
            tokens=given.tokens,
            tags=tagged.tags,
            spans=spans,
        )

    def _spans(self, given: TokenizedText, tagged: TaggedTokens) -> list[dict[str, Any]]:
        """Return the spans with their positions in the text; the score is the least token's."""
        found = []
        for span in tag_spans(tagged.tags):
            start, end = given.spans[span.start][0], given.spans[span.end - 1][1]
            found.append(
                {
                    "label": span.label,
                    "text": given.text[start:end],
                    "start": start,
                    "end": end,
                    "score": float(tagged.probabilities[span.start : span.end].min()),
                }
            )
        return found


def bracket_spans(text: str, spans: Sequence[dict[str, Any]]) -> str:
    """Return a text with each span in brackets, its label after it: [Ada Berg](person)."""
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span["start"]], f"[{span['text']}]({span['label']})"]
        at = span["end"]
    return "".join([*parts, text[at:]])
