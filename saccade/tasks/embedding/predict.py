"""The vectors of sentences, and the nearest sentences of a file."""

from collections.abc import Sequence

from pydantic import Field

from saccade.config import Config
from saccade.errors import ConfigError
from saccade.tasks.base import PredictContext, TextPredictor
from saccade.tasks.embedding.scorer import SentenceScorer
from saccade.tasks.embedding.search import open_index
from saccade.types.arrays import Float32Array
from saccade.types.limits import MAX_COUNT
from saccade.types.results import Prediction


class SentenceOptions(Config):
    """Options of the prediction of sentence vectors."""

    nearest: str | None = None
    """File to search for the nearest sentences; None: return the vector."""
    n_best: int = Field(1, ge=1, le=MAX_COUNT)
    """Number of nearest sentences, best first."""


class SentencePredictor(TextPredictor):
    """Computes the vector of a sentence, or searches for the nearest sentences."""

    options = SentenceOptions

    def __init__(self, scorer: SentenceScorer):
        self.scorer = scorer

    def truncate(self, text: str) -> str:
        """Return the longest prefix of a text that the model reads."""
        return self.scorer.truncate(text)

    def vectors(self, inputs: Sequence[str]) -> Float32Array:
        """Return the vectors of sentences (N, D), of length 1."""
        return self.scorer.vectors(inputs)

    def predict(
        self, inputs: Sequence[str], options: Config, context: PredictContext
    ) -> list[Prediction]:
        """Return the vector of each sentence as `values`, or the nearest sentences with cosines."""
        assert isinstance(options, SentenceOptions)
        if options.nearest is not None:
            return self._nearest(inputs, options, context)
        if options.n_best > 1:
            raise ConfigError(
                "got n_best and no file to search in; expected nearest=FILE with it (on the "
                "command line --nearest FILE): a sentence has one vector."
            )
        rows = self.scorer.vectors(inputs, context.on_progress).tolist()
        return [
            Prediction(" ".join(f"{value:.5g}" for value in row), values=tuple(row)) for row in rows
        ]

    def _nearest(
        self, inputs: Sequence[str], options: SentenceOptions, context: PredictContext
    ) -> list[Prediction]:
        assert options.nearest is not None
        corpus = open_index(self.scorer, options.nearest, context.folder, context.on_progress)
        vectors = self.scorer.vectors(inputs)
        rows, cosines = corpus.vectors.search(vectors, options.n_best)
        found = []
        for numbers, scores in zip(rows.tolist(), cosines.tolist(), strict=True):
            best, *others = (
                Prediction(corpus.texts[number], score)
                for number, score in zip(numbers, scores, strict=True)
            )
            found.append(best._replace(alternatives=tuple(others)))
        return found
