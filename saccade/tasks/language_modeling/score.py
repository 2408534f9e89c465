"""Log-likelihood of a text under a language model."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from numpy.typing import NDArray

from saccade.data.text.lm_batching import sequential_segments
from saccade.estimators.ngram.model import NGram
from saccade.models.base import CausalLM
from saccade.tasks.language_modeling.data import LMBatch
from saccade.tasks.language_modeling.ngram import NGramModel
from saccade.tasks.language_modeling.objective import EVAL_STREAMS, segment_loss
from saccade.tasks.neural import device_of
from saccade.types.progress import Progress, ProgressCounter, ignore_progress
from saccade.types.shapes import select_rows


class TextScorer(ABC):
    """Scores token ids by a language model."""

    @abstractmethod
    def log_likelihood(self, ids: NDArray[Any], on_progress: Progress = ignore_progress) -> float:
        """Return the summed log-probability of all tokens but the first."""

    @property
    @abstractmethod
    def context_description(self) -> str:
        """Description of the context that a token has when it is scored."""


class NeuralScorer(TextScorer):
    """Scores a text in parallel streams, each continuing from its state."""

    def __init__(self, model: CausalLM, segment_length: int):
        self.model, self.segment_length = model, segment_length

    @torch.no_grad()
    def log_likelihood(self, ids: NDArray[Any], on_progress: Progress = ignore_progress) -> float:
        """Return the summed log-probability of all tokens but the first."""
        model: CausalLM = self.model.eval()
        counter = ProgressCounter(on_progress, "evaluating", len(ids) - 1)
        state: Any = None
        total, rows_before = 0.0, 0
        length = model.eval_stride or self.segment_length
        for segments in sequential_segments(ids, EVAL_STREAMS, length, seed=0, epoch=0):
            rows = len(segments.inputs)
            if segments.reset_state:
                state = model.init_cache(rows)
            elif rows < rows_before:
                state = select_rows(state, torch.arange(rows, device=device_of(model)))
            rows_before = rows
            loss, state = segment_loss(model, segments, model.forward_hidden, state, 0.0)
            total -= float(loss.total)
            counter.advance(LMBatch(segments).tokens)
        return total

    @property
    def context_description(self) -> str:
        """Description of the context that a token has when it is scored."""
        return (
            f"in one of {EVAL_STREAMS} parts of the text, a token's context is "
            f"{self.model.context_description}"
        )


class NGramScorer(TextScorer):
    """Scores a text by counts."""

    def __init__(self, ngram: NGram):
        self.ngram = ngram

    def log_likelihood(self, ids: NDArray[Any], on_progress: Progress = ignore_progress) -> float:
        """Return the summed log-probability of all tokens but the first."""
        return float(self.ngram.log_probabilities(ids)[1:].sum())

    @property
    def context_description(self) -> str:
        """Description of the context that a token has."""
        return f"a token's context is the {self.ngram.order - 1} before it"


def scorer_of(model: CausalLM | NGramModel, segment_length: int) -> TextScorer:
    """Return the scorer of a model."""
    if isinstance(model, NGramModel):
        return NGramScorer(model.ngram)
    return NeuralScorer(model, segment_length)
